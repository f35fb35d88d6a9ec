// Batches of byte tokens out of a text. The order of samples is a function of (seed, number of the
// sample), so the position in the data is one number in a checkpoint. Any thread, once made.
#ifndef SLUICE_FRAMEWORK_DATA_TEXT_BATCHES_H_
#define SLUICE_FRAMEWORK_DATA_TEXT_BATCHES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/tensor/array.h"

namespace sluice {

// Inputs and what should follow each of them: i32 [batch, length]; labels are tokens one later.
struct TokenBatch {
  HostTensor tokens, labels;
  TokenBatch(int64_t batch, int64_t length);
};

class TextBatches {
 public:
  // `text` must outlive this. An error, naming `what` the text is, if it is too short for a sample.
  static absl::StatusOr<TextBatches> Create(absl::string_view what, absl::string_view text,
                                            int64_t batch, int64_t length, uint64_t seed);

  // Samples samples_seen, samples_seen + 1, ...: windows at random places of the text.
  void Random(int64_t samples_seen, TokenBatch* to) const;

  // How many batches cover the text once; windows are spread evenly, and may overlap a little.
  int64_t CoveringBatches() const;
  // Batch `index` of `batches` that are spread evenly over the text.
  void Spread(int64_t index, int64_t batches, TokenBatch* to) const;

 private:
  TextBatches(absl::string_view text, int64_t batch, int64_t length, uint64_t seed)
      : text_(text), batch_(batch), length_(length), seed_(seed) {}
  int64_t Places() const { return static_cast<int64_t>(text_.size()) - length_; }
  void Take(int64_t row, int64_t place, TokenBatch* to) const;

  absl::string_view text_;
  int64_t batch_, length_;
  uint64_t seed_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TEXT_BATCHES_H_
