// Held-out text, cut into windows that lie side by side, so that every token is predicted once: of
// n tokens n - 1, because the first follows nothing. Window i begins at token i * length; the last
// one may be shorter and is filled up. Any thread, once made.
#ifndef SLUICE_FRAMEWORK_DATA_TEXT_WINDOWS_H_
#define SLUICE_FRAMEWORK_DATA_TEXT_WINDOWS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/data/dataset.h"

namespace sluice {

// The fields of a window:
//   tokens  i32 [length]  the text, then 0
//   labels  i32 [length]  the token that follows each of them, then 0
//   weights f32 [length]  1 for each label, then 0
class TextWindows : public Dataset {
 public:
  // `text` is a data set of the same text whose sample n begins at token n, as those of
  // text_dataset.h: fields "tokens" and "labels", i32 [length].
  explicit TextWindows(std::unique_ptr<const Dataset> text);

  int64_t num_samples() const override;
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return text_->identity(); }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override;

 private:
  // How many labels a window has.
  int64_t LabelsOf(int64_t window) const;

  std::unique_ptr<const Dataset> text_;
  int64_t length_;
  int64_t labels_;  // of the whole text
  std::vector<SampleField> fields_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TEXT_WINDOWS_H_
