// Pairs, a zero byte, and a text; or, after a first byte 1, an encoder.json, a zero byte, and
// pairs.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/data/byte_pair.h"

namespace {

// All bytes, and the pairs of some letters, so that pairs of the input mean something.
std::string Encoder() {
  std::string json = "{";
  int token = 0;
  const auto add = [&json, &token](absl::string_view text) {
    absl::StrAppend(&json, token == 0 ? "" : ",", "\"", text, "\":", token);
    ++token;
  };
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    const int character = printable ? byte : next++;
    constexpr char kDigits[] = "0123456789abcdef";
    std::string escape = "\\u0";
    for (const int shift : {8, 4, 0}) escape.push_back(kDigits[character >> shift & 15]);
    add(escape);
  }
  for (const absl::string_view text : {"ab", "bc", "abc", "aa", "aaa", "aaaa", "abab",
                                       "\xc4\xa0"
                                       "a"})
    add(text);
  return json + "}";
}

void Try(absl::string_view encoder, absl::string_view merges, absl::string_view text) {
  const auto byte_pair = sluice::BytePair::Parse("encoder", encoder, "merges", merges);
  if (!byte_pair.ok()) return;
  std::vector<int32_t> tokens;
  byte_pair->Encode(text, &tokens);
  SLUICE_CHECK_LE(tokens.size(), text.size());
  SLUICE_CHECK(*byte_pair->Decode(tokens) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string& encoder = *new std::string(Encoder());
  absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = bytes.find('\0');
  if (size == 0 || end == absl::string_view::npos) return 0;
  const absl::string_view first = bytes.substr(0, end), second = bytes.substr(end + 1);
  if (data[0] == 1) {
    Try(first.substr(1), second, second);
  } else {
    Try(encoder, first, second);
  }
  return 0;
}
