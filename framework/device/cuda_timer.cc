#include "framework/device/cuda_timer.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "framework/base/status.h"
#include "framework/device/cuda_device.h"

namespace sluice {
namespace {

// So many marks are kept before the older half is asked for: a long timeline holds few events, and
// by then they were reached.
constexpr size_t kMostPending = 8192;

}  // namespace

CudaTimer::~CudaTimer() {
  for (const cudaEvent_t event : pending_) cudaEventDestroy(event);
  for (const cudaEvent_t event : free_) cudaEventDestroy(event);
  if (base_ != nullptr) cudaEventDestroy(base_);
}

absl::StatusOr<cudaEvent_t> CudaTimer::NewEvent() {
  cudaEvent_t event = nullptr;
  if (!free_.empty()) {
    event = free_.back();
    free_.pop_back();
    return event;
  }
  RETURN_IF_ERROR(FromCuda(cudaEventCreateWithFlags(&event, cudaEventDefault),
                           "cudaEventCreateWithFlags of a timeline"));
  return event;
}

absl::Status CudaTimer::Start() {
  ASSIGN_OR_RETURN(base_, NewEvent());
  RETURN_IF_ERROR(FromCuda(cudaEventRecord(base_, stream_), "cudaEventRecord of a timeline"));
  RETURN_IF_ERROR(FromCuda(cudaEventSynchronize(base_), "cudaEventSynchronize of a timeline"));
  base_time_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
                   .count();
  return absl::OkStatus();
}

absl::Status CudaTimer::Mark() {
  ASSIGN_OR_RETURN(const cudaEvent_t event, NewEvent());
  pending_.push_back(event);
  RETURN_IF_ERROR(FromCuda(cudaEventRecord(event, stream_), "cudaEventRecord of a timeline"));
  return pending_.size() < kMostPending ? absl::OkStatus() : Resolve(kMostPending / 2);
}

// The runtime gives milliseconds as f32, which after ten seconds are a microsecond apart. So the
// last mark of each batch is what the next one is reckoned from.
absl::Status CudaTimer::Resolve(size_t count) {
  if (count == 0) return absl::OkStatus();
  RETURN_IF_ERROR(
      FromCuda(cudaEventSynchronize(pending_[count - 1]), "cudaEventSynchronize of a timeline"));
  int64_t time = 0;
  for (size_t i = 0; i < count; ++i) {
    float milliseconds = 0;
    RETURN_IF_ERROR(FromCuda(cudaEventElapsedTime(&milliseconds, base_, pending_[i]),
                             "cudaEventElapsedTime of a timeline"));
    time = base_time_ + std::llround(static_cast<double>(milliseconds) * 1e6);
    times_.push_back(time);
  }
  free_.push_back(std::exchange(base_, pending_[count - 1]));
  base_time_ = time;
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(count) - 1);
  for (size_t i = 0; i + 1 < count; ++i) {
    free_.push_back(pending_.front());
    pending_.pop_front();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> CudaTimer::Take() {
  RETURN_IF_ERROR(Resolve(pending_.size()));
  return std::move(times_);
}

}  // namespace sluice
