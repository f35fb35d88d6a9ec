// The turn of a stream: which actor may run next. A stream with an order takes its work in these
// turns, round and round; one without takes any ready actor. Counts only; one thread at a time.
#ifndef SLUICE_FRAMEWORK_ACTOR_STREAM_ORDER_H_
#define SLUICE_FRAMEWORK_ACTOR_STREAM_ORDER_H_

#include <cstdint>

#include "framework/plan/plan.pb.h"

namespace sluice {

class StreamOrder {
 public:
  // The stream must outlive this.
  explicit StreamOrder(const plan::Stream* stream) : stream_(stream) {}

  bool listed() const { return stream_->order_size() > 0; }
  // Whose turn it is; -1 without an order.
  int32_t actor() const { return listed() ? stream_->order(turn_).actor() : -1; }
  bool Allows(int32_t actor, int32_t micro, int32_t instruction) const {
    if (!listed()) return true;
    const plan::Turn& turn = stream_->order(turn_);
    return turn.actor() == actor && turn.fire() == micro && turn.from() <= instruction &&
           instruction < turn.to();
  }
  // An instruction that was allowed has run. True if the turn has gone to the next entry.
  bool Advance(int32_t instruction) {
    if (!listed() || instruction + 1 < stream_->order(turn_).to()) return false;
    turn_ = turn_ + 1 < stream_->order_size() ? turn_ + 1 : 0;
    return true;
  }

 private:
  const plan::Stream* stream_;
  int32_t turn_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_STREAM_ORDER_H_
