// How many workers, the threads of a process, its devices have, how long one waits awake, and how
// far the session runs ahead of results; which has which stream is in worker_layout.h. The runtime
// does it, and the workers' clock reckons with it (worker_clock.h). Pure; any thread.
#ifndef SLUICE_FRAMEWORK_ACTOR_WORKER_POLICY_H_
#define SLUICE_FRAMEWORK_ACTOR_WORKER_POLICY_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sluice {

// Steps of a program that the session may have begun before it takes the first one's results.
constexpr int kStepsAhead = 2;

// How long a worker that has nothing to do spins before it sleeps: long enough for the answer of
// another worker that is running, short enough that an idle session costs nothing. One for I/O does
// not spin, on a core that others compute on: what it does is ahead of its use.
constexpr std::chrono::microseconds kIdleSpin(30);
constexpr std::chrono::microseconds IdleSpin(bool spins) {
  return spins ? kIdleSpin : std::chrono::microseconds(0);
}

// Workers that compute: one a core, and no more than there are devices.
inline int WorkersFor(int devices, int64_t cores) {
  return static_cast<int>(std::min<int64_t>(devices, cores));
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_WORKER_POLICY_H_
