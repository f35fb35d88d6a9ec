#include "framework/ops/reference.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status CheckInRange(const char* op, const char* what, const Array& ids, int64_t limit) {
  for (double id : ids.values) {
    if (id >= 0 && id < static_cast<double>(limit)) continue;
    return absl::OutOfRangeError(absl::StrCat(op, ": expected ", what, " in [0, ", limit, "), got ",
                                              static_cast<int64_t>(id)));
  }
  return absl::OkStatus();
}

Array GroupOf(const Array& array, int64_t group) {
  Shape shape;
  for (int d = 1; d < array.shape.rank(); ++d) shape.Append(array.shape[d]);
  Array part(shape);
  const auto begin = array.values.begin() + group * shape.NumElements();
  std::copy(begin, begin + shape.NumElements(), part.values.begin());
  return part;
}

TableShard::TableShard(const ShardArray& table) : grouped_(table.logical.shape.rank() == 3) {
  const size_t rows = grouped_ ? 1 : 0;
  groups = grouped_ ? table.box[0].size() : 1;
  width = RowLength(table.array);
  held = table.box[rows];
  whole = table.logical.shape[static_cast<int>(rows)];
}

Array TableShard::Of(const Array& rows, int64_t group) const {
  return grouped_ ? GroupOf(rows, group) : rows;
}

GatheredRows GatherRows(const Array& ids, const Array& values, Range rows) {
  const int64_t width = RowLength(values);
  std::map<int64_t, std::vector<double>> sums;
  for (size_t i = 0; i < ids.values.size(); ++i) {
    const int64_t id = static_cast<int64_t>(ids.values[i]);
    if (id < rows.begin || id >= rows.end) continue;
    std::vector<double>& sum = sums[id];
    sum.resize(width);
    for (int64_t e = 0; e < width; ++e) sum[e] += values.values[i * width + e];
  }
  GatheredRows gathered;
  for (auto& entry : sums) {
    gathered.ids.push_back(entry.first);
    gathered.values.push_back(std::move(entry.second));
  }
  return gathered;
}

}  // namespace sluice
