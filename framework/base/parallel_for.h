// Independent calls on several threads.
#ifndef SLUICE_FRAMEWORK_BASE_PARALLEL_FOR_H_
#define SLUICE_FRAMEWORK_BASE_PARALLEL_FOR_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace sluice {

// Calls fn(i) once for each i below `count`, on the calling thread and at most `threads` - 1
// others, fewer where the system allows no more. Calls begin in ascending order of i. No call
// begins after one has failed; returns the error of the smallest i that failed.
absl::Status ParallelFor(size_t count, int threads, const std::function<absl::Status(size_t)>& fn);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_PARALLEL_FOR_H_
