// What one device holds of one operand: which box of the logical tensor, and which reduction is
// still owed. Vocabulary splits, causal masks, dropout and checkpoints all read it.
#ifndef SLUICE_FRAMEWORK_TENSOR_SHARD_H_
#define SLUICE_FRAMEWORK_TENSOR_SHARD_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/tensor/dtype.h"
#include "framework/tensor/shape.h"

namespace sluice {

// kNone: the shard holds final values. Otherwise the logical value is this reduction over shards.
enum class Reduction : uint8_t { kNone, kSum, kMax, kMin };

absl::string_view ReductionName(Reduction reduction);  // "none", "sum", "max", "min"
// The value that changes nothing: -0.0 for sums (x + -0.0 is x in every bit), -inf, +inf.
double IdentityOf(Reduction reduction);
// One step of the reduction. Max and min propagate NaN.
double Reduce(Reduction reduction, double a, double b);

struct Shard {
  DType dtype = DType::kF32;
  Shape local;             // extents of what is held
  Shape logical;           // extents of the logical tensor
  Shape offset;            // where local[0,..] lies in the logical tensor, at micro-batch 0
  Shape stride_per_micro;  // what one micro-batch adds to the offset
  Reduction partial = Reduction::kNone;

  static Shard Whole(DType dtype, const Shape& shape);
  // The box of the logical tensor held at a micro-batch.
  Box BoxAt(int64_t micro) const;
  int64_t NumElements() const { return local.NumElements(); }
  int64_t NumBytes() const { return local.NumElements() * SizeOf(dtype); }
  // "f32[4,8] of [8,8] at [4,0]" and "owes sum" where one is partial.
  std::string ToString() const;
  friend bool operator==(const Shard&, const Shard&) = default;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TENSOR_SHARD_H_
