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
    turns_.reserve(stream.order_size());
    for (const plan::Turn& turn : stream.order()) {
      turns_.push_back({turn.actor(), turn.fire(), turn.from(), turn.to()});
    }
    if (listed()) now_ = turns_[0];
  }

  bool listed() const { return !turns_.empty(); }
  // Whose turn it is; -1 without an order.
  int32_t actor() const { return now_.actor; }
  bool Allows(int32_t actor, int32_t micro, int32_t instruction) const {
    if (!listed()) return true;
    return now_.actor == actor && now_.fire == micro && now_.from <= instruction &&
           instruction < now_.to;
  }
  // An instruction that was allowed has run. True if the turn has gone to the next entry.
  bool Advance(int32_t instruction) {
    if (!listed() || instruction + 1 < now_.to) return false;
    turn_ = turn_ + 1 < turns_.size() ? turn_ + 1 : 0;
    now_ = turns_[turn_];
    return true;
  }

 private:
  struct Turn {
    int32_t actor, fire, from, to;
  };
  Turn now_ = {-1, 0, 0, 0};
  size_t turn_ = 0;  // which of turns_ that is
  std::vector<Turn> turns_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_STREAM_ORDER_H_
