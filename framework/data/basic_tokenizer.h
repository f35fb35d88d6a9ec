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

// Walks over the words of a text. White space parts them; each mark of punctuation and each Chinese
// character is a word by itself; controls and U+FFFD are dropped, and so are bytes that are no
// UTF-8. `uncased`: words are in lower case and without accents.
class WordReader {
 public:
  // `text` must outlive it.
  WordReader(absl::string_view text, bool uncased) : text_(text), uncased_(uncased) {}

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
  bool Finish();

  absl::string_view text_;
  bool uncased_;
  int64_t at_ = 0;
  std::vector<Unit> units_;
  size_t movable_ = 0;  // units from here on may change places with a mark that follows
  std::string word_;
  std::vector<TextRange> origins_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_BASIC_TOKENIZER_H_
