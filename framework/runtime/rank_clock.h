// The clock of this rank beside that of rank 0, from exchanges over the net: rank 0 says what it
// reads, and half of the time that the exchange took is how far off that may be. Two such points
// give a line, so that clocks may run at different speeds. A rank's steady clock counts from
// anywhere; the first rank's trace begins at 0.
#ifndef SLUICE_FRAMEWORK_RUNTIME_RANK_CLOCK_H_
#define SLUICE_FRAMEWORK_RUNTIME_RANK_CLOCK_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "framework/comm/comm_net.h"

namespace sluice {

class RankClock {
 public:
  // `start`: what rank 0's clock reads when its trace begins. Of other ranks it counts for nothing.
  explicit RankClock(int64_t start) : start_(start) {}

  // Not on rank 0: takes a point, of the quickest of some exchanges. Waits for answers for a second
  // at most; without one there is no point.
  void Measure(CommNet* net);
  // Whether a time of this rank's was asked with that was not answered yet. The net.
  bool Awaits(int64_t time) const;
  // The net: kAskClock on rank 0; on others kClock, with a time that is awaited.
  void Receive(CommNet* net, int32_t from, const WireMessage& message);

  // Nanoseconds of rank 0's trace at a time of this rank's clock. Not while it measures.
  int64_t ToFirst(int64_t here) const;
  // How far off that may be, at the points; nothing: no point was taken.
  std::optional<int64_t> error() const;

 private:
  struct Point {
    int64_t here, first, error;  // nanoseconds
  };
  const int64_t start_;
  std::vector<Point> points_;  // the measuring thread's
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int64_t> awaited_;  // times, the newest last; both guarded by mutex_
  std::optional<Point> answer_;   // to the newest
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_RANK_CLOCK_H_
