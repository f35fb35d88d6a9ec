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

// Warps that the columns of a row take: a lane has one column.
__host__ __device__ inline int64_t PiecesOf(int64_t width) { return (width + kWarp - 1) / kWarp; }
// A warp for each of n ids and so many of `width` columns.
inline Grid DistinctGrid(int64_t n, int64_t width) { return GridOf(n * PiecesOf(width) * kWarp); }

// The rows of one id, as far as the calling warp takes them: of an id that stands first among its
// like, some columns. Most ids stand once or twice, some at thousands of places, and memory takes
// as long to answer as a hundred additions: so each lane looks at one place, in one read for all,
// and elements are read while those before them are added. No read is behind a condition, which
// would make a branch of it and wait for the one before: what is not there is read where something
// is.
class DistinctRow {
 public:
  __device__ DistinctRow(const SortedIds& ids, int64_t width) : ids_(ids), width_(width) {
    const int64_t unit = ThreadIndex() / kWarp, pieces = PiecesOf(width);
    first_ = unit / pieces;
    column_ = unit % pieces * kWarp + Lane();
    key_ = KeyAt(first_ + Lane());
    const int64_t before = static_cast<int64_t>(KeyAt(first_ - (first_ > 0 ? 1 : 0)) >> 32);
    row_ = static_cast<int64_t>(__shfl_sync(kAllLanes, key_, 0) >> 32);
    if (first_ > 0 && before == row_) row_ = kNoRow;
  }

  // Whether the warp takes any. The functions below are for those that do, and for all lanes.
  __device__ bool IsTaken() const { return row_ != kNoRow; }
  // Among the rows of all groups that the shard holds.
  __device__ int64_t row() const { return row_; }
  // The lane's own, and whether there is one.
  __device__ int64_t column() const { return column_; }
  __device__ bool HasColumn() const { return column_ < width_; }
  // fn(place) for the places of the id, ascending.
  template <typename Fn>
  __device__ void ForPlaces(const Fn& fn) const {
    for (int64_t at = first_; at < ids_.n && ids_.RowAt(at) == row_; ++at) fn(ids_.PlaceAt(at));
  }
  // `sum` and then, in order, what `values` has in the lane's column at the places of the id. Of
  // lanes without a column it is any number.
  __device__ float Plus(float sum, const float* values) const {
    const float* const column = values + (HasColumn() ? column_ : 0);
    uint64_t key = key_;
    unsigned own = OwnOf(key);
    if (own == kAllLanes) {
      float lower[kHalf], upper[kHalf];
      Read(column, key, 0, lower);
      for (int64_t at = first_ + kWarp + Lane(); own == kAllLanes; at += kWarp) {
        Read(column, key, kHalf, upper);
        key = KeyAt(at);
        own = OwnOf(key);
        for (const float& term : lower) sum = sum + term;
        if (own == kAllLanes) Read(column, key, 0, lower);
        for (const float& term : upper) sum = sum + term;
      }
    }
    return PlusLanes(sum, column, key, __popc(own));
  }
  // The sum of them alone: nothing is lost by what it begins with, not even the sign of a zero.
  __device__ float Sum(const float* values) const { return Plus(-0.0f, values); }

 private:
  static constexpr int kHalf = kWarp / 2;

  __device__ uint64_t KeyAt(int64_t i) const { return i < ids_.n ? ids_.keys[i] : ~uint64_t{0}; }
  // Which lanes' keys are of the id: the first ones, as keys ascend.
  __device__ unsigned OwnOf(uint64_t key) const {
    return __ballot_sync(kAllLanes, static_cast<int64_t>(key >> 32) == row_);
  }
  __device__ float At(const float* column, uint64_t key, int lane) const {
    const int64_t place = __shfl_sync(kAllLanes, static_cast<uint32_t>(key), lane);
    return column[place * width_];
  }
  __device__ void Read(const float* column, uint64_t key, int lane, float (&terms)[kHalf]) const {
    SLUICE_UNROLLED
    for (int a = 0; a < kHalf; ++a) terms[a] = At(column, key, lane + a);
  }
  // `sum` and what stands at the places of the first lanes, so many.
  __device__ float PlusLanes(float sum, const float* column, uint64_t key, int count) const {
    constexpr int kAhead = 8;
    for (int first = 0; first < count; first += kAhead) {
      float terms[kAhead];
      SLUICE_UNROLLED
      for (int a = 0; a < kAhead; ++a) {
        terms[a] = At(column, key, first + a < count ? first + a : count - 1);
      }
      SLUICE_UNROLLED
      for (int a = 0; a < kAhead; ++a) {
        if (first + a < count) sum = sum + terms[a];
      }
    }
    return sum;
  }

  const SortedIds ids_;
  const int64_t width_;
  int64_t first_, column_, row_;
  uint64_t key_;
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_SORTED_IDS_H_
