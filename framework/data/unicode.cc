#include "framework/data/unicode.h"

#include <utf8proc.h>

#include "framework/base/text.h"

namespace sluice {
namespace {

utf8proc_category_t Category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

}  // namespace

CodePoint FirstCodePoint(absl::string_view text) {
  const auto byte = [text](size_t at) {
    return static_cast<uint32_t>(static_cast<uint8_t>(text[at]));
  };
  if (byte(0) < 0x80) return {byte(0), 1};
  switch (Utf8Length(text)) {
    case 2:
      return {(byte(0) & 0x1f) << 6 | (byte(1) & 0x3f), 2};
    case 3:
      return {(byte(0) & 0xf) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
    case 4:
      return {
          (byte(0) & 0x7) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f),
          4};
    default:
      return {kReplacementCharacter, 1};
  }
}

void AppendUtf8(uint32_t code_point, std::string* to) {
  if (code_point < 0x80) {
    to->push_back(static_cast<char>(code_point));
    return;
  }
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t size =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  to->append(reinterpret_cast<const char*>(bytes), size);
}

bool IsControl(uint32_t code_point) {
  // Code points that are not assigned are no controls: a later Unicode may know them.
  const utf8proc_category_t category = Category(code_point);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO || category == UTF8PROC_CATEGORY_CS;
}

bool IsLetter(uint32_t code_point) {
  const utf8proc_category_t category = Category(code_point);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsNumber(uint32_t code_point) {
  const utf8proc_category_t category = Category(code_point);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool IsPunctuation(uint32_t code_point) {
  const utf8proc_category_t category = Category(code_point);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool IsNonspacingMark(uint32_t code_point) { return Category(code_point) == UTF8PROC_CATEGORY_MN; }

bool IsWhiteSpace(uint32_t code_point) {
  return (code_point >= 0x9 && code_point <= 0xd) || code_point == 0x85 ||
         (code_point >= 0x20 && Category(code_point) >= UTF8PROC_CATEGORY_ZS &&
          Category(code_point) <= UTF8PROC_CATEGORY_ZP);
}

uint32_t LowerCase(uint32_t code_point) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}

int CombiningClass(uint32_t code_point) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->combining_class;
}

Decomposition Decompose(uint32_t code_point) {
  Decomposition result;
  std::array<utf8proc_int32_t, 8> parts;
  int boundary = 0;
  const utf8proc_ssize_t size = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(code_point), parts.data(), parts.size(),
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
  if (size < 1 || size > static_cast<utf8proc_ssize_t>(parts.size())) {
    // A surrogate or a number beyond Unicode, which no UTF-8 has.
    result.code_points[0] = code_point;
    result.size = 1;
    return result;
  }
  for (utf8proc_ssize_t i = 0; i < size; ++i)
    result.code_points[i] = static_cast<uint32_t>(parts[i]);
  result.size = static_cast<int>(size);
  return result;
}

}  // namespace sluice
