// Gradients that are rows of a table: checking ids, and adding up the rows of each id once, in
// order of appearance. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_ROWS_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "framework/kernels/cpu/prepared.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {

// OutOfRange unless every id is in [0, limit), naming the first that is not and its place.
absl::Status CheckIds(const char* op, const int32_t* ids, int64_t n, int64_t limit);

// The rows of a table [rows, width] or [groups, rows, width] that a shard holds of each of its
// groups, and how many a group has in all. Ids, of which each group has as many, count from its
// first row.
struct TableRows {
  int64_t groups, begin, per_micro, held, whole, width;
  explicit TableRows(const Shard& table) {
    const int rows = table.local.rank() - 2;
    groups = rows > 0 ? table.local[0] : 1;
    begin = table.offset[rows];
    per_micro = table.stride_per_micro[rows];
    held = table.local[rows];
    whole = table.logical[rows];
    width = table.local[rows + 1];
  }
  int64_t BeginAt(int64_t micro) const { return begin + micro * per_micro; }
  // Of `ids` in all.
  int64_t IdsOfGroup(int64_t ids) const { return groups > 0 ? ids / groups : 0; }
};

// Bytes of scratch that ForEachDistinctRow needs.
inline int64_t DistinctRowScratch(int64_t n, int64_t width) {
  return AlignedBytes(n * 8) + AlignedBytes(width * 4);
}

// The places of one id among all ids, ascending.
class RowPlaces {
 public:
  RowPlaces(const uint64_t* begin, const uint64_t* end) : begin_(begin), end_(end) {}
  int64_t size() const { return end_ - begin_; }
  int64_t operator[](int64_t i) const { return static_cast<int64_t>(begin_[i] & 0xffffffff); }

 private:
  const uint64_t *begin_, *end_;  // an id and a place each, 32 bits of both
};

// fn(id, sum, places): for each distinct id in [begin, end), ascending, the sum of its rows of
// `values`, and where they stand.
template <typename F>
void ForEachDistinctRowWithPlaces(const int32_t* ids, const float* values, int64_t n, int64_t width,
                                  int64_t begin, int64_t end, std::byte* scratch, F&& fn) {
  uint64_t* order = reinterpret_cast<uint64_t*>(scratch);
  float* sum = reinterpret_cast<float*>(scratch + AlignedBytes(n * 8));
  int64_t kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (ids[i] < begin || ids[i] >= end) continue;
    order[kept++] = static_cast<uint64_t>(ids[i]) << 32 | static_cast<uint64_t>(i);
  }
  std::sort(order, order + kept);
  for (int64_t i = 0; i < kept;) {
    const int64_t id = static_cast<int64_t>(order[i] >> 32);
    const auto row = [&](int64_t at) { return values + (order[at] & 0xffffffff) * width; };
    const int64_t first = i;
    const float* total = row(i);
    for (++i; i < kept && static_cast<int64_t>(order[i] >> 32) == id; ++i) {
      Vectors().f32.elementwise.add.both(total, row(i), sum, width);
      total = sum;
    }
    fn(id, total, RowPlaces(order + first, order + i));
  }
}

// fn(id, sum)
template <typename F>
void ForEachDistinctRow(const int32_t* ids, const float* values, int64_t n, int64_t width,
                        int64_t begin, int64_t end, std::byte* scratch, F&& fn) {
  ForEachDistinctRowWithPlaces(
      ids, values, n, width, begin, end, scratch,
      [&](int64_t id, const float* sum, const RowPlaces&) { fn(id, sum); });
}

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_ROWS_H_
