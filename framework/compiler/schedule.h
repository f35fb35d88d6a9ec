// Cuts tasks into scripts and gives registers their quotas: a TaskGraph becomes the actors of one
// program. Order, proof and bytes follow from the program itself (actor/, plan/, memory.h).
#ifndef SLUICE_FRAMEWORK_COMPILER_SCHEDULE_H_
#define SLUICE_FRAMEWORK_COMPILER_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/actor/worker_policy.h"
#include "framework/base/stop.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/task_graph.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

struct ScheduleOptions {
  int64_t script_length = 0;  // longest script of a compute stream; 0: no limit
  int64_t steps_ahead = kStepsAhead;
  bool outline = false;  // of a representative program: boxings without regions (OutlineBoxing)
  bool numbers = false;  // of several ranks, which name each other's registers and items
  Stop stop;             // may be empty
};

// The actors of one program. Its order, bytes and proof are found by later phases (place.h).
struct Schedule {
  plan::Program program;
  // By task: its actor. An actor's tasks are its script, in order, behind a "begin" where it has
  // one.
  std::vector<int32_t> actor_of;
};

// Scripts: all compute tasks of one device, phase (Task::ScriptPhase) and rate, in order; a boxing,
// a feed and the fetches are actors of their own. Quotas follow from rates: a saved activation
// (made in forward, read in backward) has one slot per micro-batch in flight at its stage,
// min(micro, stages - stage), which is what makes 1F1B; what crosses stages has two; everything
// else one. Cancelled where options.stop says so.
absl::StatusOr<Schedule> BuildSchedule(const std::string& name, const TaskGraph& tasks,
                                       const Grid& grid, const ScheduleOptions& options);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_SCHEDULE_H_
