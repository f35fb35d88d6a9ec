// Which worker has which stream of the devices of a process. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_ACTOR_WORKER_LAYOUT_H_
#define SLUICE_FRAMEWORK_ACTOR_WORKER_LAYOUT_H_

#include <cstdint>

#include "framework/plan/plan.pb.h"

namespace sluice {

// What runs on such a stream waits for a disk, a network or the session, and computes nothing.
inline bool IsIoStream(plan::StreamKind kind) {
  return kind == plan::STREAM_HOST || kind == plan::STREAM_NET;
}

// Which worker has which stream. A call of a collective may wait for those of its peers, so each
// device's collectives have a worker of their own (comm/nccl.h). What computes behind them may wait
// for a place in its stream, so copies do not stand on its worker: a peer may need what they bring,
// on another rank through the memory of hosts, before it comes to that collective. Copies into a
// device may wait for their place in turn, so what leaves it has a worker, too. Beside each
// worker that computes stands one for the I/O streams of the same devices: a batch is read while a
// product runs, which would else come before the next instruction or behind it, and would make
// every device of the worker late by what a disk takes.
struct WorkerLayout {
  int devices = 1;
  int computing = 1;         // WorkersFor; with collectives one a device
  bool collectives = false;  // some device has a stream of them

  int workers() const { return 2 * computing + (collectives ? 2 * devices : 0); }
  bool computes(int32_t worker) const { return worker < computing; }
  // Neighbours together: a worker then has devices of every stage, as stages are innermost.
  int32_t WorkerOf(plan::StreamKind kind, int32_t device) const {
    if (collectives && kind == plan::STREAM_COLLECTIVE) return 2 * computing + device;
    if (collectives && kind == plan::STREAM_COPY_OUT) return 2 * computing + devices + device;
    const auto computes = static_cast<int32_t>(int64_t{device} * computing / devices);
    const bool apart = IsIoStream(kind) || (collectives && kind == plan::STREAM_COPY);
    return apart ? computing + computes : computes;
  }
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_WORKER_LAYOUT_H_
