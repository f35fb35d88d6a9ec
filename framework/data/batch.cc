#include "framework/data/batch.h"

#include <algorithm>
#include <array>

#include "absl/types/span.h"
#include "framework/base/status.h"
#include "framework/data/feed.h"

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
  for (size_t f = 0; f < to->tensors.size(); ++f) {
    HostTensor& tensor = to->tensors[f];
    RETURN_IF_ERROR(FillRows({&dataset, static_cast<int>(f), order, first}, WholeBox(tensor.shape),
                             tensor.bytes.data()));
  }
  return absl::OkStatus();
}

}  // namespace sluice
