#include "framework/base/memory.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A machine of 1,000 MiB, of which 600 are available, with what a test adds.
class MemoryLimitsTest : public testing::Test {
 protected:
  MemoryLimitsTest() {
    std::filesystem::remove_all(root_);
    Write("/proc/meminfo", "MemTotal:  1024000 kB\nMemFree: 1 kB\nMemAvailable:  614400 kB\n");
  }
  void Write(const std::string& path, const std::string& text) {
    const std::string file = root_ + path;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file) << text;
  }
  const std::string root_ = testing::TempDir() + "/memory_limits";
};

TEST_F(MemoryLimitsTest, AMachineWithoutLimits) {
  const MemoryLimits limits = ReadMemoryLimits(root_);
  EXPECT_EQ(limits.most, 1000 * kMiB);
  EXPECT_EQ(limits.available, 600 * kMiB);
  EXPECT_EQ(limits.source, "the machine");
}

TEST_F(MemoryLimitsTest, TheControlGroupAndThoseAroundItHold) {
  Write("/proc/self/cgroup", "0::/slice/own\n");
  Write("/sys/fs/cgroup/slice/own/memory.max", "max\n");
  EXPECT_EQ(ReadMemoryLimits(root_).most, 1000 * kMiB);
  Write("/sys/fs/cgroup/slice/memory.max", "314572800\n");
  Write("/sys/fs/cgroup/slice/memory.current", "104857600\n");
  const MemoryLimits limits = ReadMemoryLimits(root_);
  EXPECT_EQ(limits.most, 300 * kMiB);
  EXPECT_EQ(limits.available, 200 * kMiB);
  EXPECT_EQ(limits.source, "the control group /slice");
}

// A group that has read much data has used all it may have, and most of that is to be had.
TEST_F(MemoryLimitsTest, CachedFilesAreAvailable) {
  Write("/proc/self/cgroup", "0::/own\n");
  Write("/sys/fs/cgroup/own/memory.max", "314572800\n");
  Write("/sys/fs/cgroup/own/memory.current", "314572800\n");
  Write("/sys/fs/cgroup/own/memory.stat",
        "anon 52428800\nfile 262144000\ninactive_file 157286400\nactive_file 104857600\n");
  EXPECT_EQ(ReadMemoryLimits(root_).available, 250 * kMiB);
}

// In a container its own group is the root of what it sees.
TEST_F(MemoryLimitsTest, TheRootsOwnLimitHolds) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "209715200\n");
  EXPECT_EQ(ReadMemoryLimits(root_).most, 200 * kMiB);
}

TEST_F(MemoryLimitsTest, TheFirstVersionOfControlGroupsToo) {
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a\n");
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "104857600\n");
  Write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "52428800\n");
  // What v1 says where there is no limit.
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const MemoryLimits limits = ReadMemoryLimits(root_);
  EXPECT_EQ(limits.most, 100 * kMiB);
  EXPECT_EQ(limits.available, 50 * kMiB);
}

#if !defined(ADDRESS_SANITIZER) && !defined(THREAD_SANITIZER)
TEST_F(MemoryLimitsTest, TheAddressSpaceIsLimitedToo) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(900 * kMiB);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  Write("/proc/self/status", "Name: x\nVmSize:  512000 kB\n");
  const MemoryLimits limits = ReadMemoryLimits(root_);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(limits.most, 900 * kMiB);
  EXPECT_EQ(limits.available, 400 * kMiB);
}
#endif

TEST_F(MemoryLimitsTest, NothingSaysAnything) {
  const MemoryLimits limits = ReadMemoryLimits(root_ + "/nowhere");
  EXPECT_EQ(limits.most, 0);
  EXPECT_EQ(limits.available, 0);
}

}  // namespace
}  // namespace sluice
