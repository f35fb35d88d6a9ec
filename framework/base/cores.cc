#include "framework/base/cores.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/control_groups.h"

namespace sluice {
namespace {

// The number in a file of its own, or -1.
double NumberIn(const std::string& path) {
  std::ifstream file(path);
  double number = -1;
  return file >> number ? number : -1;
}

// The cores that a group's quota is worth, or 0 where it has none. A v2 group has one file,
// "200000 100000" for two cores or "max 100000"; a v1 group has two files, and -1 for no quota.
double QuotaOf(const ControlGroup& group) {
  std::string text;
  double quota = -1, period = 0;
  if (group.v2) {
    std::ifstream file(group.path + "/cpu.max");
    if (!(file >> text >> period) || !absl::SimpleAtod(text, &quota)) return 0;
  } else {
    quota = NumberIn(group.path + "/cpu.cfs_quota_us");
    period = NumberIn(group.path + "/cpu.cfs_period_us");
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

// The cores that a process may be scheduled on, in order; none where the system does not say.
// Process 0 is this one.
std::vector<int> AffinityOf(pid_t process) {
  std::vector<int> cores;
  for (size_t most = CPU_SETSIZE; most <= size_t{1} << 20; most *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most),
                                                               [](cpu_set_t* x) { CPU_FREE(x); });
    const size_t bytes = CPU_ALLOC_SIZE(most);
    if (set != nullptr && sched_getaffinity(process, bytes, set.get()) == 0) {
      for (size_t core = 0; core < most; ++core) {
        if (CPU_ISSET_S(core, bytes, set.get())) cores.push_back(static_cast<int>(core));
      }
      return cores;
    }
    if (errno != EINVAL) break;  // else the kernel has room for more cores than the set
  }
  return cores;
}

// The cores that the quotas of the control groups are worth, or 0 where there is none.
double CoresOfQuotas(const std::string& root) {
  double cores = 0;
  for (const ControlGroup& group : ControlGroupsOf("cpu", root)) {
    const double quota = QuotaOf(group);
    if (quota > 0 && (cores == 0 || quota < cores)) cores = quota;
  }
  return cores;
}

int AtMost(int cores, double quota) {
  return std::max(1, quota > 0 ? std::min(cores, static_cast<int>(std::ceil(quota))) : cores);
}

// Not std::thread::hardware_concurrency, which counts all cores that are switched on.
int CoresOfAffinity() {
  const auto cores = static_cast<int>(AffinityOf(0).size());
  return cores > 0 ? cores : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// The processes of this host that run the same program, this one included, as far as they may be
// seen: a container shows its own alone, and others' programs may not be looked at.
std::vector<pid_t> ProcessesOfThisProgram() {
  std::vector<pid_t> processes;
  struct stat own, other;
  if (stat("/proc/self/exe", &own) != 0) return processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    pid_t process = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &process)) continue;
    if (stat((entry.path() / "exe").c_str(), &other) != 0) continue;
    if (other.st_dev == own.st_dev && other.st_ino == own.st_ino) processes.push_back(process);
  }
  return processes;
}

// How many of the `processes` that a job has here share the cores of this one. torchrun leaves all
// of them all cores; mpirun and srun may bind each to its own; Slurm may give those of a step some
// cores together, which their parent does not have alone. So cores are compared with those of the
// others. Where these are not to be seen, what the parent may use tells whether anybody has bound
// this process.
int ProcessesOnTheseCores(int processes) {
  const std::vector<int> own = AffinityOf(0);
  const std::vector<pid_t> seen = ProcessesOfThisProgram();
  if (static_cast<int>(seen.size()) < processes) {
    const std::vector<int> parent = AffinityOf(getppid());
    return parent.empty() || own == parent ? processes : 1;
  }
  const auto sharing = std::count_if(seen.begin(), seen.end(),
                                     [&](pid_t other) { return AffinityOf(other) == own; });
  return std::clamp(static_cast<int>(sharing), 1, processes);
}

}  // namespace

int UsableCores(const std::string& root) { return AtMost(CoresOfAffinity(), CoresOfQuotas(root)); }

int CoresOfOneProcess(int processes) {
  return AtMost(CoresOfAffinity() / ProcessesOnTheseCores(processes),
                CoresOfQuotas("") / processes);
}

}  // namespace sluice
