#include "framework/data/feed.h"

#include <algorithm>
#include <array>

#include "framework/base/status.h"

namespace sluice {

absl::Status FillRows(const SampleRows& rows, const Box& box, std::byte* to) {
  constexpr int64_t kAtOnce = 64;  // sample numbers live on the stack: a step allocates nothing
  std::array<int64_t, kAtOnce> samples;
  const Box of_sample(box.begin() + 1, box.end());
  const SampleField& field = rows.dataset->fields()[rows.field];
  const int64_t row_bytes = Volume(of_sample) * SizeOf(field.dtype);
  for (int64_t row = box[0].begin; row < box[0].end; row += kAtOnce) {
    const int64_t some = std::min(kAtOnce, box[0].end - row);
    for (int64_t i = 0; i < some; ++i) {
      samples[i] = SampleAt(rows.order, rows.first + row + i, rows.dataset->num_samples());
    }
    RETURN_IF_ERROR(rows.dataset->Fill(rows.field, absl::MakeConstSpan(samples.data(), some),
                                       rows.first + row, of_sample, to));
    to += some * row_bytes;
  }
  return absl::OkStatus();
}

}  // namespace sluice
