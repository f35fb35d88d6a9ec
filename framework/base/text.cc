#include "framework/base/text.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

constexpr absl::string_view kLongPunctuation[] = {"->", "::", "...", "==", "<=", ">=", "!="};

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// How many insertions, deletions, replacements and swaps of neighbours turn one word into the
// other; case is ignored.
int Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  auto same = [&](size_t i, size_t j) {
    return absl::ascii_tolower(a[i - 1]) == absl::ascii_tolower(b[j - 1]);
  };
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + !same(i, j)});
      if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j)) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

TextScanner::TextScanner(absl::string_view text, absl::string_view name,
                         absl::string_view identifier_extra)
    : text_(text), name_(name), identifier_extra_(identifier_extra) {
  Advance();
  token_.first_on_line = true;
}

bool TextScanner::IsIdentifier(char c) const {
  if (c == '\0') return false;
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         identifier_extra_.find(c) != std::string::npos;
}

void TextScanner::SkipBlanks() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '#') {
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    } else if (c == '\n') {
      line_start_ = ++position_;
      ++line_;
    } else if (absl::ascii_isspace(static_cast<unsigned char>(c))) {
      ++position_;
    } else {
      return;
    }
  }
}

// The end of the number at position_, or position_ if there is none.
size_t TextScanner::NumberEnd(bool* is_float) const {
  size_t end = position_;
  *is_float = false;
  if (At(end) == '-') {
    const char before = position_ == 0 ? ' ' : text_[position_ - 1];
    if (IsIdentifier(before) || before == ')' || before == ']' || before == '}') return position_;
    ++end;
    if (text_.substr(end, 3) == "inf" && !IsIdentifier(At(end + 3))) {
      *is_float = true;
      return end + 3;
    }
  }
  if (!IsDigit(At(end)) && !(At(end) == '.' && IsDigit(At(end + 1)))) return position_;
  while (IsDigit(At(end))) ++end;
  if (At(end) == '.' && At(end + 1) != '.') {  // "1..." is a number and an ellipsis
    *is_float = true;
    for (++end; IsDigit(At(end));) ++end;
  }
  if (At(end) == 'e' || At(end) == 'E') {
    const size_t sign = At(end + 1) == '-' || At(end + 1) == '+' ? 1 : 0;
    if (IsDigit(At(end + 1 + sign))) {
      *is_float = true;
      for (end += 1 + sign; IsDigit(At(end));) ++end;
    }
  }
  return end;
}

void TextScanner::ReadString() {
  const size_t start = position_++;
  auto bad = [&](absl::string_view why) {
    token_.kind = Kind::kBad;
    token_.value = std::string(why);
    token_.text = text_.substr(start, position_ - start);
    position_ = text_.size();
  };
  token_.kind = Kind::kString;
  while (At(position_) != '"') {
    const char c = At(position_);
    if (position_ >= text_.size() || c == '\n') return bad("a string without its closing quote");
    ++position_;
    if (c != '\\') {
      token_.value += c;
      continue;
    }
    const char escape = At(position_++);
    static constexpr absl::string_view kFrom = "\"\\ntr", kTo = "\"\\\n\t\r";
    const size_t known = kFrom.find(escape);
    if (known != absl::string_view::npos) {
      token_.value += kTo[known];
    } else if (escape == 'x' && HexDigit(At(position_)) >= 0 && HexDigit(At(position_ + 1)) >= 0) {
      token_.value += static_cast<char>(HexDigit(At(position_)) * 16 + HexDigit(At(position_ + 1)));
      position_ += 2;
    } else {
      position_ = std::min(position_, text_.size());
      return bad("an unknown escape in a string");
    }
  }
  ++position_;
  token_.text = text_.substr(start, position_ - start);
}

void TextScanner::Advance() {
  const int last_line = line_;
  SkipBlanks();
  token_ = Token();
  token_.line = line_;
  token_.column = static_cast<int>(position_ - line_start_) + 1;
  token_.first_on_line = line_ != last_line;
  if (position_ >= text_.size()) return;
  const size_t start = position_;
  const char c = text_[start];
  bool is_float;
  if (const size_t end = NumberEnd(&is_float); end != start) {
    token_.kind = is_float ? Kind::kFloat : Kind::kInteger;
    position_ = end;
  } else if (absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_') {
    token_.kind = Kind::kIdentifier;
    while (IsIdentifier(At(position_))) ++position_;
  } else if (c == '"') {
    return ReadString();
  } else if (absl::ascii_isprint(static_cast<unsigned char>(c))) {
    token_.kind = Kind::kPunctuation;
    position_ = start + 1;
    for (absl::string_view punctuation : kLongPunctuation) {
      if (text_.substr(start, punctuation.size()) == punctuation) {
        position_ = start + punctuation.size();
      }
    }
  } else {
    token_.kind = Kind::kBad;
    token_.value = absl::StrFormat("a byte that is no text: 0x%02x", static_cast<unsigned char>(c));
    position_ = text_.size();
  }
  token_.text = text_.substr(start, position_ - start);
}

