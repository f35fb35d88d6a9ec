// Ids of rows in order, so that the rows of an id can be added up by one warp, in the order in
// which they appear: sums have the bits of the CPU, and no two warps write one row. For the files
// of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_SORTED_IDS_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_SORTED_IDS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/set_error.h"
#include "framework/kernels/prepared.h"
#include "framework/kernels/table_rows.h"

namespace sluice::cuda {

// The rows that a shard holds of a table in one firing, and ids of all of its groups, one group
// behind the other.
struct HeldRows {
  int64_t begin, held, whole, of_group;
  HeldRows(const TableRows& rows, int64_t micro, int64_t ids)
      : begin(rows.BeginAt(micro)),
        held(rows.held),
        whole(rows.whole),
        of_group(rows.IdsOfGroup(ids)) {}
  // Of n ids of no table, which are rows themselves.
  static HeldRows All(int64_t n) { return HeldRows(int64_t{1} << 31, n); }

  // Of the i-th id: the row among those of all groups, or -1 of one that the shard does not hold.
  __device__ int64_t RowOf(int64_t id, int64_t i) const {
    const int64_t row = id - begin;
    return row >= 0 && row < held ? i / of_group * held + row : -1;
  }
  __device__ void Check(int64_t id, int64_t i, DeviceErrors errors) const {
    if (id < 0 || id >= whole) SetError(errors, DeviceErrorKind::kId, id, whole, i);
  }

 private:
  HeldRows(int64_t rows, int64_t n) : begin(0), held(rows), whole(rows), of_group(n) {}
};

// A row and a place among all ids, 32 bits of both, ascending; between them ids without a row.
struct SortedIds {
  const uint64_t* keys;
  int64_t n;

  __device__ int64_t RowAt(int64_t i) const { return static_cast<int64_t>(keys[i] >> 32); }
  __device__ int64_t PlaceAt(int64_t i) const { return static_cast<int64_t>(keys[i] & 0xffffffff); }
};
constexpr int64_t kNoRow = 0xffffffff;

// Whether the rows and n places have so few bits.
inline bool CanSort(const TableRows& rows, int64_t n) {
  return rows.groups * rows.held < kNoRow && n <= kNoRow;
}
// Bytes that sorting n ids takes: two arrays of keys, of which the result is one.
inline int64_t SortScratch(int64_t n) { return 2 * AlignedBytes(n * 8); }
// Sorts n > 0 ids, and tells of those that no table has.
absl::StatusOr<SortedIds> SortIds(const KernelContext& context, const HeldRows& rows,
                                  const int32_t* ids, int64_t n, std::byte* scratch);
// The same of the entries that `sort_ids` has made of them (ops/update.h), in AlignedBytes(n * 8).
absl::StatusOr<SortedIds> TakeSorted(const KernelContext& context, const HeldRows& rows,
                                     const uint64_t* entries, int64_t n, std::byte* scratch);

// Columns that a warp takes of a row: each lane has so many sums under way.
constexpr int kColumnsOfLane = 4;
constexpr int64_t kColumnsOfWarp = kColumnsOfLane * kWarp;
__host__ __device__ inline int64_t PiecesOf(int64_t width) {
  return (width + kColumnsOfWarp - 1) / kColumnsOfWarp;
}
// A warp for each of n ids and so many of `width` columns.
inline Grid DistinctGrid(int64_t n, int64_t width) { return GridOf(n * PiecesOf(width) * kWarp); }

// The rows of one id, as far as the calling warp takes them: of an id that stands first among its
// like, some columns.
class DistinctRow {
 public:
  __device__ DistinctRow(const SortedIds& ids, int64_t width) : ids_(ids), width_(width) {
    const int64_t unit = ThreadIndex() / kWarp, pieces = PiecesOf(width);
    first_ = unit / pieces;
    column_ = unit % pieces * kColumnsOfWarp + Lane();
    row_ = first_ < ids.n ? ids.RowAt(first_) : kNoRow;
    if (first_ > 0 && row_ != kNoRow && ids.RowAt(first_ - 1) == row_) row_ = kNoRow;
  }

  // Whether the warp takes any.
  __device__ bool IsTaken() const { return row_ != kNoRow; }
  // Among the rows of all groups that the shard holds.
  __device__ int64_t row() const { return row_; }
  // fn(k, c): the lane's k-th column is c.
  template <typename Fn>
  __device__ void ForColumns(const Fn& fn) const {
    for (int k = 0; k < kColumnsOfLane; ++k) {
      const int64_t c = column_ + k * kWarp;
      if (c < width_) fn(k, c);
    }
  }
  // fn(place) for the places of the id, ascending, from its i-th on.
  template <typename Fn>
  __device__ void ForPlaces(int64_t i, const Fn& fn) const {
    for (int64_t at = first_ + i; at < ids_.n && ids_.RowAt(at) == row_; ++at) fn(ids_.PlaceAt(at));
  }
  // Adds the rows of `values` at these places to `sum`, in order. Some are loaded at a time, for
  // an id may stand at thousands of places, and its warp would wait for each.
  __device__ void Add(const float* values, int64_t i, float (&sum)[kColumnsOfLane]) const {
    constexpr int kAhead = 8;
    for (int64_t begin = first_ + i;; begin += kAhead) {
      bool held[kAhead];
      float terms[kAhead][kColumnsOfLane];
      for (int a = 0; a < kAhead; ++a) {
        held[a] = begin + a < ids_.n && ids_.RowAt(begin + a) == row_;
        if (!held[a]) continue;
        const float* const from = values + ids_.PlaceAt(begin + a) * width_;
        ForColumns([&](int k, int64_t c) { terms[a][k] = from[c]; });
      }
      for (int a = 0; a < kAhead; ++a) {
        if (!held[a]) return;
        ForColumns([&](int k, int64_t) { sum[k] = sum[k] + terms[a][k]; });
      }
    }
  }
  // The sums of them all.
  __device__ void Sum(const float* values, float (&sum)[kColumnsOfLane]) const {
    const float* const first = values + ids_.PlaceAt(first_) * width_;
    ForColumns([&](int k, int64_t c) { sum[k] = first[c]; });
    Add(values, 1, sum);
  }

 private:
  const SortedIds ids_;
  const int64_t width_;
  int64_t first_, column_, row_;
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_SORTED_IDS_H_
