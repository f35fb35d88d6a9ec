// Text as code points, and what Unicode 15 says of each. Pure.
#ifndef SLUICE_FRAMEWORK_DATA_UNICODE_H_
#define SLUICE_FRAMEWORK_DATA_UNICODE_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// Bytes [begin, end) of a text.
struct TextRange {
  int64_t begin = 0, end = 0;
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

struct CodePoint {
  uint32_t value = 0;
  int32_t length = 0;  // in bytes
};

// What stands for a byte that is no UTF-8, as in other decoders.
inline constexpr uint32_t kReplacementCharacter = 0xfffd;

// That with which a text that is not empty begins; a byte that is no UTF-8 stands alone.
CodePoint FirstCodePoint(absl::string_view text);
void AppendUtf8(uint32_t code_point, std::string* to);

// The general categories and properties that tokenizers ask for.
bool IsControl(uint32_t code_point);         // Cc, Cf, Co, Cs
bool IsLetter(uint32_t code_point);          // L*
bool IsNumber(uint32_t code_point);          // N*
bool IsPunctuation(uint32_t code_point);     // P*
bool IsNonspacingMark(uint32_t code_point);  // Mn
bool IsWhiteSpace(uint32_t code_point);      // White_Space

uint32_t LowerCase(uint32_t code_point);  // the simple mapping, one to one
int CombiningClass(uint32_t code_point);  // by which marks are put in order, 0: stays where it is

// The full canonical decomposition of one code point, `size` of them.
struct Decomposition {
  std::array<uint32_t, 8> code_points = {};
  int size = 0;
};
Decomposition Decompose(uint32_t code_point);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_UNICODE_H_
