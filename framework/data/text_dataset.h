// A text, or tokens, as a data set: a sample is a window of it, "tokens" its bytes or tokens and
// "labels" those that follow each of them, both i32 [length]; sample n begins at place n. Any
// thread, once made.
#ifndef SLUICE_FRAMEWORK_DATA_TEXT_DATASET_H_
#define SLUICE_FRAMEWORK_DATA_TEXT_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/dataset.h"
#include "framework/data/token_sequence.h"

namespace sluice {

// Sequence: std::string, std::vector<int32_t> of tokens, none of which is negative, or a
// TokenSequence of tokens in files, which has been identified.
template <typename Sequence>
class SequenceDataset : public Dataset {
 public:
  // An error, naming `what` the text is, if it is too short for a sample.
  static absl::StatusOr<SequenceDataset> Create(absl::string_view what, Sequence sequence,
                                                int64_t length);

  int64_t num_samples() const override { return static_cast<int64_t>(sequence_.size()) - length_; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return identity_; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override;

 private:
  SequenceDataset(Sequence sequence, int64_t length);

  Sequence sequence_;
  int64_t length_;
  std::vector<SampleField> fields_;
  DataIdentity identity_;
};

using TextDataset = SequenceDataset<std::string>;
using TokenDataset = SequenceDataset<std::vector<int32_t>>;
using TokenFileDataset = SequenceDataset<TokenSequence>;

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TEXT_DATASET_H_
