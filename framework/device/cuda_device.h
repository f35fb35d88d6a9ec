// CUDA devices: an arena of device memory each, and streams whose fences are events.
//
// A fence names a stream and how many times it has been recorded. Each stream has a ring of events,
// one a record; a record that would overwrite an event whose work is not done waits for it, so a
// stream holds a bounded amount of work, and no event that somebody may still ask about is lost.
//
// The first error, of the runtime or of a kernel, is kept for all devices of a runtime. From then
// on every fence is done: nothing that waits for a broken device hangs.
#ifndef SLUICE_FRAMEWORK_DEVICE_CUDA_DEVICE_H_
#define SLUICE_FRAMEWORK_DEVICE_CUDA_DEVICE_H_

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/device/cuda_errors.h"
#include "framework/device/cuda_operand_watch.h"
#include "framework/device/cuda_timer.h"
#include "framework/device/device.h"
#include "framework/device/given_work.h"
#include "framework/device/stream_times.h"

namespace sluice {

// OK, or Internal with the call, the error's name and what the runtime says of it.
absl::Status FromCuda(cudaError_t error, const char* call);

// How many cards there are, one at least. Unavailable says what the driver says where there is
// none.
absl::StatusOr<int> CountCudaCards();

class CudaStream;

// The streams of a runtime's CUDA devices, and what has gone wrong on them. Any thread.
class CudaEngine {
 public:
  bool Done(Fence fence) const;
  absl::Status status() const;
  // The first is kept.
  void Fail(const absl::Status& status) const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  friend class CudaDevice;
  friend class CudaStream;
  void CheckCells() const;
  // What a card was given and is not known to have done: "device 1, h0/norm (layer_norm); ...".
  // Empty if that is nothing.
  std::string UnderWay(int card) const;

  struct Place {
    std::string op, before_step, after_step;
  };

  std::vector<CudaStream*> streams_;     // grows while devices are opened, before any step
  std::vector<DeviceErrorCell*> cells_;  // of devices
  mutable std::mutex mutex_;             // guards what follows
  std::vector<Place> places_;
  mutable absl::Status status_;
  mutable std::atomic<bool> failed_{false};
};

class CudaStream final : public Stream, public StreamTimes {
 public:
  CudaStream(CudaEngine* engine, int device, DeviceErrorCell* cell, cudaStream_t handle, int index);
  ~CudaStream() override;

  Fence Record() override;
  void Wait(Fence fence) override;
  bool captures() const override { return true; }
  absl::StatusOr<int32_t> Capture(absl::FunctionRef<absl::Status()> give) override;
  void Replay(int32_t capture, int64_t step) override;
  // Of what Begin and End enclose; what is replayed is not timed.
  void StartTimes() override;
  int64_t timed() const override { return timer_ == nullptr ? 0 : timer_->marks() / 2; }
  std::vector<StreamTime> TakeTimes() override;

  // The calling thread's device is the stream's from here on.
  absl::Status MakeCurrent() const;

  cudaStream_t handle() const { return handle_; }
  int device() const { return device_; }
  // In device memory, the number of the step that what runs on this stream belongs to: launches
  // that are replayed have their arguments of another step.
  const int64_t* step() const { return step_; }

  // Names an instruction whose kernels may find errors; its number.
  int32_t AddPlace(const std::string& op, const std::string& before_step,
                   const std::string& after_step);
  // Before an instruction launches: it is the caller's thread that does, on this stream's device,
  // and it touches these operands alone. No step: none of its kernels reads it.
  void Begin(int32_t place, std::optional<int64_t> step, absl::Span<const CudaOperand> operands);
  // Behind what it has launched.
  void End();
  // Of the instruction that has begun.
  DeviceErrors errors() const { return {cell_, place_, step_}; }
  // An error of a call. If the card has failed at something that it was given before, which any
  // call then tells, also what that may have been.
  absl::Status WithWorkUnderWay(const absl::Status& status) const;
  // Allocates what the stream has in device memory. Before anything else.
  absl::Status Open();
  // fn is called before the stream ends: what a library keeps of it goes first.
  void AtEnd(std::function<void()> fn) { at_end_.push_back(std::move(fn)); }

 private:
  friend class CudaEngine;
  static constexpr uint64_t kEvents = 512;

  bool IsDone(uint64_t count) const;
  void MarkTime();
  // Places of instructions that are not known to be done. Under the engine's mutex.
  std::vector<int32_t> PlacesUnderWay() const;
  void SetStep(int64_t step);

  CudaEngine& engine_;
  const int device_;
  DeviceErrorCell* const cell_;
  const cudaStream_t handle_;
  const int index_;
  int32_t place_ = 0;
  int64_t* step_ = nullptr;    // in device memory
  int64_t current_step_ = -1;  // what lies there when the stream comes to what it is given next
  bool has_new_ = false;       // work since the last record
  uint64_t recorded_ = 0;
  mutable std::atomic<uint64_t> done_{0};  // records known to be done
  std::vector<cudaEvent_t> events_;
  std::vector<cudaGraphExec_t> graphs_;  // by capture
  GivenWork given_;                      // places, and -1 - n for capture n
  // By record: how much had been given. Twice the events, so that the last that is known to be done
  // is still there when the next one takes its event.
  std::array<std::atomic<uint64_t>, 2 * kEvents> given_at_ = {};
  std::unique_ptr<CudaTimer> timer_;            // null: nothing is timed
  std::vector<int32_t>* capturing_ = nullptr;   // the places of what is being captured
  std::vector<std::vector<int32_t>> captured_;  // by capture; guarded by the engine's mutex
  std::vector<std::function<void()>> at_end_;
};

// Bytes that each card has free. Unavailable says what the driver says where there is none.
absl::StatusOr<std::vector<int64_t>> FreeCudaBytes();
// What the driver calls each card. Errors as above.
absl::StatusOr<std::vector<std::string>> CudaCardNames();
// A device each, in the order of `specs`, on as many cards as there are: device n of a process uses
// card n modulo their number. ResourceExhausted names what the arena needs and what the card has
// free; Unavailable as above.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(
    absl::Span<const DeviceSpec> specs);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_CUDA_DEVICE_H_
