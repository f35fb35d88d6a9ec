// How workers, the threads of a process, share its devices' streams: which has which, how long it
// waits awake, and how far the session runs ahead of results. The runtime does it, and the workers'
// clock reckons with it (worker_clock.h). Pure; any thread.
#ifndef SLUICE_FRAMEWORK_ACTOR_WORKER_POLICY_H_
#define SLUICE_FRAMEWORK_ACTOR_WORKER_POLICY_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "framework/plan/plan.pb.h"

namespace sluice {

// Steps of a program that the session may have begun before it takes the first one's results.
constexpr int kStepsAhead = 2;

// How long a worker that has nothing to do spins before it sleeps: long enough for the answer of
// another worker that is running, short enough that an idle session costs nothing. One for I/O does
// not spin, on a core that others compute on: what it does is ahead of its use.
constexpr std::chrono::microseconds kIdleSpin(30);
constexpr std::chrono::microseconds IdleSpin(bool computes) {
  return computes ? kIdleSpin : std::chrono::microseconds(0);
}

// Workers that compute: one a core, and no more than there are devices.
inline int WorkersFor(int devices, int64_t cores) {
  return static_cast<int>(std::min<int64_t>(devices, cores));
}

// What runs on such a stream waits for a disk, a network or the session, and computes nothing.
inline bool IsIoStream(plan::StreamKind kind) {
  return kind == plan::STREAM_HOST || kind == plan::STREAM_NET;
}

// Which worker has which stream. Beside each worker that computes stands one for the I/O streams of
// the same devices: a batch is read while a product runs, which would else come before the next
// instruction or behind it, and would make every device of the worker late by what a disk takes.
struct WorkerLayout {
  int devices = 1;
  int computing = 1;  // WorkersFor

  int workers() const { return 2 * computing; }
  bool computes(int32_t worker) const { return worker < computing; }
  // Neighbours together: a worker then has devices of every stage, as stages are innermost.
  int32_t WorkerOf(plan::StreamKind kind, int32_t device) const {
    const auto computes = static_cast<int32_t>(int64_t{device} * computing / devices);
    return IsIoStream(kind) ? computing + computes : computes;
  }
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_WORKER_POLICY_H_
