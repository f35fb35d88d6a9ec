// After a first byte 0 a .bin; else that many bytes of an .idx, and its .bin.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/data/token_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const absl::string_view idx = bytes.substr(0, std::min<size_t>(data[0], bytes.size()));
  const absl::string_view bin = bytes.substr(idx.size());
  // Of 16 bits, and of 32.
  const int64_t vocabulary = bin.size() % 3 == 0 ? 65536 : 100000;
  const auto file = data[0] == 0 ? sluice::ParseTokens("bin", bin, vocabulary)
                                 : sluice::ParseMegatron("bin", bin, "idx", idx);
  if (!file.ok()) return 0;
  const int64_t largest =
      file->tokens.empty() ? 0 : *std::max_element(file->tokens.begin(), file->tokens.end());
  const auto written = sluice::BytesOfTokens(*file, std::max(vocabulary, largest + 1));
  SLUICE_CHECK_OK(written.status());
  const bool megatron = file->format == sluice::TokenFormat::kMegatron;
  const auto again = megatron ? sluice::ParseMegatron("bin", written->bin, "idx", written->idx)
                              : sluice::ParseTokens("bin", written->bin, vocabulary);
  SLUICE_CHECK_OK(again.status());
  SLUICE_CHECK(again->tokens == file->tokens && again->sequences == file->sequences);
  SLUICE_CHECK(again->documents == file->documents && again->modes == file->modes);
  return 0;
}
