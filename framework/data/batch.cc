#include "framework/data/batch.h"

#include <algorithm>
#include <array>

#include "absl/types/span.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

Shape WithRows(int64_t rows, const Shape& sample) {
  Shape shape = {rows};
  for (int64_t extent : sample) shape.Append(extent);
  return shape;
}

}  // namespace

Batch::Batch(const Dataset& dataset, int64_t batch_rows) : rows(batch_rows) {
  for (const SampleField& field : dataset.fields()) {
    names.push_back(field.name);
    tensors.emplace_back(field.dtype, WithRows(rows, field.shape));
  }
}

absl::Status ReadBatch(const Dataset& dataset, const SampleOrder& order, int64_t first, Batch* to) {
  constexpr int64_t kAtOnce = 64;  // sample numbers live on the stack: a step allocates nothing
  std::array<int64_t, kAtOnce> samples;
  for (int64_t row = 0; row < to->rows; row += kAtOnce) {
    const int64_t rows = std::min(kAtOnce, to->rows - row);
    for (int64_t i = 0; i < rows; ++i) {
      samples[i] = SampleAt(order, first + row + i, dataset.num_samples());
    }
    for (size_t f = 0; f < to->tensors.size(); ++f) {
      HostTensor& tensor = to->tensors[f];
      const int64_t row_bytes = static_cast<int64_t>(tensor.bytes.size()) / to->rows;
      RETURN_IF_ERROR(dataset.Fill(static_cast<int>(f), absl::MakeConstSpan(samples.data(), rows),
                                   WholeBox(dataset.fields()[f].shape),
                                   tensor.bytes.data() + row * row_bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
