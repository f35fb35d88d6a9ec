#include "framework/testing/cuda_emulation/capture.h"

#include <algorithm>
#include <utility>

namespace sluice::cuda_emulation {

void Capture::AddStream(Stream* stream) {
  const int lane = static_cast<int>(streams_.size());
  lanes_[stream] = lane;
  streams_.push_back(stream);
  lane_clocks_.emplace_back();
  graph_.lane_devices.push_back(stream->device);
  stream->capture = shared_from_this();
}

cudaError_t Capture::AddWork(Stream* stream, Recipe work) {
  if (!is_valid_) return cudaErrorStreamCaptureInvalidated;
  const int lane = lanes_.at(stream);
  lane_clocks_[lane].Advance(lane);
  graph_.steps.push_back({GraphStep::kWork, lane, 0, std::move(work), stream->operands});
  return cudaSuccess;
}

cudaError_t Capture::AddRecord(Stream* stream, Event* event) {
  if (!is_valid_) return cudaErrorStreamCaptureInvalidated;
  const int lane = lanes_.at(stream);
  lane_clocks_[lane].Advance(lane);
  event->capture = shared_from_this();
  event->capture_record = graph_.records++;
  record_clocks_.push_back(lane_clocks_[lane]);
  graph_.steps.push_back({GraphStep::kRecord, lane, event->capture_record, nullptr, nullptr});
  return cudaSuccess;
}

cudaError_t Capture::AddWait(Stream* stream, int record) {
  if (!is_valid_) return cudaErrorStreamCaptureInvalidated;
  if (stream->capture == nullptr) AddStream(stream);
  const int lane = lanes_.at(stream);
  lane_clocks_[lane].Join(record_clocks_[record]);
  lane_clocks_[lane].Advance(lane);
  graph_.steps.push_back({GraphStep::kWait, lane, record, nullptr, nullptr});
  return cudaSuccess;
}

cudaError_t Capture::End(Stream* stream, Graph* graph) {
  if (stream != streams_[0]) {
    Invalidate();
    return cudaErrorStreamCaptureUnmatched;
  }
  if (mode_ != cudaStreamCaptureModeRelaxed && std::this_thread::get_id() != thread_) {
    Invalidate();
    return cudaErrorStreamCaptureWrongThread;
  }
  has_ended_ = true;
  const auto self = shared_from_this();
  for (Stream* const captured : streams_) captured->capture = nullptr;
  std::erase(TheRuntime().captures, self);
  if (!is_valid_) return cudaErrorStreamCaptureInvalidated;
  for (uint32_t lane = 1; lane < streams_.size(); ++lane) {
    if (lane_clocks_[0][lane] < lane_clocks_[lane][lane]) return cudaErrorStreamCaptureUnjoined;
  }
  *graph = std::move(graph_);
  return cudaSuccess;
}

bool Capture::Uses(int device) const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [device](const Stream* stream) { return stream->device == device; });
}

bool Capture::Forbids(std::thread::id thread, cudaStreamCaptureMode mode_of_thread) const {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed || mode_ == cudaStreamCaptureModeRelaxed) {
    return false;
  }
  if (thread == thread_) return true;
  return mode_ == cudaStreamCaptureModeGlobal && mode_of_thread == cudaStreamCaptureModeGlobal;
}

cudaError_t RefuseInCapture(Runtime& runtime) {
  cudaError_t result = cudaSuccess;
  for (const auto& capture : runtime.captures) {
    if (!capture->Forbids(std::this_thread::get_id(), ThisThread().capture_mode)) continue;
    capture->Invalidate();
    result = cudaErrorStreamCaptureUnsupported;
  }
  return result;
}

}  // namespace sluice::cuda_emulation
