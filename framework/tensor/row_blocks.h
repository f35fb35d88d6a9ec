// How sums down columns are cut, on every kind of device and in what ops say of their scratch.
#ifndef SLUICE_FRAMEWORK_TENSOR_ROW_BLOCKS_H_
#define SLUICE_FRAMEWORK_TENSOR_ROW_BLOCKS_H_

#include <algorithm>
#include <cstdint>

namespace sluice {

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

#endif  // SLUICE_FRAMEWORK_TENSOR_ROW_BLOCKS_H_
