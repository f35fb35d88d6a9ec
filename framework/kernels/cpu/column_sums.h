// Sums over the rows of channels, in blocks: as many as the shape says, whatever the threads, each
// summed apart and then added up in order. A split by columns alone would leave one thread to the
// layers that have most rows. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_COLUMN_SUMS_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_COLUMN_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/tensor/row_blocks.h"

namespace sluice::cpu {

// `groups` times so many rows of so many channels; each group has sums of its own.
struct ColumnSums {
  int64_t groups, rows, channels;
  int64_t statistics;  // sums of all channels that are made at a time
  int64_t blocks, block_rows;

  ColumnSums(int64_t groups, int64_t rows, int64_t channels, int64_t statistics)
      : groups(groups), rows(rows), channels(channels), statistics(statistics) {
    const RowBlocks cut(rows, channels);
    blocks = cut.blocks;
    block_rows = cut.block_rows;
  }

  int64_t length() const { return statistics * channels; }
  int64_t scratch() const { return groups * blocks * length() * static_cast<int64_t>(4); }

  // sum(group, begin, end, to): the statistics over these rows of the group, one behind the other.
  // add_up(group, sums) gets what they come to.
  template <typename Sum, typename AddUp>
  void Run(const KernelContext& context, float* to, Sum&& sum, AddUp&& add_up) const {
    ParallelRows(context, groups * blocks, block_rows * channels, kCheapGrain,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t b = begin; b < end; ++b) {
                     const int64_t first = b % blocks * block_rows;
                     sum(b / blocks, first, std::min(rows, first + block_rows), to + b * length());
                   }
                 });
    const auto add = Vectors().f32.elementwise.add.both;
    for (int64_t group = 0; group < groups; ++group) {
      float* const total = to + group * blocks * length();
      for (int64_t b = 1; b < blocks; ++b) add(total, total + b * length(), total, length());
      add_up(group, total);
    }
  }
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_COLUMN_SUMS_H_
