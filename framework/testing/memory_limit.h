// For tests of what is larger than memory.
#ifndef SLUICE_FRAMEWORK_TESTING_MEMORY_LIMIT_H_
#define SLUICE_FRAMEWORK_TESTING_MEMORY_LIMIT_H_

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "framework/base/log.h"

namespace sluice {

// From now on this process may have so many bytes of addresses more than it has, and no way back:
// for a process of a death test. Sanitizers need more addresses than any limit.
inline void LimitMemory(int64_t more_bytes) {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages;
  const rlim_t most = pages * sysconf(_SC_PAGESIZE) + more_bytes;
  const rlimit limit = {most, most};
  SLUICE_CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_MEMORY_LIMIT_H_
