// What BERT is pre-trained on: two segments of text with some words masked, which the model is to
// name, and whether the second segment follows the first. Any thread, once made.
#ifndef SLUICE_FRAMEWORK_DATA_MASKED_TEXT_H_
#define SLUICE_FRAMEWORK_DATA_MASKED_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/dataset.h"
#include "framework/data/word_piece.h"

namespace sluice {

struct MaskedTextOptions {
  int64_t length = 128;         // of a sample in tokens, T
  int64_t most_predicted = 20;  // of them, M
  double predicted = 0.15;      // the share of a sample's tokens that are predicted, [CLS] and all
  uint64_t seed = 1;
};

// The fields of a sample, i32 but for the weights:
//   tokens [T]     [CLS] a [SEP] b [SEP], then [PAD]; some are masked
//   segments [T]   0 up to the first [SEP], 1 up to the second, then 0
//   length []      tokens that are no padding
//   positions [M]  of the tokens to predict, ascending, then 0
//   labels [M]     which tokens stood there, then 0
//   weights [M]    f32, 1 for each of them, then 0
//   masked_words [] f32, their number, the sum of the weights
//   next []        0: b follows a in its document; 1: it is of another document, as the head of
//                  BERT's published weights counts them
//
// Sample n begins at the n-th place of the text: a document is cut at word ends into pieces as long
// as fit, and where the last would be shorter it begins earlier. What is drawn for it follows from
// (seed, position) alone: where a ends and b begins, at the beginning of a sentence if one is
// there; with probability 1/2, that b is a piece of another document; which words are predicted,
// whole ones. Of the tokens that are predicted 80 % are [MASK], 10 % any other piece, and 10 %
// stay.
class MaskedText : public Dataset {
 public:
  // The vocabulary is not needed afterwards. Errors, naming `what` the text is: no two documents of
  // at least two words, lengths that hold nothing.
  static absl::StatusOr<MaskedText> Create(absl::string_view what,
                                           absl::Span<const std::string> documents,
                                           const WordPiece& vocabulary,
                                           const MaskedTextOptions& options = {});

  int64_t num_samples() const override { return static_cast<int64_t>(samples_.size()); }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return identity_; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override;

  int64_t num_tokens() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t num_documents() const { return static_cast<int64_t>(documents_.size()) - 1; }
  int64_t num_unknown() const { return unknown_; }  // tokens that are [UNK]

 private:
  struct Sample {
    int64_t begin = 0, end = 0;  // of its piece of the text
    int64_t document = 0;
  };
  struct Drawn;
  class Draws;

  explicit MaskedText(const MaskedTextOptions& options) : options_(options) {}
  void AddDocument(absl::string_view text, const WordPiece& vocabulary,
                   std::vector<TextRange>* ranges);
  void CutDocument(int64_t document);
  bool BeginsWord(int64_t at) const { return flags_[at] & kBeginsWord; }
  int64_t WordEnd(int64_t first, int64_t last) const;
  void AddSegment(TextRange tokens, int32_t segment, Drawn* drawn) const;
  int64_t DrawSplit(const Sample& sample, Draws* draws) const;
  TextRange DrawOther(int64_t document, int64_t most, Draws* draws) const;
  void DrawPredicted(Draws* draws, Drawn* drawn) const;
  void Draw(int64_t sample, int64_t position, Drawn* drawn) const;

  enum Flag : uint8_t { kBeginsWord = 1, kBeginsSentence = 2 };

  MaskedTextOptions options_;
  std::vector<int32_t> tokens_;     // of all documents
  std::vector<uint8_t> flags_;      // of each token
  std::vector<int64_t> documents_;  // where each begins, and where the last ends
  std::vector<Sample> samples_;
  int64_t unknown_ = 0;
  int32_t classify_ = 0, separator_ = 0, mask_ = 0, padding_ = 0;
  std::vector<int32_t> replacements_;  // all pieces but the special ones
  std::vector<SampleField> fields_;
  DataIdentity identity_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_MASKED_TEXT_H_
