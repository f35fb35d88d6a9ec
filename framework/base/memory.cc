#include "framework/base/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/control_groups.h"

namespace sluice {
namespace {

// The number in a file of its own; nothing if it says "max" or is not there.
std::optional<int64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  int64_t number = 0;
  if (!(file >> word) || !absl::SimpleAtoi(word, &number)) return std::nullopt;
  return number;
}

// Bytes of files that a control group's memory.stat counts as its own. The system takes them back
// when memory is wanted, and a group that has read much data is full of them.
int64_t CachedFiles(const std::string& path, absl::string_view prefix) {
  std::ifstream file(path);
  std::string name;
  int64_t bytes = 0, cached = 0;
  while (file >> name >> bytes) {
    absl::string_view kind = name;
    if (!absl::ConsumePrefix(&kind, prefix)) continue;
    if (kind == "inactive_file" || kind == "active_file") cached += bytes;
  }
  return cached;
}

// A line "name: 123 kB" of /proc/meminfo or /proc/self/status, in bytes; 0 if there is none.
int64_t KilobytesIn(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  int64_t kilobytes = 0;
  while (file >> word) {
    if (word == name && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

void Lower(const std::string& source, int64_t most, int64_t used, MemoryLimits* limits) {
  const int64_t left = std::max<int64_t>(1, most - used);
  if (limits->available == 0 || left < limits->available) limits->available = left;
  if (limits->most != 0 && limits->most <= most) return;
  limits->most = std::max<int64_t>(1, most);
  limits->source = source;
}

void ReadControlGroups(const std::string& root, MemoryLimits* limits) {
  for (const ControlGroup& group : ControlGroupsOf("memory", root)) {
    const auto most = NumberIn(group.path + (group.v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    const auto used =
        NumberIn(group.path + (group.v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!most) continue;
    const int64_t cached = CachedFiles(group.path + "/memory.stat", group.v2 ? "" : "total_");
    Lower(absl::StrCat("the control group ", group.name), *most,
          std::max<int64_t>(0, used.value_or(0) - cached), limits);
  }
}

}  // namespace

MemoryLimits ReadMemoryLimits(const std::string& root) {
  MemoryLimits limits;
  const std::string meminfo = root + "/proc/meminfo";
  const int64_t total = KilobytesIn(meminfo, "MemTotal:");
  if (total > 0) {
    Lower("the machine", total, total - KilobytesIn(meminfo, "MemAvailable:"), &limits);
  }
  ReadControlGroups(root, &limits);
  rlimit space = {};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    Lower("the limit of its address space", static_cast<int64_t>(space.rlim_cur),
          KilobytesIn(root + "/proc/self/status", "VmSize:"), &limits);
  }
  return limits;
}

}  // namespace sluice
