// Calls about streams and events.
#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <utility>

#include "framework/testing/cuda_emulation/call.h"
#include "framework/testing/cuda_emulation/capture.h"

namespace sluice::cuda_emulation {
namespace {

using Events = std::shared_ptr<Event>;

Events FindEvent(Runtime& runtime, cudaEvent_t handle) {
  const auto found = runtime.event_handles.find(handle);
  if (found != runtime.event_handles.end()) return found->second;
  Report("an event is used that is not open");
  return nullptr;
}

bool IsPending(const Event& event) { return event.mark != nullptr && !event.mark->reached; }

cudaError_t RecordEvent(Runtime& runtime, Lock& lock, Stream* stream, Event* event) {
  if (IsPending(*event)) Report("an event is recorded again before its last record is reached");
  ++runtime.statistics.event_records;
  event->capture = nullptr;
  event->mark = runtime.EnqueueRecord(lock, stream);
  return cudaSuccess;
}

cudaError_t WaitForEvent(Runtime& runtime, Lock& lock, Stream* stream, const Event& event) {
  if (event.mark == nullptr) {
    Report("a stream waits for an event that was never recorded, which is no wait");
    return cudaSuccess;
  }
  ++runtime.statistics.event_waits;
  runtime.EnqueueWait(lock, stream, event.mark);
  return cudaSuccess;
}

cudaError_t WaitInCapture(Stream* stream, const Events& event, bool is_external) {
  const std::shared_ptr<Capture> capture = stream->capture;
  if (is_external) {
    return capture->AddWork(stream, [event](Runtime& runtime, Lock& lock, Stream* on) {
      return WaitForEvent(runtime, lock, on, *event);
    });
  }
  if (!capture->is_valid()) return cudaErrorStreamCaptureInvalidated;
  if (event->capture == capture) return capture->AddWait(stream, event->capture_record);
  capture->Invalidate();
  if (event->capture != nullptr && !event->capture->has_ended()) {
    event->capture->Invalidate();
    return cudaErrorStreamCaptureMerge;
  }
  return cudaErrorStreamCaptureIsolation;
}

// Of a call by which the host asks about an event: a captured one has no time of its own.
cudaError_t RefuseCaptured(const Event& event) {
  if (event.capture == nullptr) return cudaSuccess;
  event.capture->Invalidate();
  return cudaErrorCapturedEvent;
}

cudaError_t RefuseCapturing(const Stream& stream) {
  if (stream.capture == nullptr) return cudaSuccess;
  stream.capture->Invalidate();
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace
}  // namespace sluice::cuda_emulation

using namespace sluice::cuda_emulation;  // NOLINT: the calls are of the global namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  return cudaStreamCreateWithPriority(pStream, flags, 0);
}

// Which stream is served first is chance whatever the priorities, as it may be on a device.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (flags != cudaStreamNonBlocking) {
      Report("a stream is made that waits for the default stream");
      return cudaErrorInvalidValue;
    }
    runtime.last_handle += 16;
    *pStream = reinterpret_cast<cudaStream_t>(runtime.last_handle);
    runtime.stream_handles[*pStream] = runtime.AddStream(ThisThread().device);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    Stream* const found = FindStream(runtime, stream);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = RefuseCapturing(*found); error != cudaSuccess) return error;
    runtime.stream_handles.erase(stream);
    runtime.CloseStream(found);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return MakeCall([&](Runtime& runtime, Lock& lock) {
    Stream* const found = FindStream(runtime, stream);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = RefuseCapturing(*found); error != cudaSuccess) return error;
    runtime.Drain(lock, found);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    Stream* const found = FindStream(runtime, stream);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = RefuseCapturing(*found); error != cudaSuccess) return error;
    if (found->queue.empty() && !found->is_busy) {
      runtime.HostSees(found->clock);
      return cudaSuccess;
    }
    runtime.RunOne();
    return cudaErrorNotReady;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int* device) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    const Stream* const found = FindStream(runtime, hStream);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    *device = found->device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return MakeCall([&](Runtime& runtime, Lock& lock) {
    Stream* const waiting = FindStream(runtime, stream);
    const Events found = FindEvent(runtime, event);
    if (waiting == nullptr || found == nullptr) return cudaErrorInvalidResourceHandle;
    if (waiting->capture != nullptr) {
      return WaitInCapture(waiting, found, flags & cudaEventWaitExternal);
    }
    if (found->capture == nullptr) return WaitForEvent(runtime, lock, waiting, *found);
    if (found->capture->has_ended()) return cudaErrorCapturedEvent;
    return found->capture->AddWait(waiting, found->capture_record);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) return cudaErrorInvalidValue;
    auto made = std::make_shared<Event>();
    made->flags = flags;
    made->device = ThisThread().device;
    runtime.last_handle += 16;
    *event = reinterpret_cast<cudaEvent_t>(runtime.last_handle);
    runtime.event_handles[*event] = std::move(made);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    const Events found = FindEvent(runtime, event);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    if (IsPending(*found)) Report("an event is destroyed before its last record is reached");
    runtime.event_handles.erase(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return MakeCall([&](Runtime& runtime, Lock& lock) {
    Stream* const on = FindStream(runtime, stream);
    const Events found = FindEvent(runtime, event);
    if (on == nullptr || found == nullptr || found->device != on->device) {
      return cudaErrorInvalidResourceHandle;
    }
    if (on->capture == nullptr) return RecordEvent(runtime, lock, on, found.get());
    if (!(flags & cudaEventRecordExternal)) return on->capture->AddRecord(on, found.get());
    return on->capture->AddWork(on, [found](Runtime& its, Lock& its_lock, Stream* lane) {
      return RecordEvent(its, its_lock, lane, found.get());
    });
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    const Events found = FindEvent(runtime, event);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = RefuseCaptured(*found); error != cudaSuccess) return error;
    if (found->mark == nullptr) {
      Report("an event is asked about that was never recorded, which counts as done");
      return cudaSuccess;
    }
    if (found->mark->reached) {
      runtime.HostSees(found->mark->clock);
      return cudaSuccess;
    }
    // A host that polls gets on, one thing each time.
    runtime.RunOne();
    return cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return MakeCall([&](Runtime& runtime, Lock& lock) {
    const Events found = FindEvent(runtime, event);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = RefuseCaptured(*found); error != cudaSuccess) return error;
    if (found->mark == nullptr) {
      Report("the host waits for an event that was never recorded, which is no wait");
      return cudaSuccess;
    }
    const std::shared_ptr<Mark> mark = found->mark;
    runtime.ServeUntil(lock, [&] { return mark->reached; });
    runtime.HostSees(mark->clock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    const Events from = FindEvent(runtime, start), to = FindEvent(runtime, end);
    if (from == nullptr || to == nullptr || from->device != to->device) {
      return cudaErrorInvalidResourceHandle;
    }
    if ((from->flags | to->flags) & cudaEventDisableTiming) return cudaErrorInvalidResourceHandle;
    for (const Events& event : {from, to}) {
      if (const cudaError_t error = RefuseCaptured(*event); error != cudaSuccess) return error;
      if (event->mark == nullptr) return cudaErrorInvalidResourceHandle;
      if (!event->mark->reached) return cudaErrorNotReady;
    }
    const std::chrono::duration<float, std::milli> elapsed = to->mark->time - from->mark->time;
    *ms = elapsed.count();
    return cudaSuccess;
  });
}
