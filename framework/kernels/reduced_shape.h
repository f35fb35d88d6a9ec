// How reductions and sums down columns see their operands, on every kind of device. For the files
// of kernels/cpu and kernels/cuda only.
#ifndef SLUICE_FRAMEWORK_KERNELS_REDUCED_SHAPE_H_
#define SLUICE_FRAMEWORK_KERNELS_REDUCED_SHAPE_H_

#include <algorithm>
#include <cstdint>

#include "framework/tensor/shape.h"

namespace sluice {

// A reduced tensor as [outer, reduced, inner]: `outer` and `inner` are kept.
struct ReducedShape {
  int64_t outer = 1, reduced = 1, inner = 1;
  bool contiguous = true;  // the reduced dimensions lie side by side (extents of 1 aside)

  ReducedShape(const Shape& shape, const Shape& dims) {
    enum { kOuter, kReduced, kInner } at = kOuter;
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape[d] == 1) continue;
      if (std::find(dims.begin(), dims.end(), d) != dims.end()) {
        contiguous &= at != kInner;
        at = kReduced;
        reduced *= shape[d];
      } else {
        if (at == kReduced) at = kInner;
        (at == kOuter ? outer : inner) *= shape[d];
      }
    }
  }
};

// From so many rows on a sum down columns is made in blocks.
constexpr int64_t kManyRows = 512;

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_REDUCED_SHAPE_H_
