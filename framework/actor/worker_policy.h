// How workers, the threads of a process, share its devices: which has which, what it takes first,
// how long it waits awake, and how far the session runs ahead of results. The runtime does it, and
// the workers' clock reckons with it (worker_clock.h). Pure; any thread.
#ifndef SLUICE_FRAMEWORK_ACTOR_WORKER_POLICY_H_
#define SLUICE_FRAMEWORK_ACTOR_WORKER_POLICY_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sluice {

// Steps of a program that the session may have begun before it takes the first one's results.
constexpr int kStepsAhead = 2;

// How long a worker that has nothing to do spins before it sleeps: long enough for the answer of
// another worker that is running, short enough that an idle session costs nothing.
constexpr std::chrono::microseconds kIdleSpin(30);

inline int WorkersFor(int devices, int64_t cores) {
  return static_cast<int>(std::min<int64_t>(devices, cores));
}

// Neighbours together: a worker then has devices of every stage, as stages are innermost.
inline int32_t WorkerOf(int32_t device, int devices, int workers) {
  return static_cast<int32_t>(int64_t{device} * workers / devices);
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_WORKER_POLICY_H_
