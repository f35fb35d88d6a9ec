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

// Rows in blocks that are summed apart: as many as the shape says, whatever takes them. Of few
// columns there are more, up to what gives a GPU's processors something to do: with 16 blocks of
// [401408, 64] an H200 moved 70 GB/s.
struct RowBlocks {
  static constexpr int64_t kBlockElements = 16384, kSums = 16384;
  int64_t blocks, block_rows;

  RowBlocks(int64_t rows, int64_t columns) {
    const int64_t wanted = rows * columns / kBlockElements;
    const int64_t most = std::clamp<int64_t>(kSums / std::max<int64_t>(columns, 1), 16, 256);
    block_rows = std::max<int64_t>(1, rows / std::clamp<int64_t>(wanted, 1, most));
    block_rows = (block_rows + 63) / 64 * 64;
    blocks = std::max<int64_t>(1, (rows + block_rows - 1) / block_rows);
  }
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_REDUCED_SHAPE_H_
