// What all calls of the runtime do: lock, refuse where the runtime would, remember the last error.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CALL_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CALL_H_

#include <cuda_runtime_api.h>

#include <functional>

#include "framework/testing/cuda_emulation/runtime.h"

namespace sluice::cuda_emulation {

// Of a thread of the host.
struct HostThread {
  int device = 0;  // current
  cudaError_t last_error = cudaSuccess;
  bool in_host_function = false;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
};
HostThread& ThisThread();

// Makes a call under the lock. Its result is what `body` says, or the error that has ended all.
cudaError_t MakeCall(const std::function<cudaError_t(Runtime& runtime, Lock& lock)>& body);

// Null if there is no such stream; then the call is refused with InvalidResourceHandle. The default
// stream is no stream here: it would order all others.
Stream* FindStream(Runtime& runtime, cudaStream_t handle);

// What a call does with a stream: now, or at every launch of the graph that records it.
using Recipe = std::function<cudaError_t(Runtime& runtime, Lock& lock, Stream* stream)>;
// A call that gives a stream work. `only_current`: refused if the stream's device is not current.
cudaError_t Submit(cudaStream_t handle, bool only_current, Recipe recipe);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CALL_H_
