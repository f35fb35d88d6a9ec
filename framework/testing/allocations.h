// Counts what the process allocates, through whichever door: the C library's functions that give
// memory are replaced in a program that links this, and every form of operator new ends in one of
// them. What a library allocates on its own behalf is told apart by asking, at each allocation,
// whether the calling thread is inside one of its calls. Any thread may allocate; one thread asks.
#ifndef SLUICE_FRAMEWORK_TESTING_ALLOCATIONS_H_
#define SLUICE_FRAMEWORK_TESTING_ALLOCATIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace sluice {

// Sanitizers have allocators of their own: there nothing is counted.
#if defined(ADDRESS_SANITIZER) || defined(THREAD_SANITIZER)
constexpr bool kCountsAllocations = false;
#else
constexpr bool kCountsAllocations = true;
#endif

struct Allocations {
  int64_t own = 0, library = 0;                  // calls
  int64_t largest_own = 0, largest_library = 0;  // bytes
};

// Begins to count from zero. `in_library` says whether the calling thread is inside a library's
// call; null: nothing is a library's.
void StartCountingAllocations(bool (*in_library)() = nullptr);
// Since then.
Allocations CountedAllocations();

// A way to get memory. `get` allocates `bytes` and frees them again.
struct AllocationDoor {
  const char* name;
  void (*get)(size_t bytes);
};
// All that are counted, for tests that plant one.
absl::Span<const AllocationDoor> AllocationDoors();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_ALLOCATIONS_H_
