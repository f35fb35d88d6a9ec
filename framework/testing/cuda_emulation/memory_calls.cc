// Calls that allocate, copy and fill memory.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/testing/cuda_emulation/access.h"
#include "framework/testing/cuda_emulation/call.h"
#include "framework/testing/cuda_emulation/capture.h"

namespace sluice::cuda_emulation {
namespace {

// Rows of `width` bytes.
struct Copy {
  std::byte* to;
  const std::byte* from;
  size_t width, rows, to_pitch, from_pitch;
  cudaMemcpyKind kind;
  bool may_be_pageable;  // of a call that waits
};

bool IsOnDevice(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return InMemory(address) && RegionOf(address) != kHostRegion;
}

// The driver takes such a copy through memory of the host.
bool IsStaged(const Runtime& runtime, const Copy& copy) {
  if (!IsOnDevice(copy.from) || !IsOnDevice(copy.to)) return false;
  const int from = RegionOf(reinterpret_cast<uintptr_t>(copy.from));
  const int to = RegionOf(reinterpret_cast<uintptr_t>(copy.to));
  return from != to && runtime.peers.count({from, to}) == 0 && runtime.peers.count({to, from}) == 0;
}

size_t Extent(size_t width, size_t rows, size_t pitch) {
  return rows == 0 ? 0 : (rows - 1) * pitch + width;
}

cudaError_t CheckEnd(const Runtime& runtime, const char* end, const void* begin, size_t bytes,
                     bool may_be_pageable) {
  if (IsOnDevice(begin)) {
    if (runtime.memory.Find(begin, bytes) != nullptr) return cudaSuccess;
    Report(std::string("a copy ") + end + " outside of an allocation");
    return cudaErrorInvalidValue;
  }
  if (begin == nullptr) return cudaErrorInvalidValue;
  if (!may_be_pageable && !runtime.IsPinned(begin, bytes)) {
    Report(std::string("an asynchronous copy ") + end + " pageable host memory");
  }
  return cudaSuccess;
}

cudaError_t CheckCopy(const Runtime& runtime, const Copy& copy) {
  if (copy.kind < cudaMemcpyHostToHost || copy.kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (copy.rows > 1 && (copy.to_pitch < copy.width || copy.from_pitch < copy.width)) {
    return cudaErrorInvalidPitchValue;
  }
  const int from_device = IsOnDevice(copy.from), to_device = IsOnDevice(copy.to);
  if (copy.kind != cudaMemcpyDefault && copy.kind != (from_device * 2 | to_device)) {
    Report("a copy does not go the way that its kind says");
    return cudaErrorInvalidValue;
  }
  const cudaError_t from =
      CheckEnd(runtime, "reads", copy.from, Extent(copy.width, copy.rows, copy.from_pitch),
               copy.may_be_pageable);
  if (from != cudaSuccess) return from;
  return CheckEnd(runtime, "writes", copy.to, Extent(copy.width, copy.rows, copy.to_pitch),
                  copy.may_be_pageable);
}

template <typename Fn>
void ForEachRow(const HostRange& range, const Fn& fn) {
  for (size_t row = 0; row < range.rows; ++row) {
    fn(reinterpret_cast<std::byte*>(range.begin + row * range.pitch));
  }
}

uint64_t HashOf(const HostRange& range) {
  uint64_t hash = 0;
  ForEachRow(range, [&](const std::byte* row) {
    size_t left = range.width;
    for (; left > 0;) {
      uint64_t word = 0;
      const size_t part = std::min(left, sizeof(word));
      std::memcpy(&word, row, part);
      hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
      hash ^= hash >> 29;
      row += part;
      left -= part;
    }
  });
  return hash;
}

// Whether [begin, begin + bytes) has a byte of a row of the range.
bool Touches(const HostRange& range, uintptr_t begin, size_t bytes) {
  if (begin + bytes <= range.begin) return false;
  if (begin >= range.begin + Extent(range.width, range.rows, range.pitch)) return false;
  if (begin < range.begin || range.rows == 1) return true;
  const size_t offset = (begin - range.begin) % range.pitch;
  return offset < range.width || offset + bytes > range.pitch;
}

bool Overlap(const HostRange& a, const HostRange& b) {
  if (!Touches({a.begin, Extent(a.width, a.rows, a.pitch), 1, 0, false}, b.begin,
               Extent(b.width, b.rows, b.pitch))) {
    return false;
  }
  for (size_t row = 0; row < b.rows; ++row) {
    if (Touches(a, b.begin + row * b.pitch, b.width)) return true;
  }
  return false;
}

// What a copy's end in host memory is to be when the copy runs: as it was when it was fixed, for
// the host may touch it no more. Where the copy writes, it is NaN until then. It is fixed at the
// call, unless somebody else may rightly use the bytes after that: an earlier copy, or what comes
// before a peer of a collective that this copy waits for, which the host may not even have called
// for:
//
//   host, for device 0   all-reduce, copy to the host       the bytes are a feed's of device 1
//   until host, for device 1   copy from the host, all-reduce     the sum, whoever of the host is
//   first
//
// Then it is fixed when nothing stands before the copy any more.
class HostEnd {
 public:
  HostEnd(Runtime& runtime, const Operation& operation, HostRange range)
      : range_(std::make_shared<HostRange>(std::move(range))) {
    range_->stream = operation.stream;
    range_->number = operation.number;
    for (const std::shared_ptr<HostRange>& other : runtime.host_ranges) {
      if ((!other->written && !range_->written) || !Overlap(*other, *range_)) continue;
      range_->conflicts.push_back(other);
      if (!other->copied) other->conflicts.push_back(range_);
    }
    runtime.host_ranges.push_back(range_);
    if (range_->conflicts.empty() && !runtime.WaitsForMeeting(operation.clock)) Fix();
  }

  void Fix() {
    if (std::exchange(is_fixed_, true)) return;
    if (range_->written) {
      ForEachRow(*range_, [&](std::byte* row) { std::memset(row, 0xff, range_->width); });
    }
    hash_ = HashOf(*range_);
  }

  // When the copy runs. Of two in no order the one that runs later finds the other.
  void Check(const Operation& operation) const {
    range_->copied = true;
    const auto conflicts = std::exchange(range_->conflicts, {});
    bool in_order = true;
    for (const auto& other : conflicts) {
      if (!other->copied || operation.clock[other->stream] >= other->number) continue;
      in_order = false;
      Report("a copy " + std::string(range_->written ? "writes" : "reads") +
             " host memory without order after a copy that " +
             (other->written ? "writes" : "reads") + " it in stream " +
             std::to_string(other->stream));
    }
    if (!in_order || HashOf(*range_) == hash_) return;
    Report("the host changed host memory between an asynchronous copy's call and its end");
  }

 private:
  const std::shared_ptr<HostRange> range_;
  bool is_fixed_ = false;
  uint64_t hash_ = 0;
};

void RunCopy(Runtime& runtime, const Copy& copy) {
  ++runtime.statistics.copies;
  runtime.statistics.staged_copies += IsStaged(runtime, copy);
  runtime.statistics.copied_bytes += static_cast<int64_t>(copy.width * copy.rows);
  for (size_t row = 0; row < copy.rows; ++row) {
    const std::byte* const from = copy.from + row * copy.from_pitch;
    std::byte* const to = copy.to + row * copy.to_pitch;
    if (!CheckRange(from, copy.width, AccessKind::kRead) ||
        !CheckRange(to, copy.width, AccessKind::kWrite)) {
      runtime.sticky = cudaErrorIllegalAddress;
      return;
    }
    std::memmove(to, from, copy.width);
  }
}

cudaError_t EnqueueCopy(Runtime& runtime, Lock& lock, Stream* stream, const Copy& copy) {
  if (copy.width == 0 || copy.rows == 0) return cudaSuccess;
  if (const cudaError_t error = CheckCopy(runtime, copy); error != cudaSuccess) return error;
  Operation* const operation = runtime.Enqueue(lock, stream, {"copy", nullptr, ""}, nullptr);
  std::shared_ptr<HostEnd> from, to;
  if (!IsOnDevice(copy.from)) {
    from = std::make_shared<HostEnd>(runtime, *operation,
                                     HostRange{reinterpret_cast<uintptr_t>(copy.from), copy.width,
                                               copy.rows, copy.from_pitch, false});
  }
  if (!IsOnDevice(copy.to)) {
    to = std::make_shared<HostEnd>(runtime, *operation,
                                   HostRange{reinterpret_cast<uintptr_t>(copy.to), copy.width,
                                             copy.rows, copy.to_pitch, true});
  }
  if (from != nullptr || to != nullptr) {
    operation->begin = [from, to] {
      if (from != nullptr) from->Fix();
      if (to != nullptr) to->Fix();
    };
  }
  operation->run = [&runtime, copy, from, to, operation] {
    if (from != nullptr) from->Check(*operation);
    if (to != nullptr) to->Check(*operation);
    RunCopy(runtime, copy);
  };
  return cudaSuccess;
}

cudaError_t EnqueueStaged(Runtime& runtime, Lock& lock, Stream* stream, Copy copy) {
  if (copy.width == 0) return cudaSuccess;
  if (const cudaError_t error = CheckCopy(runtime, copy); error != cudaSuccess) return error;
  const auto staged =
      std::make_shared<const std::vector<std::byte>>(copy.from, copy.from + copy.width);
  copy.from = staged->data();
  runtime.Enqueue(lock, stream, {"copy", nullptr, ""},
                  [&runtime, copy, staged] { RunCopy(runtime, copy); });
  return cudaSuccess;
}

Copy Bytes(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return {static_cast<std::byte*>(to),
          static_cast<const std::byte*>(from),
          bytes,
          1,
          bytes,
          bytes,
          kind,
          false};
}

cudaError_t EnqueueFill(Runtime& runtime, Lock& lock, Stream* stream, void* begin, int value,
                        size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (runtime.memory.Find(begin, bytes) == nullptr) {
    Report("a fill writes outside of an allocation");
    return cudaErrorInvalidValue;
  }
  runtime.Enqueue(lock, stream, {"fill", nullptr, ""}, [&runtime, begin, value, bytes] {
    ++runtime.statistics.fills;
    if (CheckRange(begin, bytes, AccessKind::kWrite)) {
      std::memset(begin, value, bytes);
    } else {
      runtime.sticky = cudaErrorIllegalAddress;
    }
  });
  return cudaSuccess;
}

cudaError_t AllocateHost(void** begin, size_t bytes, bool mapped) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (const cudaError_t error = RefuseInCapture(runtime); error != cudaSuccess) return error;
    ++runtime.statistics.allocations;
    *begin = bytes == 0 ? nullptr : runtime.memory.Allocate(kHostRegion, bytes, mapped);
    return bytes > 0 && *begin == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

// Of host memory that is about to be pageable, or gone.
void ReportCopiesOf(const Runtime& runtime, uintptr_t begin, size_t bytes) {
  for (const std::shared_ptr<HostRange>& range : runtime.host_ranges) {
    if (!Touches(*range, begin, bytes)) continue;
    Report("pinned memory is given back before the host has waited for a copy that uses it");
    return;
  }
}

}  // namespace
}  // namespace sluice::cuda_emulation

using namespace sluice::cuda_emulation;  // NOLINT: the calls are of the global namespace

cudaError_t cudaMalloc(void** devPtr, size_t size) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (const cudaError_t error = RefuseInCapture(runtime); error != cudaSuccess) return error;
    ++runtime.statistics.allocations;
    *devPtr = nullptr;
    if (size == 0) return cudaSuccess;
    const int device = ThisThread().device;
    const size_t free = runtime.options.bytes_per_device - runtime.memory.allocated(device);
    if (size > free) return cudaErrorMemoryAllocation;
    *devPtr = runtime.memory.Allocate(device, size, false);
    return *devPtr == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

// Waits for the device, as the runtime does.
cudaError_t cudaFree(void* devPtr) {
  return MakeCall([&](Runtime& runtime, Lock& lock) {
    if (devPtr == nullptr) return cudaSuccess;
    if (const cudaError_t error = RefuseInCapture(runtime); error != cudaSuccess) return error;
    ++runtime.statistics.allocations;
    if (!IsOnDevice(devPtr)) return cudaErrorInvalidValue;
    runtime.DrainDevice(lock, RegionOf(reinterpret_cast<uintptr_t>(devPtr)));
    return runtime.memory.Free(devPtr) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMallocHost(void** ptr, size_t size) { return AllocateHost(ptr, size, false); }

cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
  if (flags & ~(cudaHostAllocPortable | cudaHostAllocMapped)) {
    return MakeCall([](Runtime&, Lock&) { return cudaErrorInvalidValue; });
  }
  return AllocateHost(pHost, size, flags & cudaHostAllocMapped);
}

cudaError_t cudaFreeHost(void* ptr) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (ptr == nullptr) return cudaSuccess;
    if (const cudaError_t error = RefuseInCapture(runtime); error != cudaSuccess) return error;
    ++runtime.statistics.allocations;
    if (!InMemory(reinterpret_cast<uintptr_t>(ptr)) || IsOnDevice(ptr)) {
      return cudaErrorInvalidValue;
    }
    const Allocation* const allocation = runtime.memory.Find(ptr, 0);
    if (allocation != nullptr) {
      ReportCopiesOf(runtime, reinterpret_cast<uintptr_t>(ptr), allocation->bytes);
    }
    return runtime.memory.Free(ptr) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned int flags) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (const cudaError_t error = RefuseInCapture(runtime); error != cudaSuccess) return error;
    ++runtime.statistics.allocations;
    if (ptr == nullptr || size == 0 || (flags & ~cudaHostRegisterPortable)) {
      return cudaErrorInvalidValue;
    }
    const auto begin = reinterpret_cast<uintptr_t>(ptr);
    if (InMemory(begin)) return cudaErrorHostMemoryAlreadyRegistered;
    const auto next = runtime.registered.lower_bound(begin);
    if (next != runtime.registered.end() && next->first < begin + size) {
      return cudaErrorHostMemoryAlreadyRegistered;
    }
    if (next != runtime.registered.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second > begin) return cudaErrorHostMemoryAlreadyRegistered;
    }
    runtime.registered[begin] = size;
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* ptr) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (const cudaError_t error = RefuseInCapture(runtime); error != cudaSuccess) return error;
    ++runtime.statistics.allocations;
    const auto found = runtime.registered.find(reinterpret_cast<uintptr_t>(ptr));
    if (found == runtime.registered.end()) return cudaErrorHostMemoryNotRegistered;
    ReportCopiesOf(runtime, found->first, found->second);
    runtime.registered.erase(found);
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** pDevice, void* pHost, unsigned int) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    const Allocation* const allocation = runtime.memory.Find(pHost, 1);
    if (allocation == nullptr || !allocation->mapped) return cudaErrorInvalidValue;
    *pDevice = pHost;
    return cudaSuccess;
  });
}

