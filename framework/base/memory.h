// How much memory a process may have.
#ifndef SLUICE_FRAMEWORK_BASE_MEMORY_H_
#define SLUICE_FRAMEWORK_BASE_MEMORY_H_

#include <cstdint>
#include <string>

namespace sluice {

struct MemoryLimits {
  int64_t most = 0;       // bytes that the process may have, all in all; 0: nothing says
  int64_t available = 0;  // of these, bytes that it could still get now; 0: nothing says
  std::string source;     // of `most`, for people: "the machine", "the control group /a/b", ..
};

// The least of the machine's memory, the limits of the process's control groups (v1 or v2, its own
// and those around it) and of its address space (RLIMIT_AS). `root` is where /proc and /sys are
// looked for, for tests.
MemoryLimits ReadMemoryLimits(const std::string& root = "");

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_MEMORY_H_
