// Streams whose calls are recorded instead of made, and the graphs that come of it.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CAPTURE_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CAPTURE_H_

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "framework/testing/cuda_emulation/call.h"
#include "framework/testing/cuda_emulation/operation.h"
#include "framework/testing/cuda_emulation/runtime.h"

namespace sluice::cuda_emulation {

// A lane is what one stream was given; lanes wait for each other's records. Each launch does it
// all again on streams of the graph's own, a lane each, and so has the checks of ordinary streams.
struct GraphStep {
  enum Kind { kWork, kRecord, kWait } kind = kWork;
  int lane = 0;
  int record = 0;  // that is made or waited for
  Recipe work;
  std::shared_ptr<const OperandRanges> operands;
};

struct Graph {
  std::vector<int> lane_devices;
  std::vector<GraphStep> steps;
  int records = 0;
};

class Capture : public std::enable_shared_from_this<Capture> {
 public:
  Capture(cudaStreamCaptureMode mode) : mode_(mode), thread_(std::this_thread::get_id()) {}

  // The stream belongs to it from here on; the first is the origin.
  void AddStream(Stream* stream);
  cudaError_t AddWork(Stream* stream, Recipe work);
  cudaError_t AddRecord(Stream* stream, Event* event);
  // Of a record of this capture.
  cudaError_t AddWait(Stream* stream, int record);
  // Whatever comes of it, the streams are as they were before.
  cudaError_t End(Stream* stream, Graph* graph);

  void Invalidate() { is_valid_ = false; }
  bool is_valid() const { return is_valid_; }
  bool has_ended() const { return has_ended_; }
  bool Uses(int device) const;
  // Whether it forbids a thread calls that a capture cannot hold.
  bool Forbids(std::thread::id thread, cudaStreamCaptureMode mode_of_thread) const;

 private:
  const cudaStreamCaptureMode mode_;
  const std::thread::id thread_;
  bool is_valid_ = true, has_ended_ = false;
  std::vector<Stream*> streams_;  // by lane
  std::map<Stream*, int> lanes_;
  std::vector<Clock> lane_clocks_, record_clocks_;  // of steps, by lane
  Graph graph_;
};

// Called by what a capture cannot hold: Success, or Unsupported where a capture is under way that
// forbids it, which is then void.
cudaError_t RefuseInCapture(Runtime& runtime);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CAPTURE_H_
