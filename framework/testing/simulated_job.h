// A job of several ranks in a simulation: its processes train a model together and save it, are
// killed, cut off, stand still, lose their disk or their power when a seed says so, and are begun
// again until they have trained to the end. What the ranks do is the product's: Session, Runtime,
// Worker, RankLink, Trainer, checkpoints in a folder, and its lock. Models stand for the net
// (simulated_net.h), the meeting of the ranks (simulated_start.h), the launcher, and time. Tests.
#ifndef SLUICE_FRAMEWORK_TESTING_SIMULATED_JOB_H_
#define SLUICE_FRAMEWORK_TESTING_SIMULATED_JOB_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "framework/testing/simulated_net.h"
#include "framework/testing/simulated_start.h"
#include "framework/testing/simulated_task.h"

namespace sluice {

struct SimulatedJobOptions {
  uint64_t seed = 0;
  bool disturbed = true;  // as the seed says; if not, only times differ
  NetFault net_fault = NetFault::kNone;
  RecoveryFault recovery_fault = RecoveryFault::kNone;
  std::string folder;  // of the run; it is emptied first
};

struct SimulatedRun {
  uint64_t digest = 0;  // of all events in their order
  int64_t events = 0;
  int32_t starts = 0;        // of the job
  int32_t disturbances = 0;  // that came in time
  int64_t overtaken = 0;     // of what ranks sent, by what they sent later
  double seconds = 0;        // of virtual time
  std::string story;         // what happened, for people
};

// The error is what must never happen, with all that is needed to see it again: a value that is not
// an undisturbed run's; ranks that end with different errors of a step; a rank that waits for what
// will not come, with all waits; a start that ends without a reason; two starts that commit to one
// folder; a checkpoint that is not there, damaged or torn after it was committed; and what
// simulated_net.h watches. `run` is what came until then.
absl::Status RunSimulatedJob(const SimulatedTask& task, const SimulatedJobOptions& options,
                             SimulatedRun* run);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_SIMULATED_JOB_H_
