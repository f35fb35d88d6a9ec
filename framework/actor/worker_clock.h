// Predicts a run on workers that share a process's cores: the streams of neighbouring devices on
// one worker, which runs one instruction at a time (worker_layout.h). It takes work as
// runtime/worker.cc does (stream_priority.h): what moves bytes first, then first come, first
// served; mailbox items of other workers between instructions. The plan's order is followed, not
// made, here (virtual_clock.h makes it). Pure; any thread.
#ifndef SLUICE_FRAMEWORK_ACTOR_WORKER_CLOCK_H_
#define SLUICE_FRAMEWORK_ACTOR_WORKER_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/actor/actor.h"
#include "framework/actor/worker_policy.h"
#include "framework/base/stop.h"
#include "framework/plan/program_index.h"

namespace sluice {

struct WorkerClockOptions {
  int workers = 1;  // that compute; beside each stands one for I/O, which is thought to have a core
  int devices = 1;  // of the plan
  int steps = 4;    // how many to run
  int steps_ahead = kStepsAhead;
  int64_t message_latency = 0;  // nanoseconds to another worker that is awake
  int64_t wake_latency = 0;     // more, to one that has been idle for longer than `spin`
  int64_t spin = std::chrono::nanoseconds(kIdleSpin).count();
  // How long the instruction at an actor's cursor takes on a worker, asked as it begins. Default:
  // what the plan says.
  std::function<int64_t(int32_t worker, const Actor& actor)> duration = {};
  Stop stop = {};  // Cancelled where it says so; may be empty
};

// One instruction of one firing, in the order in which they began.
struct WorkerSpan {
  int64_t begin = 0, end = 0;
  int64_t step = 0;
  int32_t worker = 0, actor = 0, instruction = 0, micro = 0;
  friend bool operator==(const WorkerSpan&, const WorkerSpan&) = default;
};

struct WorkerClockResult {
  int64_t step_nanoseconds = 0;   // of one step, once several are under way
  std::vector<int64_t> step_end;  // by step
  std::vector<int64_t> busy;      // by worker that computes, of all steps
  std::vector<WorkerSpan> spans;  // of all steps
};

// InvalidArgument: no worker, no step, or a stream on a device that is not there.
// FailedPrecondition names the cycle that the run is stuck in.
absl::StatusOr<WorkerClockResult> RunWorkerClock(const ProgramIndex& index,
                                                 const WorkerClockOptions& options);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_WORKER_CLOCK_H_
