// The two compressed lists in the environment of a step of Slurm. `scontrol`, which spells them
// out, is not there in containers. Pure.
#ifndef SLUICE_FRAMEWORK_CLUSTER_SLURM_LIST_H_
#define SLUICE_FRAMEWORK_CLUSTER_SLURM_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// The first node of "gnode[010,20,25-27],login": "gnode010". The whole list must be well formed.
absl::StatusOr<std::string> FirstNode(absl::string_view nodes);

// "4(x2),1" says 4, 4 and 1. Runs stay runs, as a machine may have many equal nodes.
struct TaskRun {
  int64_t tasks = 0, nodes = 1;
};
absl::StatusOr<std::vector<TaskRun>> ReadTaskRuns(absl::string_view tasks_per_node);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CLUSTER_SLURM_LIST_H_
