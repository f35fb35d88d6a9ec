// When a CUDA stream came to marks between what it was given, by events, in the host's time.
#ifndef SLUICE_FRAMEWORK_DEVICE_CUDA_TIMER_H_
#define SLUICE_FRAMEWORK_DEVICE_CUDA_TIMER_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// One thread, whose current device is the stream's.
class CudaTimer {
 public:
  explicit CudaTimer(cudaStream_t stream) : stream_(stream) {}
  ~CudaTimer();
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;

  // Waits until the stream has done what it was given: from that moment on times are reckoned.
  absl::Status Start();
  // Behind all that the stream was given so far.
  absl::Status Mark();
  int64_t marks() const { return static_cast<int64_t>(times_.size() + pending_.size()); }
  // When the stream came to each mark, nanoseconds of the steady clock; waits for those ahead.
  absl::StatusOr<std::vector<int64_t>> Take();

 private:
  absl::StatusOr<cudaEvent_t> NewEvent();
  absl::Status Resolve(size_t count);

  const cudaStream_t stream_;
  cudaEvent_t base_ = nullptr;  // a mark that was reached, and when
  int64_t base_time_ = 0;
  std::deque<cudaEvent_t> pending_;
  std::vector<cudaEvent_t> free_;
  std::vector<int64_t> times_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_CUDA_TIMER_H_
