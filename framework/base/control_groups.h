// The control groups of Linux that this process is in, by which containers and batch systems limit
// what it may have.
#ifndef SLUICE_FRAMEWORK_BASE_CONTROL_GROUPS_H_
#define SLUICE_FRAMEWORK_BASE_CONTROL_GROUPS_H_

#include <string>
#include <vector>

namespace sluice {

struct ControlGroup {
  std::string name;  // "/a/b", as /proc/self/cgroup has it
  std::string path;  // of its files
  bool v2 = false;
};

// The groups of a controller ("memory", "cpu"), of v1 or v2: the process's own and those around it,
// as a limit of each of them holds. Their files may not be there. `root` is where /proc and /sys
// are looked for, for tests.
std::vector<ControlGroup> ControlGroupsOf(const std::string& controller,
                                          const std::string& root = "");

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_CONTROL_GROUPS_H_
