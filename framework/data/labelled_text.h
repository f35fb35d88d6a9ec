// Texts and the class of each, to learn to tell one class from another: read from files, and as a
// data set of tokens for BERT. Any thread, once made.
#ifndef SLUICE_FRAMEWORK_DATA_LABELLED_TEXT_H_
#define SLUICE_FRAMEWORK_DATA_LABELLED_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/dataset.h"
#include "framework/data/word_piece.h"

namespace sluice {

struct LabelledTexts {
  std::vector<std::string> texts;
  std::vector<int32_t> labels;  // places in the names of the classes
};

struct TextClasses {
  std::vector<std::string> names;  // of those that are trained on, ascending
  LabelledTexts training, held_out;
};

// A file with a line "label TAB text" for each text, with or without the three lines that Orange
// puts above a table (.tab); empty lines are left out. A file NAME-train.EXTENSION is what is
// trained on, and NAME-test.EXTENSION beside it what is held out, as R8, R52 and 20 Newsgroups
// have it; of another file every tenth text by hash of its bytes is held out. Errors name path and
// line: no TAB, no label, a label that is not in UTF-8, fewer than two classes, a class that is
// only held out, nothing to hold out.
absl::StatusOr<TextClasses> ReadTextClasses(const std::string& path);

// A sample is one text, in i32:
//   tokens [T]    [CLS], the text as far as it fits, [SEP], then [PAD]
//   segments [T]  0
//   length []     tokens that are no padding
//   label []      the class
class LabelledText : public Dataset {
 public:
  // The vocabulary is not needed afterwards. Errors, naming `what` the texts are: none, a length
  // that holds nothing.
  static absl::StatusOr<LabelledText> Create(absl::string_view what, const LabelledTexts& texts,
                                             const WordPiece& vocabulary, int64_t length);

  int64_t num_samples() const override { return static_cast<int64_t>(labels_.size()); }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return identity_; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override;

  int64_t num_cut() const { return cut_; }  // texts of which not all fits

 private:
  explicit LabelledText(int64_t length) : length_(length) {}

  int64_t length_;
  std::vector<int32_t> tokens_;  // of all samples, without padding
  std::vector<int64_t> begins_;  // of each sample in tokens_, and where the last ends
  std::vector<int32_t> labels_;
  int32_t padding_ = 0;
  int64_t cut_ = 0;
  std::vector<SampleField> fields_;
  DataIdentity identity_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_LABELLED_TEXT_H_
