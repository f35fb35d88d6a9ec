// What the compiler decided and why, as text for people: choices, boxings with bytes, memory, time.
#ifndef SLUICE_FRAMEWORK_COMPILER_EXPLAIN_H_
#define SLUICE_FRAMEWORK_COMPILER_EXPLAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "framework/compiler/grid.h"
#include "framework/compiler/select_sbp.h"
#include "framework/compiler/task_graph.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

struct DeviceBytes {
  int64_t variables = 0;  // of the plan
  int64_t packed = 0;     // of one program
  int64_t live = 0;       // the peak of what is alive at once in that program
};

// One section per program: a line per node with what its signature cost against the others, then a
// line per boxing.
std::string ExplainProgram(const std::string& name, const Graph& graph, const Grid& grid,
                           const SbpAssignment& assignment, const TaskGraph& tasks);
// Boxings alone, one line each, without times: stable across machines, for goldens.
std::string BoxingSummary(const TaskGraph& tasks);
std::string ExplainMemory(const plan::Program& program, int device_classes,
                          const std::vector<DeviceBytes>& devices);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_EXPLAIN_H_
