// Which kernels a calibration times, and at which sizes: one grid for each op that says at which
// (OpDef::timing), and those of the instructions that are no op. Pure; any thread.
#ifndef SLUICE_BENCH_KERNEL_GRIDS_H_
#define SLUICE_BENCH_KERNEL_GRIDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/kernels/kernel.h"

namespace sluice {

// One kernel at one point of its grid.
struct KernelSample {
  KernelSpec spec;             // threads is left at 1
  std::vector<int64_t> sizes;  // by which the compiler asks for its time (Cost::sizes)
  int64_t ids = 2;             // operands of integers hold 0 to ids - 1
};

struct KernelGrid {
  std::string kernel;
  std::vector<std::vector<int64_t>> axes;  // in the words of `sample`
  std::function<absl::StatusOr<KernelSample>(absl::Span<const int64_t> at)> sample;
  int may_fall = -1;  // the axis along which time may fall: longer contiguous runs copy faster
};

// Those of ops in the order of ops/all_ops.h, then those of instructions.
std::vector<KernelGrid> KernelGrids();

// Every point of a grid, the last axis innermost.
std::vector<std::vector<int64_t>> PointsOf(const std::vector<std::vector<int64_t>>& axes);

}  // namespace sluice

#endif  // SLUICE_BENCH_KERNEL_GRIDS_H_
