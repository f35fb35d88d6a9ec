// A Device is a place that instructions run on: some memory, and streams. It is opened by its kind
// and owned by the runtime. Its memory is addressed by the instructions of its own streams alone,
// unless it is the host's; what lies where in it is the plan's business.
#ifndef SLUICE_FRAMEWORK_DEVICE_DEVICE_H_
#define SLUICE_FRAMEWORK_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/device_kind.h"
#include "framework/device/memory.h"
#include "framework/device/stream.h"

namespace sluice {

// What null devices count instead of doing it.
struct NullCounts {
  int64_t instructions = 0, flops = 0, wire_bytes = 0;
};

// Who knows which fences are done.
class FenceKeeper {
 public:
  virtual ~FenceKeeper() = default;
  // Any thread.
  virtual bool Done(Fence fence) const = 0;
  // The first error of what was done late; any thread.
  virtual absl::Status status() const = 0;
};

class Device : public FenceKeeper {
 public:
  virtual DeviceKind kind() const = 0;
  // Where its memory begins, in the addresses that its streams' instructions are given. Null if it
  // has none.
  virtual std::byte* memory() const = 0;
  // By which other processes may find it; of no file where it is not shared.
  virtual MemoryMark mark() const { return {}; }
  // A stream of this device, which owns it. Kernels of a CPU use the pool, which must outlive the
  // device; all other kinds ignore it. Not while another thread opens one.
  virtual Stream* OpenStream(ThreadPool* thread_pool) = 0;
  // Of a fence of any stream of any device of this kind; any thread.
  bool Done(Fence) const override { return true; }
  // Of what streams of this kind did late.
  absl::Status status() const override { return absl::OkStatus(); }
  // Of a null device: what its streams were given, over all steps.
  virtual NullCounts null_counts() const { return {}; }
  // Memory of the host that this kind's transfers will read and write; said once, before any.
  virtual void PinHostMemory(absl::Span<std::byte>) {}
  // Between host memory and the device's, from `offset` on. Only while nothing runs.
  virtual void CopyIn(int64_t offset, absl::Span<const std::byte> from) = 0;
  virtual void CopyOut(int64_t offset, absl::Span<std::byte> to) const = 0;
};

struct DeviceSpec {
  DeviceKind kind = DeviceKind::kCpu;
  int64_t bytes = 0;    // of memory
  std::string name;     // for errors: "0:3"
  bool shared = false;  // its memory with other processes, if it is of the host
  int32_t card = 0;     // of a CUDA device: modulo the cards that there are
};

// Mistakes that a runtime could make, planted in its stead to see that they are found.
enum class AsyncFault {
  kNone,
  kForgottenWait,  // now and then a stream does not wait for a fence
  kEarlyDone,      // now and then a fence is said to be done that is not
};

// Of the asynchronous devices of tests (async.h).
struct AsyncOptions {
  uint64_t seed = 0;  // of the order in which their streams work
  AsyncFault fault = AsyncFault::kNone;
};

// In the order of `specs`. Errors name the device: memory that is not there, or a kind that this
// build has not.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(absl::Span<const DeviceSpec> specs,
                                                                 const AsyncOptions& async);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_DEVICE_H_
