// How many CPU cores a process may use.
#ifndef SLUICE_FRAMEWORK_BASE_CORES_H_
#define SLUICE_FRAMEWORK_BASE_CORES_H_

#include <string>

namespace sluice {

// The fewest of: the cores that the process may be scheduled on (its affinity), and the CPU time
// that its control groups allow it (v1 or v2, its own and those around it), rounded up to whole
// cores. At least 1. More threads than that only wait for each other. `root` is where /proc and
// /sys are looked for, for tests.
int UsableCores(const std::string& root = "");

// The cores that this process should use where `processes` of a job run on this host: those of its
// affinity, shared equally with the processes that have the same, and no more than its share of the
// quota. At least 1. All of the processes have been started.
int CoresOfOneProcess(int processes);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_CORES_H_
