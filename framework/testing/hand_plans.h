// Eight plans written by hand, each for one thing that plans must be able to say, and what each
// must compute, as plain loops. In symbolic ops (symbolic.h). For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_HAND_PLANS_H_
#define SLUICE_FRAMEWORK_TESTING_HAND_PLANS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/testing/symbolic.h"

namespace sluice {

struct HandPlan {
  std::string name, text;
  SymbolicState initial;
  // The log that so many steps must write, sorted. Empty function: compare programs by hand.
  std::function<std::vector<LogEntry>(int steps)> expect;
};

struct PipelineOptions {
  int stages = 4, micro_batches = 8;
  // Of what forward keeps for backward at a stage. Default: as many as are in flight, stages - s.
  std::function<int(int stage)> saved;
  int64_t transfer = 1, update = 1;  // cost; a forward costs 10, a backward 20
  bool clip = false;                 // scale updates by a value made of all stages' gradients
};

HandPlan TensorParallel();
HandPlan DataParallel(int layers, int64_t reduction_cost = 3);
HandPlan Pipeline(const PipelineOptions& options);
HandPlan Accumulate();
HandPlan TiedTable();
HandPlan ClippedStages();
HandPlan Programs();  // train, eval, snapshot
HandPlan GatheredWeights(int layers, int slots);

// All but Programs, pipelines in two sizes.
std::vector<HandPlan> AllHandPlans();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_HAND_PLANS_H_
