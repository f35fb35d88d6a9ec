// Which kernels a calibration times, and at which sizes: one grid a kernel, of powers of two that
// know of no model. Pure; any thread.
#ifndef SLUICE_BENCH_KERNEL_GRIDS_H_
#define SLUICE_BENCH_KERNEL_GRIDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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
  absl::StatusOr<KernelSample> (*sample)(const std::string& kernel, absl::Span<const int64_t> at);
  int may_fall = -1;  // the axis along which time may fall: longer contiguous runs copy faster
};

std::vector<KernelGrid> KernelGrids();

// An op whose kernel no grid times: the compiler counts its time from flat rates, and here is why
// that will do. calibration_test names an op that is neither here nor in the grids.
struct OpWithoutGrid {
  absl::string_view op, reason;
};
absl::Span<const OpWithoutGrid> OpsWithoutGrid();

// Every point of a grid, the last axis innermost.
std::vector<std::vector<int64_t>> PointsOf(const std::vector<std::vector<int64_t>>& axes);

}  // namespace sluice

#endif  // SLUICE_BENCH_KERNEL_GRIDS_H_