TextScanner::Token TextScanner::Next() {
  Token token = std::move(token_);
  if (token.kind == Kind::kBad) {  // stays: whatever is asked for next fails here
    token_ = token;
  } else {
    Advance();
  }
  return token;
}

bool TextScanner::At(absl::string_view text) const {
  return (token_.kind == Kind::kIdentifier || token_.kind == Kind::kPunctuation) &&
         token_.text == text;
}

bool TextScanner::Accept(absl::string_view text) {
  if (!At(text)) return false;
  Advance();
  return true;
}

absl::Status TextScanner::Expect(absl::string_view text) {
  if (Accept(text)) return absl::OkStatus();
  return Unexpected(Quoted(text));
}

absl::StatusOr<std::string> TextScanner::Identifier(absl::string_view what) {
  if (token_.kind != Kind::kIdentifier) return Unexpected(what);
  return std::string(Next().text);
}

absl::StatusOr<int64_t> TextScanner::Integer(absl::string_view what) {
  if (token_.kind != Kind::kInteger) return Unexpected(what);
  int64_t value;
  if (!absl::SimpleAtoi(token_.text, &value)) {
    return Error(absl::StrCat(what, ": ", token_.text, " does not fit in 64 bits"));
  }
  Advance();
  return value;
}

absl::StatusOr<uint64_t> TextScanner::Unsigned(absl::string_view what) {
  if (token_.kind != Kind::kInteger) return Unexpected(what);
  uint64_t value;
  if (!absl::SimpleAtoi(token_.text, &value)) {
    return Error(absl::StrCat(what, ": ", token_.text, " is negative or does not fit in 64 bits"));
  }
  Advance();
  return value;
}

absl::StatusOr<double> TextScanner::Number(absl::string_view what) {
  if (At("nan") || At("inf")) {
    const bool nan = Next().text == "nan";
    return nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  }
  double value;
  if ((token_.kind != Kind::kInteger && token_.kind != Kind::kFloat) ||
      !absl::SimpleAtod(token_.text, &value)) {
    return Unexpected(what);
  }
  Advance();
  return value;
}

absl::StatusOr<std::string> TextScanner::String(absl::string_view what) {
  if (token_.kind != Kind::kString) return Unexpected(what);
  return Next().value;
}

absl::Status TextScanner::Unexpected(absl::string_view expected) const {
  if (token_.kind == Kind::kBad) return Error(token_.value);
  const std::string got =
      token_.kind == Kind::kEnd ? "the end of the text" : Quoted(token_.text.substr(0, 60));
  return Error(absl::StrCat("expected ", expected, ", got ", got));
}

absl::Status TextScanner::ErrorAt(const Token& token, absl::string_view message) const {
  return absl::InvalidArgumentError(
      absl::StrCat(name_, name_.empty() ? "" : ":", token.line, ":", token.column, ": ", message));
}

std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", absl::string_view(&c, 1));
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (c == '\r') {
      quoted += "\\r";
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&quoted, "\\x%02x", byte);
    } else {
      quoted += c;  // UTF-8 stays readable
    }
  }
  return quoted + '"';
}

std::string NumberText(double number) {
  char text[32];
  const std::to_chars_result result = std::to_chars(text, text + sizeof(text), number);
  return std::string(text, result.ptr);
}

size_t Utf8Length(absl::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Of these the second byte alone tells longer forms, surrogates and what lies past U+10FFFF.
  const uint8_t second = byte(1);
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : size;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t size = Utf8Length(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string NearestName(absl::string_view word, absl::Span<const std::string> candidates) {
  std::string nearest;
  int nearest_distance = std::numeric_limits<int>::max();
  for (const std::string& candidate : candidates) {
    const int distance = candidate == word ? -1 : Distance(word, candidate);
    const int tolerated =
        std::max<int>(1, static_cast<int>(std::max(word.size(), candidate.size())) / 3);
    if (distance <= tolerated && distance < nearest_distance) {
      nearest = candidate;
      nearest_distance = distance;
    }
  }
  return nearest;
}

std::string DidYouMean(absl::string_view word, absl::Span<const std::string> candidates) {
  const std::string nearest = NearestName(word, candidates);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", Quoted(nearest), "?");
}

}  // namespace sluice
