// Runs a program's actors on predicted times instead of devices: what the compiler records the
// order of streams with, and what predicts the time of a step. A collective begins when all its
// members can and ends for all at once. Ties: a script goes on while its tokens are there; then
// step, priority of the actor, its place in the program, micro-batch. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_ACTOR_VIRTUAL_CLOCK_H_
#define SLUICE_FRAMEWORK_ACTOR_VIRTUAL_CLOCK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/plan/program_index.h"

namespace sluice {

struct ClockOptions {
  int steps = 1;                // how many to run; default: one, from the initial marking
  int64_t message_latency = 0;  // nanoseconds between devices; default: none
  Stop stop;                    // Cancelled where it says so; may be empty
};

struct ClockResult {
  int64_t makespan = 0;          // nanoseconds of all steps
  int64_t step_nanoseconds = 0;  // of one step, once several are under way
  std::vector<int64_t> step_end;
  // Of the first step's instances. Ranks count beginnings and ends in the order they happened.
  std::vector<int32_t> begin_rank, end_rank;
  std::vector<int64_t> begin_time, end_time;
  std::vector<std::vector<plan::ScheduleEntry>> entries;  // by stream, of the first step
  std::vector<int64_t> busy;                              // by stream, of all steps
};

// FailedPrecondition names the cycle that the run is stuck in.
absl::StatusOr<ClockResult> RunClock(const ProgramIndex& index, const ClockOptions& options = {});

// Runs one step and writes the order in which each stream of kind "compute", and each that holds a
// collective, took its work. Orders that were there before are dropped. Returns the run.
absl::StatusOr<ClockResult> RecordOrder(plan::Program* program, const Stop& stop = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_VIRTUAL_CLOCK_H_
