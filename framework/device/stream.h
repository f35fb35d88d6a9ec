// A Stream does what it is given, one thing after another. The stream of a CPU does it before the
// call returns, on a pool of threads; the streams of all other devices take it and do it later, and
// tell with fences what is done (Device::Done). One worker gives work to a stream. Owned by its
// device.
#ifndef SLUICE_FRAMEWORK_DEVICE_STREAM_H_
#define SLUICE_FRAMEWORK_DEVICE_STREAM_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/fence.h"
#include "framework/device/thread_pool.h"

namespace sluice {

class Stream {
 public:
  virtual ~Stream() = default;

  // A fence of all that the stream has been given so far; 0 if that is done.
  virtual Fence Record() = 0;
  // What the stream is given from now on begins when the fence is done. The caller does not wait.
  // The fence may be of any stream of the same kind of device.
  virtual void Wait(Fence fence) = 0;
  // Whether Capture is possible.
  virtual bool captures() const { return false; }
  // Keeps what `give` gives to the stream, which is not done, to be given again by Replay: with the
  // same operands, in any step. Returns its number.
  virtual absl::StatusOr<int32_t> Capture(absl::FunctionRef<absl::Status()>) {
    return absl::UnimplementedError("a stream of this kind captures nothing");
  }
  // Gives the stream all of a capture at once, in the step of this number.
  virtual void Replay(int32_t, int64_t) {}
  // Threads that kernels of a CPU may use; null on all other devices.
  ThreadPool* thread_pool() const { return thread_pool_; }

 protected:
  explicit Stream(ThreadPool* thread_pool) : thread_pool_(thread_pool) {}

 private:
  ThreadPool* const thread_pool_;
};

// Kernels run on the caller's thread and the pool's, and return when they have ended.
class CpuStream final : public Stream {
 public:
  explicit CpuStream(ThreadPool* thread_pool) : Stream(thread_pool) {}
  Fence Record() override { return 0; }
  void Wait(Fence) override {}
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_STREAM_H_
