// A data set: numbered samples, each of the same named tensors. Where its bytes lie and how they
// are decoded is its own matter; which sample a step sees is sample_order.h's. Once made it changes
// no more: any thread, several at once.
#ifndef SLUICE_FRAMEWORK_DATA_DATASET_H_
#define SLUICE_FRAMEWORK_DATA_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/tensor/dtype.h"
#include "framework/tensor/shape.h"

namespace sluice {

// One of the tensors that a sample gives. In a batch its rows follow each other along a dimension
// before those of `shape`, and it feeds the program's input of this name.
struct SampleField {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

// Identifies the data that a run reads: a checkpoint records it, and ranks compare it. The path at
// which the data is stored does not count.
struct DataIdentity {
  int64_t bytes = 0;
  uint64_t digest = 0;  // stable, because it goes into checkpoints
  // How many of the bytes were read for the digest, if there are too many to read all of them; 0:
  // all were read.
  int64_t sampled = 0;
  friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t num_samples() const = 0;  // at least 1
  virtual const std::vector<SampleField>& fields() const = 0;
  virtual DataIdentity identity() const = 0;

  // Fills the rows of a batch that one device needs of a field: `to` is dense and row-major, row i
  // is the range `box` of sample samples[i], which lies in [0, num_samples()) and stands at
  // `position` + i of the order. What is drawn for a sample each time that it is seen, such as how
  // a picture is cropped, follows from that position alone, so that the fields of a row fit
  // together and no layout changes them. An error says which sample cannot be read.
  virtual absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position,
                            const Box& box, std::byte* to) const = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_DATASET_H_
