#include "framework/data/basic_tokenizer.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"

namespace sluice {
namespace {

// What google-research/bert takes for Chinese: neither kana nor Hangul, whose words have blanks or
// are cut by the vocabulary.
bool IsChinese(uint32_t c) {
  static constexpr std::array<std::array<uint32_t, 2>, 8> kBlocks = {{{0x4e00, 0x9fff},
                                                                      {0x3400, 0x4dbf},
                                                                      {0x20000, 0x2a6df},
                                                                      {0x2a700, 0x2b73f},
                                                                      {0x2b740, 0x2b81f},
                                                                      {0x2b820, 0x2ceaf},
                                                                      {0xf900, 0xfaff},
                                                                      {0x2f800, 0x2fa1f}}};
  for (const auto& [first, last] : kBlocks) {
    if (c >= first && c <= last) return true;
  }
  return false;
}

// U+0130 is the only character whose lower case is two characters: i and U+0307.
constexpr uint32_t kCapitalIWithDot = 0x130, kDotAbove = 0x307;

// Of ASCII all marks, also those that Unicode calls symbols, such as $ and ^.
bool EndsWord(uint32_t c) {
  return c < 0x80 ? absl::ascii_ispunct(static_cast<unsigned char>(c)) : IsPunctuation(c);
}

}  // namespace

void WordReader::Add(uint32_t code_point, TextRange origin) {
  const int order = CombiningClass(code_point);
  size_t place = units_.size();
  if (order == 0) {
    units_.push_back({code_point, origin});
    movable_ = units_.size();
    return;
  }
  // Marks stand in canonical order, whatever the order in which they were written. No text has more
  // of them on one letter than Unicode's stream-safe form, and a file that was made to harm is not
  // sorted for hours.
  constexpr size_t kMostMoved = 30;
  const size_t least = std::max(movable_, units_.size() - std::min(units_.size(), kMostMoved));
  while (place > least && CombiningClass(units_[place - 1].code_point) > order) --place;
  units_.insert(units_.begin() + static_cast<int64_t>(place), {code_point, origin});
}

// Returns whether the character belongs to the word that was begun. Else it is a word by itself,
// and is added only if no word was begun.
bool WordReader::AddCharacter(CodePoint first) {
  const bool chinese = normalization_.split_chinese && IsChinese(first.value);
  if (normalization_.strip_accents) return AddStripped(first, chinese);
  const TextRange origin = {at_, at_ + first.length};
  const bool alone = EndsWord(first.value) || chinese;
  if (alone && !units_.empty()) return false;
  if (!normalization_.lower_case) {
    units_.push_back({first.value, origin});
  } else if (first.value == kCapitalIWithDot) {
    units_.push_back({'i', origin});
    units_.push_back({kDotAbove, origin});
  } else {
    units_.push_back({LowerCase(first.value), origin});
  }
  return !alone;
}

// AddCharacter of a text that loses its accents.
bool WordReader::AddStripped(CodePoint first, bool chinese) {
  const TextRange origin = {at_, at_ + first.length};
  const Decomposition parts = Decompose(first.value);
  // A sign such as U+226E consists of punctuation and a mark, which is dropped.
  const bool alone = EndsWord(parts.code_points[0]) || chinese;
  if (alone && !units_.empty()) return false;
  for (int i = 0; i < parts.size; ++i) {
    const uint32_t part = parts.code_points[i];
    if (!IsNonspacingMark(part)) {
      Add(normalization_.lower_case ? LowerCase(part) : part, origin);
    } else if (CombiningClass(part) == 0) {
      movable_ = units_.size();  // no mark moves past it, though it is not there
    }
  }
  return !alone;
}

bool WordReader::Next() {
  units_.clear();
  movable_ = 0;
  while (at_ < static_cast<int64_t>(text_.size())) {
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (absl::ascii_isalnum(byte)) {
      const char kept =
          normalization_.lower_case ? absl::ascii_tolower(byte) : static_cast<char>(byte);
      units_.push_back({static_cast<uint32_t>(kept), {at_, at_ + 1}});
      movable_ = units_.size();
      ++at_;
      continue;
    }
    const CodePoint first = FirstCodePoint(text_.substr(at_));
    const bool blank = IsWhiteSpace(first.value);
    const bool line = first.value == '\t' || first.value == '\n' || first.value == '\r';
    if (first.value == kReplacementCharacter || (IsControl(first.value) && !line)) {
      at_ += first.length;
    } else if (blank) {
      if (!units_.empty()) return Finish();
      at_ += first.length;
    } else {
      const bool begun = !units_.empty(), goes_on = AddCharacter(first);
      if (!goes_on && begun) return Finish();
      at_ += first.length;
      if (!goes_on) return Finish();
    }
  }
  return !units_.empty() && Finish();
}

bool WordReader::Finish() {
  word_.clear();
  origins_.clear();
  for (const Unit& unit : units_) {
    AppendUtf8(unit.code_point, &word_);
    origins_.resize(word_.size(), unit.origin);
  }
  return true;
}

}  // namespace sluice
