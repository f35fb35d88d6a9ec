// The rows of a table of which a shard has some. For the files of kernels/cpu and kernels/cuda
// only.
#ifndef SLUICE_FRAMEWORK_KERNELS_TABLE_ROWS_H_
#define SLUICE_FRAMEWORK_KERNELS_TABLE_ROWS_H_

#include <cstdint>

#include "framework/tensor/shard.h"

namespace sluice {

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

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_TABLE_ROWS_H_
