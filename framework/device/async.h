// Asynchronous devices for tests, of a CPU: what a GPU would not forgive shows on any laptop.
//
// Each has a memory space of its own. The addresses that it hands out are those of a mirror that
// nobody may touch; its own streams translate them when they run a kernel, so an instruction that
// reaches into another device's memory, or a host that reads a device's, faults at once.
//
// Its streams run late, and in a random order under a seed. Nothing that they are given is done
// until somebody asks whether a fence is done, or until a queue is full; then the heads of the
// streams are taken by priorities that change now and then, which puts streams as far apart as
// fences allow. So a fence that is not waited for, a slot that is freed before it has been read,
// a message that comes before its bytes give other bits.
//
// All asynchronous devices of a runtime share an AsyncEngine. It has no thread: work is done on the
// threads of those who ask, one at a time.
#ifndef SLUICE_FRAMEWORK_DEVICE_ASYNC_H_
#define SLUICE_FRAMEWORK_DEVICE_ASYNC_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/device/device.h"
#include "framework/device/memory.h"

namespace sluice {

class AsyncStream;

class AsyncEngine {
 public:
  explicit AsyncEngine(const AsyncOptions& options)
      : random_((options.seed + 1) * 0x9e3779b97f4a7c15u), fault_(options.fault) {}

 private:
  friend class AsyncStream;
  friend class AsyncDevice;
  struct Space {
    std::byte *mirror, *bytes;
    int64_t size;
  };

  uint64_t Below(uint64_t n);
  bool IsDone(Fence fence) const;
  // Does one thing that may be done now. False: there is nothing.
  bool DoOne();
  std::byte* Translate(std::byte* address) const;

  mutable std::mutex mutex_;  // guards all that follows, and the streams' queues
  uint64_t random_;
  const AsyncFault fault_;
  std::vector<AsyncStream*> streams_;
  std::vector<Space> spaces_;
  absl::Status status_;
};

class AsyncStream final : public Stream {
 public:
  AsyncStream(AsyncEngine* engine, int space);

  Fence Record() override;
  void Wait(Fence fence) override;

  // Calls fn(state, context, operands) later, with copies of both and with addresses that fn may
  // touch. InvalidArgument: an operand is not in this device's memory, and the work is no transfer.
  // Allocates only for a list of operands that is longer than all before.
  using Function = absl::Status (*)(void* state, const void* context, std::byte* const* operands);
  template <typename Context>
  absl::Status Launch(Function fn, void* state, const Context& context,
                      absl::Span<std::byte* const> operands, bool transfer) {
    static_assert(std::is_trivially_copyable_v<Context> &&
                  sizeof(Context) <= sizeof(Work::context));
    return LaunchBytes(fn, state, &context, sizeof(Context), operands, transfer);
  }

 private:
  friend class AsyncEngine;
  // As of a GPU: a launch into a full queue waits. What is queued waits only for what was queued
  // before it, so there is always something to do.
  static constexpr uint64_t kMostQueued = 512;
  struct Work {
    Fence fence;  // not 0: wait for it, and nothing else
    Function fn;
    void* state;
    alignas(16) std::byte context[64];
    std::vector<std::byte*> operands;
  };

  absl::Status LaunchBytes(Function fn, void* state, const void* context, size_t context_bytes,
                           absl::Span<std::byte* const> operands, bool transfer);
  Work& Push();
  bool CanDo() const;
  void Do();

  AsyncEngine& engine_;
  const int space_, index_;
  uint64_t given_ = 0, done_ = 0, priority_ = 0;
  size_t most_operands_ = 0;  // that a place in the queue has room for
  std::vector<Work> queue_{kMostQueued};
};

class AsyncDevice final : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Open(const DeviceSpec& spec,
                                                      std::shared_ptr<AsyncEngine> engine);
  ~AsyncDevice() override;

  DeviceKind kind() const override { return DeviceKind::kAsync; }
  std::byte* memory() const override { return mirror_; }
  Stream* OpenStream(ThreadPool* thread_pool) override;
  bool Done(Fence fence) const override;
  absl::Status status() const override;
  void CopyIn(int64_t offset, absl::Span<const std::byte> from) override;
  void CopyOut(int64_t offset, absl::Span<std::byte> to) const override;

 private:
  AsyncDevice(std::shared_ptr<AsyncEngine> engine, Memory bytes, std::byte* mirror);

  const std::shared_ptr<AsyncEngine> engine_;
  const Memory bytes_;
  std::byte* const mirror_;
  int space_ = 0;
  std::vector<std::unique_ptr<AsyncStream>> streams_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_ASYNC_H_
