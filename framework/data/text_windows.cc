#include "framework/data/text_windows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/base/status.h"

namespace sluice {
namespace {

enum Field { kTokens, kLabels, kWeights };

}  // namespace

TextWindows::TextWindows(std::unique_ptr<const Dataset> text)
    : text_(std::move(text)),
      length_(text_->fields()[kTokens].shape[0]),
      // The last sample begins so that its last label is the last token.
      labels_(text_->num_samples() + length_ - 1),
      fields_(text_->fields()) {
  fields_.push_back({"weights", DType::kF32, {length_}});
}

int64_t TextWindows::num_samples() const { return (labels_ + length_ - 1) / length_; }

int64_t TextWindows::LabelsOf(int64_t window) const {
  return std::min(length_, labels_ - window * length_);
}

absl::Status TextWindows::Fill(int field, absl::Span<const int64_t> samples, int64_t position,
                               const Box& box, std::byte* to) const {
  for (const int64_t window : samples) {
    const int64_t labels = LabelsOf(window);
    // What of the box is text; what follows is filled up.
    const int64_t begin = std::min(box[0].begin, labels), end = std::min(box[0].end, labels);
    if (field == kWeights) {
      std::fill_n(reinterpret_cast<float*>(to), end - begin, 1.0F);
    } else if (end > begin) {
      // A window that is cut short is the end of the last sample.
      const int64_t sample = std::min(window * length_, text_->num_samples() - 1);
      const int64_t offset = window * length_ - sample;
      RETURN_IF_ERROR(
          text_->Fill(field, {&sample, 1}, position, {{offset + begin, offset + end}}, to));
    }
    // Zeros of either type have no bits.
    std::memset(to + 4 * (end - begin), 0, 4 * (box[0].size() - (end - begin)));
    to += 4 * box[0].size();
  }
  return absl::OkStatus();
}

}  // namespace sluice
