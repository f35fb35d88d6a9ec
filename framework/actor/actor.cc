#include "framework/actor/actor.h"

#include <algorithm>

#include "framework/base/log.h"

namespace sluice {

Actor::Actor(const ProgramIndex* index, int32_t actor) : index_(index), id_(actor) {
  const ProgramIndex::Actor& self = index->actor(actor);
  int32_t fences = 0;
  for (int32_t n : index->ActorReadings(actor)) {
    const ProgramIndex::Register& x = index->reg(index->reading(n).reg);
    arrived_.push_back(x.initial);
    fence_base_.push_back(fences);
    fences += index->ring(x.ring).slots;
  }
  token_fences_.assign(fences, 0);
  int32_t slots = 0;
  for (int32_t c = self.credits_begin; c < self.credits_end; ++c) {
    const ProgramIndex::Ring& ring = index->ring(index->credit(c).ring);
    slots += ring.slots;
    for (int32_t j = 0; j < ring.takes; ++j) {
      const ProgramIndex::Register& x = index->reg(index->PlaceOf(index->credit(c).ring, j).reg);
      ack_width_ = std::max(ack_width_, x.readings_end - x.readings_begin);
    }
  }
  acks_.assign(slots, 0);
  ack_fences_.assign(slots * ack_width_, 0);
  passes_.assign(self.passes_in, 0);
  pass_fences_.assign(self.passes_in, 0);
  for (int n = 0; n < index->program().passes_size(); ++n) {
    const plan::Pass& pass = index->program().passes(n);
    if (pass.before().actor() == actor && pass.wraps()) passes_[index->pass_local(n)] = 1;
  }
}

int32_t Actor::AckCounter(int32_t credit, int64_t take) const {
  const ProgramIndex::Credit& x = index_->credit(credit);
  return static_cast<int32_t>(x.slot_base + take % index_->ring(x.ring).slots);
}

void Actor::On(const Message& message) {
  switch (message.kind) {
    case Message::Kind::kReq: {
      const ProgramIndex::Reading& reading = index_->reading(message.index);
      const int32_t slot = index_->SlotOf(reading.reg, message.take);
      token_fences_[fence_base_[reading.local] + slot] = message.fence;
      ++arrived_[reading.local];
      return;
    }
    case Message::Kind::kAck: {
      const int32_t counter = AckCounter(message.index, message.take);
      const int32_t n = std::min(acks_[counter]++, ack_width_ - 1);
      ack_fences_[counter * ack_width_ + n] = message.fence;
      return;
    }
    case Message::Kind::kPass: {
      const int32_t local = index_->pass_local(message.index);
      ++passes_[local];
      pass_fences_[local] = message.fence;
      return;
    }
  }
}

// Is the slot free that the next token of a register, written at the cursor, takes?
bool Actor::HasSlot(int32_t reg) const {
  const ProgramIndex::Register& x = index_->reg(reg);
  if (fire_ % x.every != 0) return true;
  const int64_t take = index_->TakeOf(reg, x.initial + fire_ / x.every);
  const int64_t freed = take - index_->ring(x.ring).slots;
  if (freed < 0) return true;
  const ProgramIndex::Token last = index_->TakerOf(x.ring, freed);
  return acks_[AckCounter(index_->PlaceOf(x.ring, take).credit, take)] >=
         index_->ReleasesOf(last.reg, last.token);
}

bool Actor::Ready() const {
  if (Done()) return false;
  for (int32_t n : index_->Requires(id_, cursor_)) {
    const ProgramIndex::Reading& reading = index_->reading(n);
    if (arrived_[reading.local] <= index_->TokenOf(reading, fire_)) return false;
  }
  for (int32_t r : index_->Acquires(id_, cursor_)) {
    if (!HasSlot(r)) return false;
  }
  if (!passes_.empty()) {
    for (int32_t n : index_->PassesInto(event())) {
      if (passes_[index_->pass_local(n)] == 0) return false;
    }
  }
  return true;
}

bool Actor::FindMissing(ProgramIndex::Wait* missing) const {
  if (Done() || Ready()) return false;
  bool found = false;
  auto take = [&](const ProgramIndex::Wait& wait) {
    if (found || wait.kind == ProgramIndex::WaitKind::kScript) return;
    if (wait.kind == ProgramIndex::WaitKind::kTurn) return;
    if (wait.kind == ProgramIndex::WaitKind::kToken) {
      for (int32_t n : index_->Requires(id_, cursor_)) {
        const ProgramIndex::Reading& reading = index_->reading(n);
        if (reading.reg == wait.what && arrived_[reading.local] > index_->TokenOf(reading, fire_)) {
          return;
        }
      }
    }
    if (wait.kind == ProgramIndex::WaitKind::kSlot) {
      bool all = true;
      for (int32_t r : index_->Acquires(id_, cursor_)) all = all && HasSlot(r);
      if (all) return;
    }
    if (wait.kind == ProgramIndex::WaitKind::kPass && passes_[index_->pass_local(wait.what)] > 0) {
      return;
    }
    *missing = wait;
    found = true;
  };
  index_->ForEachWait(id_, fire_, cursor_, take);
  if (found) return true;
  // A token of the session's, which no event owes.
  for (int32_t n : index_->Requires(id_, cursor_)) {
    const ProgramIndex::Reading& reading = index_->reading(n);
    if (arrived_[reading.local] > index_->TokenOf(reading, fire_)) continue;
    *missing = {ProgramIndex::WaitKind::kToken, reading.reg, -1, 0, 0};
    return true;
  }
  return false;
}

void Actor::AppendFences(std::vector<Fence>* out) const {
  auto add = [out](Fence fence) {
    if (fence != 0) out->push_back(fence);
  };
  for (int32_t n : index_->Requires(id_, cursor_)) {
    const ProgramIndex::Reading& reading = index_->reading(n);
    const int32_t slot = index_->SlotOf(reading.reg, index_->TokenOf(reading, fire_));
    add(token_fences_[fence_base_[reading.local] + slot]);
  }
  for (int32_t r : index_->Acquires(id_, cursor_)) {
    const ProgramIndex::Register& x = index_->reg(r);
    if (fire_ % x.every != 0) continue;
    const int64_t take = index_->TakeOf(r, x.initial + fire_ / x.every);
    const int32_t counter = AckCounter(index_->PlaceOf(x.ring, take).credit, take);
    for (int32_t n = 0; n < std::min(acks_[counter], ack_width_); ++n) {
      add(ack_fences_[counter * ack_width_ + n]);
    }
  }
  if (passes_.empty()) return;
  for (int32_t n : index_->PassesInto(event())) add(pass_fences_[index_->pass_local(n)]);
}

// Takes the slots and passes of the instruction at the cursor. Tokens are counted by the fire.
void Actor::Consume() {
  for (int32_t r : index_->Acquires(id_, cursor_)) {
    const ProgramIndex::Register& x = index_->reg(r);
    if (fire_ % x.every != 0) continue;
    const int64_t take = index_->TakeOf(r, x.initial + fire_ / x.every);
    acks_[AckCounter(index_->PlaceOf(x.ring, take).credit, take)] = 0;
  }
  if (passes_.empty()) return;
  for (int32_t n : index_->PassesInto(event())) --passes_[index_->pass_local(n)];
}

void Actor::Tell(const Message& message, MessageList* out) {
  if (message.to == id_) {
    On(message);
  } else {
    out->push_back(message);
  }
}

// Tells the producer of the next take of a token's slot that one user of the token is through.
void Actor::Free(int32_t reg, int64_t token, Fence fence, MessageList* out) {
  const ProgramIndex::Register& x = index_->reg(reg);
  if (x.producer < 0) return;
  const int64_t take = index_->TakeOf(reg, token) + index_->ring(x.ring).slots;
  const int32_t credit = index_->PlaceOf(x.ring, take).credit;
  Tell({Message::Kind::kAck, index_->credit(credit).actor, credit, take, fence}, out);
}

void Actor::Finish(Fence fence, MessageList* out) {
  Consume();
  for (int32_t r : index_->Emits(id_, cursor_)) {
    const ProgramIndex::Register& x = index_->reg(r);
    if ((fire_ + 1) % x.every != 0) continue;
    const int64_t token = x.initial + fire_ / x.every;
    for (int32_t n = x.readings_begin; n < x.readings_end; ++n) {
      Tell({Message::Kind::kReq, index_->reading(n).actor, n, token, fence}, out);
    }
    if (x.readings_begin == x.readings_end) Free(r, token, fence, out);
  }
  for (int32_t n : index_->Releases(id_, cursor_)) {
    const ProgramIndex::Reading& reading = index_->reading(n);
    if ((fire_ + 1) % reading.serves != 0) continue;
    Free(reading.reg, index_->TokenOf(reading, fire_), fence, out);
  }
  for (int32_t n : index_->PassesFrom(event())) {
    Tell({Message::Kind::kPass, index_->program().passes(n).before().actor(), n, 0, fence}, out);
  }
  const ProgramIndex::Actor& self = index_->actor(id_);
  if (++cursor_ < self.length) return;
  cursor_ = 0;
  ++fire_;
  if (++micro_ < self.fires) return;
  micro_ = 0;
  ++step_;
}

int Actor::MostMessages() const {
  int most = 0;
  for (int i = 0; i < index_->actor(id_).length; ++i) {
    int n = static_cast<int>(index_->Releases(id_, i).size());
    for (int32_t r : index_->Emits(id_, i)) {
      n += std::max(1, index_->reg(r).readings_end - index_->reg(r).readings_begin);
    }
    int passes = 0;
    for (int f = 0; f < index_->actor(id_).fires; ++f) {
      passes =
          std::max(passes, static_cast<int>(index_->PassesFrom(index_->EventOf(id_, f, i)).size()));
    }
    most = std::max(most, n + passes);
  }
  return most;
}

void GrantStep(const ProgramIndex& index, int64_t step, MessageList* out) {
  for (size_t n = 0; n < index.readings().size(); ++n) {
    const ProgramIndex::Reading& reading = index.readings()[n];
    const ProgramIndex::Register& x = index.reg(reading.reg);
    if (x.producer >= 0) continue;
    out->push_back({Message::Kind::kReq, reading.actor, static_cast<int32_t>(n), x.initial + step});
  }
}

}  // namespace sluice