// Of pageable memory to a device it waits only until the bytes are staged: what other streams do
// with them has to wait for the rest.
cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return MakeCall([&](Runtime& runtime, Lock& lock) {
    if (const cudaError_t error = RefuseInCapture(runtime); error != cudaSuccess) return error;
    Copy copy = Bytes(dst, src, count, kind);
    copy.may_be_pageable = true;
    Stream* const stream = runtime.SynchronousStream(ThisThread().device);
    if (IsOnDevice(dst) && !IsOnDevice(src) && !runtime.IsPinned(src, count)) {
      runtime.Drain(lock, stream);
      return EnqueueStaged(runtime, lock, stream, copy);
    }
    const cudaError_t error = EnqueueCopy(runtime, lock, stream, copy);
    if (error == cudaSuccess) runtime.Drain(lock, stream);
    return error;
  });
}

// The runtime does not wait for it either, which kernels in other streams have to know.
cudaError_t cudaMemset(void* devPtr, int value, size_t count) {
  return MakeCall([&](Runtime& runtime, Lock& lock) {
    if (const cudaError_t error = RefuseInCapture(runtime); error != cudaSuccess) return error;
    Stream* const stream = runtime.SynchronousStream(ThisThread().device);
    return EnqueueFill(runtime, lock, stream, devPtr, value, count);
  });
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const Copy copy = Bytes(dst, src, count, kind);
  return Submit(stream, false, [copy](Runtime& runtime, Lock& lock, Stream* on) {
    return EnqueueCopy(runtime, lock, on, copy);
  });
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  Copy copy = Bytes(dst, src, width, kind);
  copy.rows = height;
  copy.to_pitch = dpitch;
  copy.from_pitch = spitch;
  return Submit(stream, false, [copy](Runtime& runtime, Lock& lock, Stream* on) {
    return EnqueueCopy(runtime, lock, on, copy);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* dst, int dstDevice, const void* src, int srcDevice,
                                size_t count, cudaStream_t stream) {
  const Copy copy = Bytes(dst, src, count, cudaMemcpyDefault);
  const auto is_of = [](const void* p, int device) {
    return IsOnDevice(p) && RegionOf(reinterpret_cast<uintptr_t>(p)) == device;
  };
  return Submit(stream, false, [=](Runtime& runtime, Lock& lock, Stream* on) {
    if (count > 0 && (!is_of(dst, dstDevice) || !is_of(src, srcDevice))) {
      Report("a copy between devices is of memory that is not theirs");
      return cudaErrorInvalidValue;
    }
    return EnqueueCopy(runtime, lock, on, copy);
  });
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
  return Submit(stream, true, [=](Runtime& runtime, Lock& lock, Stream* on) {
    return EnqueueFill(runtime, lock, on, devPtr, value, count);
  });
}
