#include "framework/base/printable.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/text.h"

namespace sluice {

std::string Printable(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = std::max<size_t>(Utf8Length(text), 1);
    const auto first = static_cast<uint8_t>(text[0]);
    // To a terminal U+0080 to U+009F are controls as well, in UTF-8 too: U+009B begins a sequence.
    const bool control = size == 2 && first == 0xC2 && static_cast<uint8_t>(text[1]) < 0xA0;
    if ((size > 1 && !control) || first == '\n' || first == '\t' ||
        (first >= 0x20 && first < 0x7F)) {
      absl::StrAppend(&out, text.substr(0, size));
    } else {
      for (const char c : text.substr(0, size)) {
        absl::StrAppendFormat(&out, "\\x%02x", static_cast<uint8_t>(c));
      }
    }
    text.remove_prefix(size);
  }
  return out;
}

std::string PrintableLine(absl::string_view text) {
  std::string line = Printable(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace sluice
