#include "framework/tensor/shard.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace sluice {

absl::string_view ReductionName(Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone:
      return "none";
    case Reduction::kSum:
      return "sum";
    case Reduction::kMax:
      return "max";
    case Reduction::kMin:
      return "min";
  }
  return "?";
}

double IdentityOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kMax:
      return -std::numeric_limits<double>::infinity();
    case Reduction::kMin:
      return std::numeric_limits<double>::infinity();
    case Reduction::kNone:
    case Reduction::kSum:
      return -0.0;
  }
  return -0.0;
}

double Reduce(Reduction reduction, double a, double b) {
  switch (reduction) {
    case Reduction::kMax:
      return a > b || std::isnan(a) ? a : b;
    case Reduction::kMin:
      return a < b || std::isnan(a) ? a : b;
    case Reduction::kNone:
    case Reduction::kSum:
      return a + b;
  }
  return a;
}

Shard Shard::Whole(DType dtype, const Shape& shape) {
  Shard shard;
  shard.dtype = dtype;
  shard.local = shard.logical = shard.offset = shard.stride_per_micro = shape;
  for (int d = 0; d < shape.rank(); ++d) shard.offset[d] = shard.stride_per_micro[d] = 0;
  return shard;
}

Box Shard::BoxAt(int64_t micro) const {
  Box box;
  for (int d = 0; d < local.rank(); ++d) {
    const int64_t begin = offset[d] + micro * stride_per_micro[d];
    box.push_back({begin, begin + local[d]});
  }
  return box;
}

std::string Shard::ToString() const {
  std::string text = absl::StrCat(DTypeName(dtype), local.ToString());
  if (local != logical) {
    absl::StrAppend(&text, " of ", logical.ToString(), " at ", offset.ToString());
  }
  if (partial != Reduction::kNone) absl::StrAppend(&text, " owes ", ReductionName(partial));
  return text;
}

}  // namespace sluice
