// WordPiece, the tokenizer of BERT: words of a text as pieces of a vocabulary. Ids and ranges are
// those of Hugging Face's tokenizers, except that Unicode is of version 15 here and of 8 there (824
// marks, signs of punctuation and controls that came since), and that U+2B820 to U+2B91F are
// Chinese, as in Google's code. Once made it changes no more: any thread, several at once.
#ifndef SLUICE_FRAMEWORK_DATA_WORD_PIECE_H_
#define SLUICE_FRAMEWORK_DATA_WORD_PIECE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/basic_tokenizer.h"
#include "framework/data/unicode.h"

namespace sluice {

// The pieces that stand for no text, as a vocabulary writes them.
struct SpecialPieces {
  std::string padding = "[PAD]", unknown = "[UNK]", classify = "[CLS]", separator = "[SEP]",
              mask = "[MASK]";
  friend bool operator==(const SpecialPieces&, const SpecialPieces&) = default;
};

struct WordPieceOptions {
  TextNormalization text = {};
  int64_t longest_word = 100;  // in code points, as Hugging Face has it; a longer one is unknown
  SpecialPieces special = {};
  friend bool operator==(const WordPieceOptions&, const WordPieceOptions&) = default;
};

class WordPiece {
 public:
  // A vocabulary as vocab.txt holds it, a piece a line, its id the line's number from 0; what goes
  // on in a word begins with "##". Errors name `what` the text is, and the line: a special piece is
  // missing, a piece is there twice, a line has none or is not UTF-8, there are too many.
  static absl::StatusOr<WordPiece> Parse(absl::string_view what, absl::string_view vocabulary,
                                         const WordPieceOptions& options = {});
  // The same of a file.
  static absl::StatusOr<WordPiece> Read(const std::string& path,
                                        const WordPieceOptions& options = {});

  // Appends the pieces of a text: of each word (basic_tokenizer.h) the longest piece that it begins
  // with, then the longest that its rest begins with, ..; a word with a rest that none fits is one
  // [UNK]. What looks like [CLS] in a text is text. `ranges`, if not null, gets for each piece the
  // bytes of the text from its first to its last character.
  void Encode(absl::string_view text, std::vector<int32_t>* ids,
              std::vector<TextRange>* ranges = nullptr) const;

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  const std::string& piece(int32_t id) const { return pieces_[id]; }
  bool GoesOn(int32_t id) const { return goes_on_[id]; }  // whether the piece begins with "##"
  int32_t padding() const { return padding_; }
  int32_t unknown() const { return unknown_; }
  int32_t classify() const { return classify_; }    // [CLS]
  int32_t separator() const { return separator_; }  // [SEP]
  int32_t mask() const { return mask_; }
  bool IsSpecial(int32_t id) const {
    return id == padding_ || id == unknown_ || id == classify_ || id == separator_ || id == mask_;
  }
  const WordPieceOptions& options() const { return options_; }
  uint64_t digest() const;  // of pieces and options; stable

 private:
  explicit WordPiece(const WordPieceOptions& options) : options_(options) {}
  absl::Status FindSpecial(absl::string_view what);
  bool EncodeWord(absl::string_view word, absl::Span<const TextRange> origins,
                  std::vector<int32_t>* ids, std::vector<TextRange>* ranges) const;

  // Pieces by their text, without "##"; `longest` of them in bytes.
  struct Table {
    absl::flat_hash_map<std::string, int32_t> ids;
    size_t longest = 0;
  };

  WordPieceOptions options_;
  std::vector<std::string> pieces_;
  std::vector<bool> goes_on_;
  Table begins_, continues_;
  int32_t padding_ = 0, unknown_ = 0, classify_ = 0, separator_ = 0, mask_ = 0;
};

// The text of a vocabulary of at most `size` pieces, learned from texts: the five special ones, the
// characters that are not rare, by themselves and with "##", then again and again the two
// neighbouring pieces that occur most often, as one. A function of the words and how often they
// occur: of several pairs that occur alike it takes the one whose pieces came first. An error if
// `size` does not hold what it begins with.
absl::StatusOr<std::string> LearnWordPieces(absl::Span<const absl::string_view> texts, int64_t size,
                                            const WordPieceOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_WORD_PIECE_H_
