// Cuts tasks into scripts and gives registers their quotas: a TaskGraph becomes the actors of one
// program. Order, proof and bytes follow from the program itself (actor/, plan/, memory.h).
#ifndef SLUICE_FRAMEWORK_COMPILER_SCHEDULE_H_
#define SLUICE_FRAMEWORK_COMPILER_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "framework/actor/worker_policy.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/task_graph.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

struct ScheduleOptions {
  int64_t script_length = 0;  // longest script of a compute stream; 0: no limit
  int64_t steps_ahead = kStepsAhead;
  bool outline = false;  // of a representative program: boxings without regions (OutlineBoxing)
};

// Scripts: all compute tasks of one device, phase and rate, in order; a boxing, a feed and the
// fetches are actors of their own. Quotas follow from rates: a saved activation (made in forward,
// read in backward) has one slot per micro-batch in flight at its stage, min(micro, stages -
// stage), which is what makes 1F1B; what crosses stages has two; everything else one. `actor_of`,
// if not null, gets the actor of each task: an actor's tasks are its script, in order, behind a
// "begin" where it has one.
plan::Program BuildProgram(const std::string& name, const TaskGraph& tasks, const Grid& grid,
                           const ScheduleOptions& options,
                           std::vector<int32_t>* actor_of = nullptr);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_SCHEDULE_H_
