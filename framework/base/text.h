// Reading and writing the small text forms of graphs, plans, meshes and flags. Pure, but for the
// scanner's place.
#ifndef SLUICE_FRAMEWORK_BASE_TEXT_H_
#define SLUICE_FRAMEWORK_BASE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

// Splits text into tokens and says line and column where it is not what was expected:
//   plan.txt:3:14: expected a register, got "quota"
// Blanks, ends of line and comments (# to the end of the line) separate tokens.
//   identifier   [A-Za-z_] then [A-Za-z0-9_] and the caller's extra characters
//   integer      -?[0-9]+     float   with a point or an exponent; also inf, -inf, nan
//   string       "..." with \" \\ \n \t \r \xHH, on one line
//   punctuation  one of  -> :: ... == <= >= !=  or else one character
// A '-' that directly follows an identifier, a number or a closing bracket is punctuation.
class TextScanner {
 public:
  enum class Kind { kEnd, kIdentifier, kInteger, kFloat, kString, kPunctuation, kBad };
  struct Token {
    Kind kind = Kind::kEnd;
    absl::string_view text;    // as written; kBad: what is wrong with it is in `value`
    std::string value;         // kString: without quotes and escapes
    int line = 1, column = 1;  // from 1, in bytes
    bool first_on_line = false;
  };

  // `text` must outlive the scanner. `name`, such as a file's, begins every error; it may be empty.
  // `identifier_extra` are further characters that identifiers may contain after the first, such as
  // "./".
  explicit TextScanner(absl::string_view text, absl::string_view name = "",
                       absl::string_view identifier_extra = "");

  const Token& Peek() const { return token_; }
  Token Next();
  bool AtEnd() const { return token_.kind == Kind::kEnd; }
  // Is the next token this identifier or punctuation? Accept takes it if so.
  bool At(absl::string_view text) const;
  bool Accept(absl::string_view text);
  absl::Status Expect(absl::string_view text);

  // Takes a token of this kind. `what` names it in the error: "a register".
  absl::StatusOr<std::string> Identifier(absl::string_view what);
  absl::StatusOr<int64_t> Integer(absl::string_view what);
  absl::StatusOr<uint64_t> Unsigned(absl::string_view what);
  absl::StatusOr<double> Number(absl::string_view what);  // integers too
  absl::StatusOr<std::string> String(absl::string_view what);

  // An error at the next token, or at one that was taken before.
  absl::Status Error(absl::string_view message) const { return ErrorAt(token_, message); }
  absl::Status ErrorAt(const Token& token, absl::string_view message) const;

 private:
  absl::Status Unexpected(absl::string_view expected) const;
  char At(size_t position) const { return position < text_.size() ? text_[position] : '\0'; }
  bool IsIdentifier(char c) const;
  void SkipBlanks();
  void Advance();  // reads token_ at position_
  size_t NumberEnd(bool* is_float) const;
  void ReadString();

  absl::string_view text_;
  std::string name_, identifier_extra_;
  size_t position_ = 0, line_start_ = 0;
  int line_ = 1;
  Token token_;
};

// "..." with escapes, as the scanner reads it.
std::string Quoted(absl::string_view text);
// The shortest text that reads back as exactly this number.
std::string NumberText(double number);

// How many bytes the character takes that `text` begins with in UTF-8; 0 where it begins with none:
// with a byte out of place, a sequence cut short, a longer form than need be, or a surrogate.
size_t Utf8Length(absl::string_view text);
bool IsUtf8(absl::string_view text);

// The candidate that `word` was most likely meant to be, the first of equals; empty if none is
// near.
std::string NearestName(absl::string_view word, absl::Span<const std::string> candidates);
// `; did you mean "x"?`, or nothing: to be appended to an error.
std::string DidYouMean(absl::string_view word, absl::Span<const std::string> candidates);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_TEXT_H_
