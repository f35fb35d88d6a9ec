#include "framework/device/device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/device/async.h"
#include "framework/device/memory.h"
#include "framework/device/null_stream.h"

namespace sluice {
namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(Memory bytes) : bytes_(std::move(bytes)) {}
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::byte* memory() const override { return bytes_.data(); }
  MemoryMark mark() const override { return bytes_.mark(); }
  Stream* OpenStream(ThreadPool* thread_pool) override {
    streams_.push_back(std::make_unique<CpuStream>(thread_pool));
    return streams_.back().get();
  }
  void CopyIn(int64_t offset, absl::Span<const std::byte> from) override {
    std::copy(from.begin(), from.end(), bytes_.data() + offset);
  }
  void CopyOut(int64_t offset, absl::Span<std::byte> to) const override {
    std::copy_n(bytes_.data() + offset, to.size(), to.begin());
  }

 private:
  const Memory bytes_;
  std::vector<std::unique_ptr<CpuStream>> streams_;
};

// Has no memory: what is copied in is lost, and what is copied out is as it was.
class NullDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kNull; }
  std::byte* memory() const override { return nullptr; }
  Stream* OpenStream(ThreadPool*) override {
    streams_.push_back(std::make_unique<NullStream>());
    return streams_.back().get();
  }
  NullCounts null_counts() const override {
    NullCounts sum;
    for (const auto& stream : streams_) {
      const NullCounts counts = stream->counts();
      sum.instructions += counts.instructions;
      sum.flops += counts.flops;
      sum.wire_bytes += counts.wire_bytes;
    }
    return sum;
  }
  void CopyIn(int64_t, absl::Span<const std::byte>) override {}
  void CopyOut(int64_t, absl::Span<std::byte>) const override {}

 private:
  std::vector<std::unique_ptr<NullStream>> streams_;
};

// Memory that cannot be shared is still memory.
absl::StatusOr<Memory> AllocateFor(const DeviceSpec& spec) {
  if (spec.shared) {
    absl::StatusOr<Memory> memory = Memory::AllocateShared(spec.bytes);
    if (memory.ok()) return memory;
    SLUICE_LOG(WARNING) << "device " << spec.name << ": " << memory.status().message()
                        << "; other processes will be sent what they could read there";
  }
  return Memory::Allocate(spec.bytes);
}

absl::StatusOr<std::unique_ptr<Device>> Open(const DeviceSpec& spec,
                                             const std::shared_ptr<AsyncEngine>& async) {
  switch (spec.kind) {
    case DeviceKind::kCpu: {
      ASSIGN_OR_RETURN(Memory bytes, AllocateFor(spec));
      return std::unique_ptr<Device>(std::make_unique<CpuDevice>(std::move(bytes)));
    }
    case DeviceKind::kNull:
      return std::unique_ptr<Device>(std::make_unique<NullDevice>());
    case DeviceKind::kAsync:
      return AsyncDevice::Open(spec, async);
    case DeviceKind::kCuda:
      break;
  }
  return absl::UnimplementedError(
      "no CUDA device: this build has none of them (build with --config=cuda), or run with "
      "--devices=cpu");
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(absl::Span<const DeviceSpec> specs,
                                                                 const AsyncOptions& async) {
  const auto engine = std::make_shared<AsyncEngine>(async);
  std::vector<std::unique_ptr<Device>> devices;
  for (const DeviceSpec& spec : specs) {
    absl::StatusOr<std::unique_ptr<Device>> device = Open(spec, engine);
    if (!device.ok()) return AddContext(device.status(), absl::StrCat("device ", spec.name));
    devices.push_back(*std::move(device));
  }
  return absl::StatusOr<std::vector<std::unique_ptr<Device>>>(std::move(devices));
}

}  // namespace sluice
