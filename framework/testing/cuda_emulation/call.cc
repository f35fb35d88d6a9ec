#include "framework/testing/cuda_emulation/call.h"

#include <utility>

#include "framework/testing/cuda_emulation/access.h"
#include "framework/testing/cuda_emulation/capture.h"

namespace sluice::cuda_emulation {

HostThread& ThisThread() {
  static thread_local HostThread thread;
  return thread;
}

cudaError_t MakeCall(const std::function<cudaError_t(Runtime& runtime, Lock& lock)>& body) {
  Runtime& runtime = TheRuntime();
  HostThread& thread = ThisThread();
  if (thread.in_host_function) {
    Report("a host function calls the runtime");
    return thread.last_error = cudaErrorNotPermitted;
  }
  Lock lock(runtime.mutex);
  cudaError_t result = runtime.sticky;
  if (result == cudaSuccess) {
    result = body(runtime, lock);
    if (runtime.sticky != cudaSuccess) result = runtime.sticky;
  }
  // Also what is no error, as the runtime does: NotReady.
  if (result != cudaSuccess) thread.last_error = result;
  return result;
}

Stream* FindStream(Runtime& runtime, cudaStream_t handle) {
  const auto found = runtime.stream_handles.find(handle);
  if (found != runtime.stream_handles.end()) return found->second;
  Report(handle == nullptr ? "the default stream is used, which orders all others"
                           : "a stream is used that is not open");
  return nullptr;
}

cudaError_t Submit(cudaStream_t handle, bool only_current, Recipe recipe) {
  return MakeCall([&](Runtime& runtime, Lock& lock) {
    Stream* const stream = FindStream(runtime, handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (only_current && stream->device != ThisThread().device) {
      return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture != nullptr) return stream->capture->AddWork(stream, std::move(recipe));
    return recipe(runtime, lock, stream);
  });
}

}  // namespace sluice::cuda_emulation

using sluice::cuda_emulation::Runtime;
using sluice::cuda_emulation::TheRuntime;
using sluice::cuda_emulation::ThisThread;

cudaError_t cudaPeekAtLastError() {
  const std::lock_guard<std::mutex> lock(TheRuntime().mutex);
  const cudaError_t sticky = TheRuntime().sticky;
  return sticky != cudaSuccess ? sticky : ThisThread().last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  ThisThread().last_error = cudaSuccess;
  return error;
}
