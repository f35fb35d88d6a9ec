// The kernels of a step on a card, each alone between two events: how long it takes on operands of
// its own, beside what the card could do at most. One thread.
#ifndef SLUICE_BENCH_GPU_OP_TIMING_H_
#define SLUICE_BENCH_GPU_OP_TIMING_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/op_operands.h"
#include "framework/device/cuda_device.h"
#include "framework/device/device.h"
#include "framework/kernels/kernel.h"
#include "framework/machine/gpu_peaks.h"
#include "framework/tensor/dtype.h"

namespace sluice {

struct GpuOpTime {
  std::string name;  // the op and the shapes of its operands
  int64_t count = 0;
  double seconds = 0, flops = 0, bytes = 0;
  double working_set = 0;                         // bytes that differ
  double arithmetic_limit = 0, memory_limit = 0;  // seconds, at the peaks

  double Limit() const { return std::max(arithmetic_limit, memory_limit); }
  const char* Binds() const { return arithmetic_limit > memory_limit ? "arithmetic" : "memory"; }
};

struct GpuTimingOptions {
  double budget = 0.02;        // seconds a kernel
  int64_t most_launches = 50;  // of a kernel, at least 1
  // Operands are had so many times over that they are of so many bytes together, so that what is in
  // the card's caches after one launch is not what the next one reads.
  int64_t rotated_bytes = int64_t{256} << 20;
};

class GpuOpTimer {
 public:
  // For instructions that need no more than `bytes` each, on the first card.
  static absl::StatusOr<GpuOpTimer> Create(int64_t bytes, const GpuTimingOptions& options);
  GpuOpTimer(GpuOpTimer&&) = default;
  GpuOpTimer& operator=(GpuOpTimer&&) = default;

  const std::string& card() const { return card_; }
  // What limits are of: the card's published peaks, or what MeasureX gave where there are none.
  const GpuPeaks& peaks() const { return peaks_; }
  void set_peaks(const GpuPeaks& peaks) { peaks_ = peaks; }

  absl::StatusOr<GpuOpTime> Measure(const DistinctInstruction& one);
  // Bytes a second, read and written, of a copy within the card; of as many bytes as Create was
  // given at most.
  absl::StatusOr<double> MeasureCopy(int64_t bytes);
  // Operations a second of a product of square matrices, by our kernel.
  absl::StatusOr<double> MeasureMatMul(int64_t width, DType precision);

  // That `one` needs of Create.
  static absl::StatusOr<int64_t> BytesOf(const DistinctInstruction& one);

 private:
  struct Prepared {
    KernelSpec spec;
    std::unique_ptr<Kernel> kernel;
    OperandPlaces places;
    int64_t copies = 1;
  };

  absl::StatusOr<Prepared> Prepare(const DistinctInstruction& one, const KernelSpec& spec);
  // At least so many bytes of scratch from now on.
  absl::Status ReserveScratch(int64_t bytes);
  // What comes next is of no instruction, and may touch everything.
  void BeginCopies();
  absl::Status Fill(const Prepared& prepared);
  // Seconds of a launch; `launch` is called with 0, 1, 2 ...
  absl::StatusOr<double> TimeOf(const std::function<absl::Status(int64_t)>& launch);
  absl::StatusOr<double> Between(int64_t launches,
                                 const std::function<absl::Status(int64_t)>& launch);
  absl::StatusOr<double> TimeOfKernel(const Prepared& prepared);
  absl::Status Wait();
  GpuOpTime Describe(const DistinctInstruction& one, const KernelSpec& spec) const;

  struct EventDeleter {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;
  struct CardMemoryDeleter {
    void operator()(std::byte* memory) const { cudaFree(memory); }
  };

  GpuOpTimer() = default;

  GpuTimingOptions options_;
  GpuPeaks peaks_;
  std::string card_;
  int64_t bytes_ = 0;
  std::unique_ptr<Device> device_;
  CudaStream* stream_ = nullptr;
  int32_t copies_ = 0;  // their place at the stream
  Event begin_, end_;
  std::unique_ptr<std::byte, CardMemoryDeleter> scratch_;
  int64_t scratch_bytes_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_BENCH_GPU_OP_TIMING_H_
