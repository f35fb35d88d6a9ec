// A small model on a layout of several ranks, for jobs in a simulation, and what an undisturbed run
// gives, which is what a disturbed one has to give as well. For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_SIMULATED_TASK_H_
#define SLUICE_FRAMEWORK_TESTING_SIMULATED_TASK_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/nn/learning_rate.h"
#include "framework/plan/plan.pb.h"
#include "framework/runtime/runtime.h"
#include "framework/session/session.h"

namespace sluice {

struct SimulatedTask {
  std::string name;
  std::vector<plan::Plan> plans;  // by rank
  int64_t batch = 0;
  LearningRateSchedule schedule;
  std::vector<std::vector<std::pair<std::string, HostTensor>>> inputs;  // by step, without rates
  std::vector<Fetches> variables;                                       // after so many steps
  std::vector<double> losses;                                           // by step

  int32_t ranks() const { return static_cast<int32_t>(plans.size()); }
  int64_t steps() const { return schedule.steps; }
};

// A small MLP, or a random graph (random_graph.h), on so many ranks. The undisturbed run is that of
// one rank, with threads.
absl::StatusOr<SimulatedTask> MakeMlpTask(const std::string& mesh, int64_t micro_batches,
                                          int32_t ranks);
absl::StatusOr<SimulatedTask> MakeRandomTask(uint64_t seed, int32_t ranks);

// A worker of one thread, kernels of the CPU.
RuntimeOptions SimulatedRuntimeOptions();

// DataLoss names the first box that differs: of this rank's, or of a checkpoint, from the state
// after so many steps.
absl::Status CheckVariables(const SimulatedTask& task, int64_t steps, Session* session);
absl::Status CheckCheckpoint(const SimulatedTask& task, const std::string& path);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_SIMULATED_TASK_H_
