// What the reference implementations of ops share: walks over boxes of logical tensors. For this
// package only.
#ifndef SLUICE_FRAMEWORK_OPS_REFERENCE_H_
#define SLUICE_FRAMEWORK_OPS_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "framework/graph/op_def.h"

namespace sluice {

// Calls fn(const Shape& index, int64_t flat) for each element of the box in row-major order: its
// index in the logical tensor and its place in the shard.
template <typename F>
void ForEachIndex(const Box& box, F&& fn) {
  const int64_t count = Volume(box);
  Shape index;
  for (const Range& range : box) index.Append(range.begin);
  for (int64_t flat = 0; flat < count; ++flat) {
    fn(index, flat);
    for (int d = index.rank() - 1; d >= 0; --d) {
      if (++index[d] < box[d].end) break;
      index[d] = box[d].begin;
    }
  }
}

// Place of a logical index in the row-major array of the box.
inline int64_t FlatAt(const Box& box, const Shape& index) {
  int64_t flat = 0;
  for (size_t d = 0; d < box.size(); ++d) {
    flat = flat * box[d].size() + (index[static_cast<int>(d)] - box[d].begin);
  }
  return flat;
}

// Elements of the innermost dimension; rows are the rest. A scalar is one row of one.
inline int64_t RowLength(const Array& array) {
  return array.shape.rank() == 0 ? 1 : array.shape[array.shape.rank() - 1];
}
inline int64_t NumRows(const Array& array) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < array.shape.rank(); ++d) rows *= array.shape[d];
  return rows;
}

// output[i] = fn(input[i]).
template <typename F>
absl::Status ReferenceMap(const ReferenceCall& call, F&& fn) {
  const std::vector<double>& x = call.inputs[0].array.values;
  std::vector<double>& y = call.outputs[0].array.values;
  for (size_t i = 0; i < y.size(); ++i) y[i] = fn(x[i]);
  return absl::OkStatus();
}

// output[i] = fn(a[i], b[i]) for equal shapes.
template <typename F>
absl::Status ReferenceMap2(const ReferenceCall& call, F&& fn) {
  const std::vector<double>& a = call.inputs[0].array.values;
  const std::vector<double>& b = call.inputs[1].array.values;
  std::vector<double>& y = call.outputs[0].array.values;
  for (size_t i = 0; i < y.size(); ++i) y[i] = fn(a[i], b[i]);
  return absl::OkStatus();
}

// OutOfRange unless every id is in [0, limit), naming the first that is not. What `what` are.
absl::Status CheckInRange(const char* op, const char* what, const Array& ids, int64_t limit);

// One of the equal ranges of the first dimension of an array, which it loses.
Array GroupOf(const Array& array, int64_t group);

// A shard of a table [rows, width] or [groups, rows, width].
struct TableShard {
  explicit TableShard(const ShardArray& table);
  int64_t groups, width;  // that it holds
  Range held;             // rows, of each group
  int64_t whole;          // rows of a group of the table
  // Of ids or values, the part that belongs to a group.
  Array Of(const Array& rows, int64_t group) const;
  // Where the row that an id of a group names begins in the shard; -1: it is another shard's.
  int64_t PlaceOf(int64_t group, int64_t id) const {
    if (id < held.begin || id >= held.end) return -1;
    return (group * held.size() + id - held.begin) * width;
  }

 private:
  bool grouped_;
};

// The distinct ids of `ids` that lie in `rows`, ascending, and for each the sum of its rows of
// `values` ([..., width]) in order of appearance.
struct GatheredRows {
  std::vector<int64_t> ids;
  std::vector<std::vector<double>> values;
};
GatheredRows GatherRows(const Array& ids, const Array& values, Range rows);
// fn(sum, place) for each row of the shard that ids name: what is added to it and where it begins.
template <typename F>
void ForEachNamedRow(const ShardArray& table, const Array& ids, const Array& values, F&& fn) {
  const TableShard shard(table);
  for (int64_t g = 0; g < shard.groups; ++g) {
    const GatheredRows rows = GatherRows(shard.Of(ids, g), shard.Of(values, g), shard.held);
    for (size_t i = 0; i < rows.ids.size(); ++i) {
      fn(rows.values[i], shard.PlaceOf(g, rows.ids[i]));
    }
  }
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_REFERENCE_H_
