// Calls about captures and graphs.
#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "framework/testing/cuda_emulation/call.h"
#include "framework/testing/cuda_emulation/capture.h"

// A graph that can be launched. Its lanes are streams that nobody else has. All fork from the first
// and join it again, so a launch begins when the one before has ended.
struct CUgraphExec_st {
  sluice::cuda_emulation::Graph graph;
  std::vector<sluice::cuda_emulation::Stream*> lanes;
};

struct CUgraph_st {
  sluice::cuda_emulation::Graph graph;
};

namespace sluice::cuda_emulation {
namespace {

cudaError_t RunStep(Runtime& runtime, Lock& lock, const GraphStep& step, Stream* lane,
                    std::vector<std::shared_ptr<Mark>>* records) {
  switch (step.kind) {
    case GraphStep::kRecord:
      (*records)[step.record] = runtime.EnqueueRecord(lock, lane);
      return cudaSuccess;
    case GraphStep::kWait:
      runtime.EnqueueWait(lock, lane, (*records)[step.record]);
      return cudaSuccess;
    case GraphStep::kWork:
      lane->operands = step.operands;
      return step.work(runtime, lock, lane);
  }
  return cudaErrorUnknown;
}

cudaError_t Launch(Runtime& runtime, Lock& lock, CUgraphExec_st* exec, Stream* stream) {
  ++runtime.statistics.graph_launches;
  Stream* const first = exec->lanes[0];
  runtime.EnqueueWait(lock, first, runtime.EnqueueRecord(lock, stream));
  std::vector<std::shared_ptr<Mark>> records(exec->graph.records);
  cudaError_t result = cudaSuccess;
  for (const GraphStep& step : exec->graph.steps) {
    result = RunStep(runtime, lock, step, exec->lanes[step.lane], &records);
    if (result != cudaSuccess) break;
  }
  runtime.EnqueueWait(lock, stream, runtime.EnqueueRecord(lock, first));
  return result;
}

}  // namespace
}  // namespace sluice::cuda_emulation

using namespace sluice::cuda_emulation;  // NOLINT: the calls are of the global namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
    Stream* const origin = FindStream(runtime, stream);
    if (origin == nullptr) return cudaErrorInvalidResourceHandle;
    if (origin->capture != nullptr) return cudaErrorIllegalState;
    runtime.captures.push_back(std::make_shared<Capture>(mode));
    runtime.captures.back()->AddStream(origin);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* pGraph) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    *pGraph = nullptr;
    Stream* const origin = FindStream(runtime, stream);
    if (origin == nullptr) return cudaErrorInvalidResourceHandle;
    if (origin->capture == nullptr) return cudaErrorIllegalState;
    auto graph = std::make_unique<CUgraph_st>();
    const std::shared_ptr<Capture> capture = origin->capture;
    const cudaError_t error = capture->End(origin, &graph->graph);
    if (error == cudaSuccess) *pGraph = graph.release();
    return error;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    const Stream* const found = FindStream(runtime, stream);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    *pCaptureStatus = found->capture == nullptr    ? cudaStreamCaptureStatusNone
                      : found->capture->is_valid() ? cudaStreamCaptureStatusActive
                                                   : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return MakeCall([&](Runtime&, Lock&) {
    std::swap(*mode, ThisThread().capture_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (graph == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (const cudaError_t error = RefuseInCapture(runtime); error != cudaSuccess) return error;
    auto exec = std::make_unique<CUgraphExec_st>();
    exec->graph = graph->graph;
    for (const int device : exec->graph.lane_devices) {
      exec->lanes.push_back(runtime.AddStream(device));
    }
    *pGraphExec = exec.release();
    return cudaSuccess;
  });
}

// Costs on a device what the first launch would; here nothing.
cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return Submit(stream, true, [graphExec](Runtime&, Lock&, Stream* on) {
    if (graphExec == nullptr) return cudaErrorInvalidValue;
    return on->capture != nullptr ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return MakeCall([&](Runtime& runtime, Lock& lock) {
    Stream* const on = FindStream(runtime, stream);
    if (on == nullptr) return cudaErrorInvalidResourceHandle;
    if (graphExec == nullptr) return cudaErrorInvalidValue;
    if (on->capture != nullptr) {
      on->capture->Invalidate();
      return cudaErrorStreamCaptureUnsupported;
    }
    return Launch(runtime, lock, graphExec, on);
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (graphExec == nullptr) return cudaErrorInvalidValue;
    const std::unique_ptr<CUgraphExec_st> exec(graphExec);
    for (Stream* const lane : exec->lanes) runtime.CloseStream(lane);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return MakeCall([&](Runtime&, Lock&) {
    delete graph;
    return cudaSuccess;
  });
}
