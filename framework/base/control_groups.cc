#include "framework/base/control_groups.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

// Where the hierarchy of a v1 controller is mounted. Some controllers share one, which is called
// after all of them ("cpu,cpuacct") and has links by the name of each.
std::string MountOf(const std::string& controllers, const std::string& controller,
                    const std::string& root) {
  for (const std::string& name : {controller, controllers}) {
    const std::string path = absl::StrCat(root, "/sys/fs/cgroup/", name);
    if (std::ifstream(path + "/tasks") || std::ifstream(path + "/cgroup.procs")) return path;
  }
  return absl::StrCat(root, "/sys/fs/cgroup/", controller);
}

}  // namespace

// /proc/self/cgroup has a line for each hierarchy, "4:memory:/a/b" of v1 and "0::/a/b" of v2.
std::vector<ControlGroup> ControlGroupsOf(const std::string& controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    const bool v2 = fields[1].empty();
    if (!v2 && std::find(controllers.begin(), controllers.end(), controller) == controllers.end()) {
      continue;
    }
    const std::string base = v2 ? root + "/sys/fs/cgroup" : MountOf(fields[1], controller, root);
    for (std::string group = fields[2];; group.resize(group.rfind('/'))) {
      if (absl::EndsWith(group, "/")) group.pop_back();
      groups.push_back({group.empty() ? "/" : group, base + group, v2});
      if (group.empty()) break;
    }
  }
  return groups;
}

}  // namespace sluice
