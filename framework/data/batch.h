// A batch on the host: one tensor for each field of a data set, a row a sample. For loops that feed
// a program themselves. One thread a batch.
#ifndef SLUICE_FRAMEWORK_DATA_BATCH_H_
#define SLUICE_FRAMEWORK_DATA_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/data/dataset.h"
#include "framework/data/sample_order.h"
#include "framework/tensor/array.h"

namespace sluice {

struct Batch {
  int64_t rows = 0;
  std::vector<std::string> names;   // of the fields, in order
  std::vector<HostTensor> tensors;  // [rows, the field's shape]

  // Of zeros.
  Batch(const Dataset& dataset, int64_t batch_rows);
};

// The samples at positions first, first + 1, .. of an order into the rows of `to`, which is of this
// data set.
absl::Status ReadBatch(const Dataset& dataset, const SampleOrder& order, int64_t first, Batch* to);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_BATCH_H_
