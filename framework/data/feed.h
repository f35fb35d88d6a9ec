// What a step is fed with under one name: a tensor, or rows of a data set, which each device then
// reads for itself, its own part alone. Plain values.
#ifndef SLUICE_FRAMEWORK_DATA_FEED_H_
#define SLUICE_FRAMEWORK_DATA_FEED_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "framework/data/dataset.h"
#include "framework/data/sample_order.h"
#include "framework/tensor/array.h"

namespace sluice {

// One field of the samples at positions first, first + 1, .. of an order: a row a sample.
struct SampleRows {
  const Dataset* dataset = nullptr;
  int field = 0;
  SampleOrder order;
  int64_t first = 0;
};

// Fills the part `box` of the rows, [rows, the field's shape], dense and row-major. Any thread.
absl::Status FillRows(const SampleRows& rows, const Box& box, std::byte* to);

struct Feed {
  Feed() = default;
  Feed(const HostTensor* fed) : tensor(fed) {}              // NOLINT: a tensor is a feed
  Feed(const SampleRows& of_dataset) : rows(of_dataset) {}  // NOLINT: so are rows
  bool empty() const { return tensor == nullptr && rows.dataset == nullptr; }

  const HostTensor* tensor = nullptr;  // copied when the step begins
  SampleRows rows;                     // read while it runs; the data set must outlive that
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_FEED_H_
