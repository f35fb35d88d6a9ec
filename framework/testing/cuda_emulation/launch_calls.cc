// Calls that give streams kernels, host functions and the work of libraries.
#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <utility>

#include "framework/testing/cuda_emulation/access.h"
#include "framework/testing/cuda_emulation/block.h"
#include "framework/testing/cuda_emulation/call.h"
#include "framework/testing/cuda_emulation/symbols.h"

namespace sluice::cuda_emulation {
namespace {

constexpr unsigned kMostGridX = 0x7fffffff, kMostGridYZ = 65535;
constexpr unsigned kMostThreads = 1024, kMostThreadsZ = 64;
constexpr size_t kMostArgumentBytes = 32764;

bool IsValid(const dim3& blocks, const dim3& threads) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return false;
  if (blocks.x > kMostGridX || blocks.y > kMostGridYZ || blocks.z > kMostGridYZ) return false;
  if (threads.x > kMostThreads || threads.y > kMostThreads || threads.z > kMostThreadsZ) {
    return false;
  }
  const unsigned all = threads.x * threads.y * threads.z;
  return all > 0 && all <= kMostThreads;
}

cudaError_t CheckLaunch(Runtime& runtime, const Stream& stream, const void* kernel,
                        size_t shared_bytes) {
  const auto [found, is_new] =
      runtime.kernels.emplace(std::pair(stream.device, kernel), kDefaultSharedBytes);
  if (is_new && stream.capture != nullptr) {
    Report("kernel " + FunctionName(kernel) +
           " is used for the first time inside of a capture, where it cannot be loaded");
  }
  return shared_bytes > found->second ? cudaErrorInvalidValue : cudaSuccess;
}

void RunLibraryCall(Runtime& runtime, const LibraryCall& call) {
  ++runtime.statistics.library_calls;
  for (const AccessKind kind : {AccessKind::kRead, AccessKind::kWrite}) {
    for (const LibraryAccess& access : call.accesses) {
      if (access.written != (kind == AccessKind::kWrite)) continue;
      for (size_t row = 0; row < access.rows; ++row) {
        const auto* const begin = static_cast<const std::byte*>(access.begin);
        if (CheckRange(begin + row * access.stride, access.bytes, kind)) continue;
        runtime.sticky = cudaErrorIllegalAddress;
        return;
      }
    }
  }
  if (call.compute != nullptr) call.compute();
}

}  // namespace

cudaError_t LaunchKernel(const void* kernel, dim3 blocks, dim3 threads, size_t shared_bytes,
                         size_t argument_bytes, cudaStream_t handle, std::function<void()> thread) {
  const cudaError_t checked = MakeCall([&](Runtime& runtime, Lock&) {
    if (!IsValid(blocks, threads)) return cudaErrorInvalidConfiguration;
    if (argument_bytes > kMostArgumentBytes) return cudaErrorInvalidValue;
    ++runtime.statistics.launches;
    const Stream* const stream = FindStream(runtime, handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return CheckLaunch(runtime, *stream, kernel, shared_bytes);
  });
  if (checked != cudaSuccess) return checked;
  const auto run =
      std::make_shared<KernelRun>(KernelRun{blocks, threads, shared_bytes, std::move(thread)});
  return Submit(handle, true, [kernel, run](Runtime& runtime, Lock& lock, Stream* stream) {
    runtime.Enqueue(lock, stream, {"kernel", kernel, ""}, [&runtime, run] {
      ++runtime.statistics.kernels;
      RunKernel(*run, &runtime.random);
    });
    return cudaSuccess;
  });
}

MeetingPoint NewMeetingPoint() { return std::make_shared<Clock>(); }

cudaError_t EnqueueLibraryCall(cudaStream_t stream, LibraryCall call) {
  const auto shared = std::make_shared<LibraryCall>(std::move(call));
  return Submit(stream, true, [shared](Runtime& runtime, Lock& lock, Stream* on) {
    Operation* const operation =
        runtime.Enqueue(lock, on, {"call of", nullptr, shared->name},
                        [&runtime, shared] { RunLibraryCall(runtime, *shared); });
    operation->ready = shared->ready;
    operation->meets = shared->meets;
    if (!shared->meets.empty()) runtime.meetings.push_back({operation->stream, operation->number});
    return cudaSuccess;
  });
}

}  // namespace sluice::cuda_emulation

using namespace sluice::cuda_emulation;  // NOLINT: the calls are of the global namespace

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  return Submit(stream, true, [=](Runtime& runtime, Lock& lock, Stream* on) {
    ++runtime.statistics.host_functions;
    Operation* const operation =
        runtime.Enqueue(lock, on, {"host function", nullptr, ""}, [fn, userData] {
          ThisThread().in_host_function = true;
          fn(userData);
          ThisThread().in_host_function = false;
        });
    operation->calls_host = true;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr, int value) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorInvalidValue;
    if (value < 0 || static_cast<size_t>(value) > kSharedBytes) return cudaErrorInvalidValue;
    runtime.kernels[{ThisThread().device, func}] = static_cast<size_t>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    const auto loaded =
        runtime.kernels.emplace(std::pair(ThisThread().device, func), kDefaultSharedBytes);
    *attr = cudaFuncAttributes();
    attr->maxThreadsPerBlock = kMostThreads;
    attr->ptxVersion = attr->binaryVersion = runtime.options.major * 10 + runtime.options.minor;
    attr->maxDynamicSharedSizeBytes = static_cast<int>(loaded.first->second);
    return cudaSuccess;
  });
}
