// BERT's basic tokenizer: a text as words, before a vocabulary cuts them into pieces. One thread.
#ifndef SLUICE_FRAMEWORK_DATA_BASIC_TOKENIZER_H_
#define SLUICE_FRAMEWORK_DATA_BASIC_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/unicode.h"

namespace sluice {

// How the words of a text are brought into the form that a vocabulary has them in. The defaults are
// those of an uncased BERT; a cased one has neither lower case nor stripped accents.
struct TextNormalization {
  bool lower_case = true;
  // Letters are decomposed canonically, and lose their nonspacing marks.
  bool strip_accents = true;
  // Each Chinese character is a word by itself.
  bool split_chinese = true;
  friend bool operator==(const TextNormalization&, const TextNormalization&) = default;
};

// Walks over the words of a text. White space separates them; each mark of punctuation is a word by
// itself; controls and U+FFFD are dropped, and so are bytes that are not UTF-8.
class WordReader {
 public:
  // `text` must outlive the reader.
  explicit WordReader(absl::string_view text, const TextNormalization& normalization = {})
      : text_(text), normalization_(normalization) {}

  bool Next();  // false at the end of the text
  // Until the next call: the word, and for each of its bytes the character of the text that it was
  // made of.
  absl::string_view word() const { return word_; }
  absl::Span<const TextRange> origins() const { return origins_; }
  int64_t code_points() const { return static_cast<int64_t>(units_.size()); }  // of the word

 private:
  struct Unit {
    uint32_t code_point = 0;
    TextRange origin;
  };
  void Add(uint32_t code_point, TextRange origin);
  bool AddCharacter(CodePoint first);
  bool AddStripped(CodePoint first, bool chinese);
  bool Finish();

  absl::string_view text_;
  TextNormalization normalization_;
  int64_t at_ = 0;
  std::vector<Unit> units_;
  size_t movable_ = 0;  // units from here on may change places with a mark that follows
  std::string word_;
  std::vector<TextRange> origins_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_BASIC_TOKENIZER_H_
