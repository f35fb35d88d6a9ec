// A StridedExtent as a kernel's argument: from the number of an item to where it lies in each
// array. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_STRIDED_INDEX_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_STRIDED_INDEX_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "framework/kernels/cuda/scalar_lanes.h"
#include "framework/kernels/strided_extent.h"

namespace sluice::cuda {

// A divisor that the host knows. Of numbers below 2^31 the quotient is a multiplication and a shift
// (Granlund and Montgomery 1994), where a division would be some twenty instructions.
struct Divisor {
  int64_t value = 1;
  uint32_t multiplier = 1, shift = 0;
  bool small = true;  // all numbers are below 2^31
};
inline Divisor DivisorOf(int64_t value, int64_t largest) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  Divisor divisor = {value, 1, 0, largest < kLimit && value < kLimit};
  if (!divisor.small) return divisor;
  while ((int64_t{1} << divisor.shift) < value) ++divisor.shift;
  const uint64_t above = (uint64_t{1} << divisor.shift) - static_cast<uint64_t>(value);
  divisor.multiplier = static_cast<uint32_t>((above << 32) / static_cast<uint64_t>(value) + 1);
  return divisor;
}
SLUICE_INLINE int64_t Quotient(int64_t number, const Divisor& divisor) {
  if (!divisor.small) return number / divisor.value;
  const uint32_t low = static_cast<uint32_t>(number);
  const uint32_t high = static_cast<uint32_t>(uint64_t{low} * divisor.multiplier >> 32);
  return (high + low) >> divisor.shift;
}

template <int arrays>
struct StridedIndex {
  int rank = 1;
  int64_t items = 0;
  Divisor extent[StridedExtent::kMaxRank];
  int64_t stride[StridedExtent::kMaxRank][arrays];
};

// Whether rows can be walked in items of `width` elements: those of an array lie beside each other,
// or are one for all (where `repeats`), and no item reaches from a row into the next. Starts are
// the caller's to check.
inline bool WalksInItems(const StridedExtent& extent, int64_t width, bool repeats) {
  if (extent.row_length() % width != 0) return false;
  for (int i = 0; i < extent.operands(); ++i) {
    if (extent.row_stride(i) == 0 && repeats) continue;
    if (extent.row_stride(i) != 1) return false;
    for (int d = 0; d + 1 < extent.rank(); ++d) {
      if (extent.stride(i, d) % width != 0) return false;
    }
  }
  return true;
}

// Of items of `width` elements; offsets are of elements. REQUIRES: as many operands as arrays at
// most.
template <int arrays>
StridedIndex<arrays> IndexOf(const StridedExtent& extent, int64_t width = 1) {
  StridedIndex<arrays> index;
  index.rank = extent.rank();
  index.items = extent.rows() * (extent.row_length() / width);
  if (index.items == 0) return index;
  for (int d = 0; d < index.rank; ++d) {
    const int64_t unit = d + 1 == index.rank ? width : 1;
    index.extent[d] = DivisorOf(extent.extent(d) / unit, index.items);
    for (int i = 0; i < extent.operands(); ++i) index.stride[d][i] = extent.stride(i, d) * unit;
  }
  return index;
}

// Where the item lies in one of the arrays.
template <int arrays>
SLUICE_INLINE int64_t OffsetOf(const StridedIndex<arrays>& index, int64_t item, int array) {
  int64_t offset = 0;
  for (int d = index.rank - 1; d > 0; --d) {
    const int64_t outer = Quotient(item, index.extent[d]);
    offset += (item - outer * index.extent[d].value) * index.stride[d][array];
    item = outer;
  }
  return offset + item * index.stride[0][array];
}
// In each of them.
template <int arrays>
SLUICE_INLINE void OffsetsOf(const StridedIndex<arrays>& index, int64_t item,
                             int64_t (&offsets)[arrays]) {
  for (int i = 0; i < arrays; ++i) offsets[i] = 0;
  for (int d = index.rank - 1; d > 0; --d) {
    const int64_t outer = Quotient(item, index.extent[d]);
    const int64_t at = item - outer * index.extent[d].value;
    for (int i = 0; i < arrays; ++i) offsets[i] += at * index.stride[d][i];
    item = outer;
  }
  for (int i = 0; i < arrays; ++i) offsets[i] += item * index.stride[0][i];
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_STRIDED_INDEX_H_
