// Counts of a plan, and a summary of it for people and goldens. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_STATISTICS_H_
#define SLUICE_FRAMEWORK_PLAN_STATISTICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "framework/plan/program_index.h"

namespace sluice {

// The same boxing on however many devices: folds, and all that move bytes between
// devices.
struct BoxingCount {
  std::string op, recipe, tensor;  // recipe: the attributes; tensor: the scope
  int64_t instructions = 0;        // on all devices
  int64_t times = 0;               // a step, the most of any of them
  int64_t wire_bytes = 0;          // a step, all of them
};

struct ProgramStatistics {
  int64_t actors = 0, instructions = 0, registers = 0, reuse_edges = 0;
  int64_t instances = 0;  // instructions run in a step
  int64_t messages = 0;   // between actors in a step: req, ack, reuse edge
  int64_t flops = 0, wire_bytes = 0;
  std::vector<BoxingCount> boxings;  // in order of appearance
};

ProgramStatistics CountProgram(const ProgramIndex& index);

// One line a program, device and boxing:
//   program train: 12 actors, 40 registers, 96 instructions, 210 messages a step
//     boxing box "P->B" w.grad: 4 x 1, 16384 bytes a step
// `with_bytes`: also bytes of devices. Programs must be valid.
std::string SummarizePlan(const plan::Plan& plan, bool with_bytes = true);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_STATISTICS_H_
