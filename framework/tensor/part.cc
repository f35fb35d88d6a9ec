#include "framework/tensor/part.h"

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

Part Part::Whole(DType dtype, const Shape& shape) {
  Part part;
  part.dtype = dtype;
  part.local = part.logical = part.offset = part.stride_per_micro = shape;
  for (int d = 0; d < shape.rank(); ++d) part.offset[d] = part.stride_per_micro[d] = 0;
  return part;
}

Box Part::BoxAt(int64_t micro) const {
  Box box;
  for (int d = 0; d < local.rank(); ++d) {
    const int64_t begin = offset[d] + micro * stride_per_micro[d];
    box.push_back({begin, begin + local[d]});
  }
  return box;
}

std::string Part::ToString() const {
  std::string text = absl::StrCat(DTypeName(dtype), local.ToString());
  if (local != logical) {
    absl::StrAppend(&text, " of ", logical.ToString(), " at ", offset.ToString());
  }
  if (owed != Reduction::kNone) absl::StrAppend(&text, " owes ", ReductionName(owed));
  return text;
}

}  // namespace sluice
