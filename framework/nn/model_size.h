// How large a model is: what learns in it, and what multiplies. Pure.
#ifndef SLUICE_FRAMEWORK_NN_MODEL_SIZE_H_
#define SLUICE_FRAMEWORK_NN_MODEL_SIZE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/graph/graph.h"

namespace sluice {

struct ModelSize {
  int64_t parameters = 0;  // elements; running statistics are none
  // Of products, convolutions and attention of one run, two a multiplication and addition.
  int64_t flops = 0;
  int64_t convolution_flops = 0;  // of these, those of convolutions
};

// Of a program that computes a loss or an output, before it is made to train: that takes three
// times as many operations, one share for each operand's gradient.
ModelSize SizeOfModel(const Graph& forward);

// InvalidArgument, naming the size, unless it is from `low` to `high`.
template <typename T>
absl::Status CheckSize(absl::string_view name, T value, T low, T high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": expected ", low, " to ", high, ", got ", value));
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_NN_MODEL_SIZE_H_
