// Reading the memory of another process of this host: one copy by the kernel, from where the bytes
// lie to where they belong (process_vm_readv). Whether that is allowed (the same user, no sandbox
// against it), and whether a process number means the same process to both, is tried, not asked.
// Any thread.
#ifndef SLUICE_FRAMEWORK_COMM_PEER_MEMORY_H_
#define SLUICE_FRAMEWORK_COMM_PEER_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace sluice {

// What a process says of itself so that others can try: the mark stands at that address.
struct MemoryMark {
  int32_t process = 0;
  uint64_t address = 0;
  std::array<std::byte, 16> mark = {};
};

// Of bytes in another process.
struct MemoryRun {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

// More of them are gathered by their owner instead.
inline constexpr size_t kMostMemoryRuns = 64;

// Of this process; the same each time.
const MemoryMark& OwnMemoryMark();

// Whether the mark can be read where it is said to stand.
bool CanReadMemory(const MemoryMark& mark);

// Fills `to` with the runs, one behind another. Unavailable: not all of them can be read.
absl::Status ReadMemory(int32_t process, absl::Span<const MemoryRun> runs, std::byte* to);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_PEER_MEMORY_H_
