// Measures this machine for the compiler: kernels by kind and size, what an instruction costs
// beside its kernel, and messages between workers. Nothing of a model is run. One thread.
#ifndef SLUICE_BENCH_CALIBRATION_H_
#define SLUICE_BENCH_CALIBRATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/kernel_grids.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/device/memory.h"
#include "framework/machine/machine.h"

namespace sluice {

struct CalibrationOptions {
  int cores = 0;  // 0: those of this machine
  // Bytes that a core's operands come from in turn: well within its own cache, and well past it.
  int64_t hot_bytes = 256 << 10, cold_bytes = 64 << 20;
  int64_t sample_nanoseconds = 600'000;  // at least this long at each point of a pass
  int passes = 2;                        // over everything; the faster one counts
  std::vector<KernelGrid> grids = KernelGrids();
};

// Times kernels with every core busy: on each core one device of one thread, or one device of
// several threads. The median of the runs at a point is taken: a step is the sum of what its
// kernels take as they come, and a lower quartile, which suits a limit, makes every step look some
// 5 % too fast.
class KernelTimer {
 public:
  explicit KernelTimer(const CalibrationOptions& options);
  // One pass over a grid.
  absl::StatusOr<KernelTimes> Time(const KernelGrid& grid, int threads, bool cold);

 private:
  absl::StatusOr<double> TimeSample(const KernelSample& sample, int threads, int64_t pool_bytes);

  const CalibrationOptions options_;
  const int cores_;
  std::vector<Memory> pools_;  // by lane
  // Of all cores, made once: new threads begin on one core, and are moved apart only later.
  std::unique_ptr<CpuThreadPool> thread_pool_;
};

// The faster of two passes at each point; then no time falls along an axis, but for the grid's
// may_fall: a disturbed point must not make a larger kernel look the faster one.
KernelTimes Merge(const KernelGrid& grid, absl::Span<const KernelTimes> passes);

// A machine with all of it. `progress` hears of each kernel begun; may be empty.
absl::StatusOr<Machine> Calibrate(const CalibrationOptions& options,
                                  const std::function<void(const std::string&)>& progress);

}  // namespace sluice

#endif  // SLUICE_BENCH_CALIBRATION_H_
