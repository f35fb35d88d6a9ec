#include "framework/base/cores.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace sluice {
namespace {

class CoresTest : public testing::Test {
 protected:
  CoresTest() {
    std::filesystem::remove_all(root_);
    all_ = UsableCores(root_);
  }
  void Write(const std::string& path, const std::string& text) {
    const std::string file = root_ + path;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file) << text;
  }
  const std::string root_ = testing::TempDir() + "/cores";
  int all_ = 0;  // where no group says anything
};

TEST_F(CoresTest, AQuotaIsRoundedUpToWholeCores) {
  Write("/proc/self/cgroup", "0::/slice/own\n");
  Write("/sys/fs/cgroup/slice/own/cpu.max", "max 100000\n");
  EXPECT_EQ(UsableCores(root_), all_);
  Write("/sys/fs/cgroup/slice/own/cpu.max", "50000 100000\n");
  EXPECT_EQ(UsableCores(root_), 1);
  Write("/sys/fs/cgroup/slice/own/cpu.max", "110000 100000\n");
  EXPECT_EQ(UsableCores(root_), std::min(all_, 2));
  Write("/sys/fs/cgroup/slice/cpu.max", "100000 100000\n");
  EXPECT_EQ(UsableCores(root_), 1);
}

// Of v1, where the controller shares a hierarchy with another and a container sees only its own
// group, as the root.
TEST_F(CoresTest, QuotasOfVersionOne) {
  Write("/proc/self/cgroup", "7:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/tasks", "1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(UsableCores(root_), all_);
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(UsableCores(root_), 1);
}

TEST_F(CoresTest, OnlyCoresOfTheAffinityCount) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(UsableCores(root_), 1);
  // Its parent has other cores, so that this one is its own, unless there is but one.
  EXPECT_EQ(CoresOfOneProcess(4), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(UsableCores(root_), all_);
  EXPECT_EQ(CoresOfOneProcess(all_), 1);
  EXPECT_EQ(CoresOfOneProcess(1), UsableCores());
}

// As Slurm starts the tasks of a step: all have the same cores, which are not their parent's.
TEST_F(CoresTest, CoresThatProcessesShareAreDivided) {
  if (all_ < 2) GTEST_SKIP() << "one core";
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  }
  const pid_t waiting = fork();
  if (waiting == 0) {
    pause();
    _exit(0);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const pid_t asking = fork();
  if (asking == 0) {
    const bool set = sched_setaffinity(0, sizeof(before), &before) == 0;
    _exit(set ? CoresOfOneProcess(2) : 0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(asking, &status, 0), asking);
  EXPECT_EQ(WEXITSTATUS(status), all_ / 2);
  kill(waiting, SIGKILL);
  waitpid(waiting, nullptr, 0);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace sluice
