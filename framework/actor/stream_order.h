// The turn of a stream: which actor may run next. A stream with an order takes its work in these
// turns, round and round; one without takes any ready actor. Counts only; one thread at a time.
#ifndef SLUICE_FRAMEWORK_ACTOR_STREAM_ORDER_H_
#define SLUICE_FRAMEWORK_ACTOR_STREAM_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/plan/plan.pb.h"

namespace sluice {

// On a cache line of its own, as another thread has the next.
class alignas(64) StreamOrder {
 public:
  explicit StreamOrder(const plan::Stream& stream) {
    entries_.reserve(stream.order_size());
    for (const plan::ScheduleEntry& entry : stream.order()) {
      entries_.push_back({entry.actor(), entry.firing(), entry.from(), entry.to()});
    }
    if (listed()) now_ = entries_[0];
  }

  bool listed() const { return !entries_.empty(); }
  // Whose turn it is; -1 without an order.
  int32_t actor() const { return now_.actor; }
  bool Allows(int32_t actor, int32_t micro, int32_t instruction) const {
    if (!listed()) return true;
    return now_.actor == actor && now_.firing == micro && now_.from <= instruction &&
           instruction < now_.to;
  }
  // An instruction that was allowed has run. True if the turn has gone to the next entry.
  bool Advance(int32_t instruction) {
    if (!listed() || instruction + 1 < now_.to) return false;
    entry_ = entry_ + 1 < entries_.size() ? entry_ + 1 : 0;
    now_ = entries_[entry_];
    return true;
  }

 private:
  struct Turn {
    int32_t actor, firing, from, to;
  };
  Turn now_ = {-1, 0, 0, 0};
  size_t entry_ = 0;  // which of entries_ that is
  std::vector<Turn> entries_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_STREAM_ORDER_H_
