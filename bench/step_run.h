// Runs and times the steps of a session as a user runs them: as many in flight as a session holds.
// One thread.
#ifndef SLUICE_BENCH_STEP_RUN_H_
#define SLUICE_BENCH_STEP_RUN_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/session/session.h"

namespace sluice {

// The inputs of program "train", for a step counted from 1; good until the next call.
using StepFeeds = std::function<Feeds(int64_t step)>;

struct StepRunOptions {
  int64_t warmup = 3, steps = 20;  // before the clock starts, and timed; at least 1 each
  // Fewer are timed where they take longer than that together, 3 at least.
  double seconds = std::numeric_limits<double>::infinity();
  bool has_loss = true;  // of several ranks only the first is told it
};

struct StepRun {
  std::vector<double> seconds;  // of each timed step
  double first_loss = 0, last_loss = 0;
};

absl::StatusOr<StepRun> RunSteps(Session* session, const StepFeeds& feeds,
                                 const StepRunOptions& options);

}  // namespace sluice

#endif  // SLUICE_BENCH_STEP_RUN_H_
