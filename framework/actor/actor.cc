#include "framework/actor/actor.h"

#include <algorithm>

#include "framework/base/log.h"

namespace sluice {

Actor::Actor(const ProgramIndex* index, int32_t actor)
    : index_(index),
      id_(actor),
      stream_(index->actor(actor).stream),
      length_(index->actor(actor).length),
      first_event_(index->actor(actor).first_event),
      script_(index->ScriptOf(actor)) {
  const ProgramIndex::Actor& self = index->actor(actor);
  counts_.assign(kPadding, 0);
  int32_t fences = 0;
  for (int32_t n : index->ActorReadings(actor)) {
    const ProgramIndex::Register& x = index->reg(index->reading(n).reg);
    counts_.push_back(x.initial);
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
  acks_ = static_cast<int32_t>(counts_.size());
  passes_ = acks_ + slots;
  ack_fences_.assign(slots * ack_width_, 0);
  pass_fences_.assign(self.passes_in, 0);
  counts_.resize(passes_ + self.passes_in + kPadding, 0);
  const int32_t last_event = self.first_event + self.fires * self.length;
  for (int32_t event = self.first_event; self.passes_in > 0 && event < last_event; ++event) {
    for (int32_t n : index->PassesInto(event)) {
      counts_[passes_ + index->pass_local(n)] = index->program().passes(n).wraps() ? 1 : 0;
    }
  }
  FindLacking();
}

void Actor::On(const Message& message) {
  if (message.fence != 0 || fenced_) KeepFence(message);
  int32_t count = passes_;
  switch (message.kind) {
    case Message::Kind::kReq:
      count = kPadding + index_->reading(message.index).local;
      break;
    case Message::Kind::kAck:
      count = acks_ + SlotOfTake(message.index, message.take);
      break;
    case Message::Kind::kPass:
      count = passes_ + index_->pass_local(message.index);
      break;
  }
  if (++counts_[count] < lacking_.value || count != lacking_.count) return;
  ++waits_met_;
  FindLacking();
}

void Actor::KeepFence(const Message& message) {
  fenced_ = true;
  switch (message.kind) {
    case Message::Kind::kReq: {
      const ProgramIndex::Reading& reading = index_->reading(message.index);
      const int32_t slot = index_->SlotOf(reading.reg, message.take);
      token_fences_[fence_base_[reading.local] + slot] = message.fence;
      return;
    }
    case Message::Kind::kAck: {
      const int32_t slot = SlotOfTake(message.index, message.take);
      const int32_t n = std::min(static_cast<int32_t>(counts_[acks_ + slot]), ack_width_ - 1);
      ack_fences_[slot * ack_width_ + n] = message.fence;
      return;
    }
    case Message::Kind::kPass:
      pass_fences_[index_->pass_local(message.index)] = message.fence;
      return;
  }
}

inline int64_t Actor::TakeAt(int32_t reg) const {
  const ProgramIndex::Register& x = index_->reg(reg);
  const int64_t emission = x.by_every.Quotient(fire_);
  return emission * x.every == fire_ ? index_->TakeOf(reg, x.initial + emission) : -1;
}

// The token that lay last in the slot of a take; the take is not among the first of its slot.
inline ProgramIndex::Token Actor::TokenBefore(int32_t reg, int64_t take) const {
  const ProgramIndex::Register& x = index_->reg(reg);
  const int64_t freed = take - x.by_slots.value();
  return x.alone ? ProgramIndex::Token{reg, freed} : index_->TakerOf(x.ring, freed);
}

inline Actor::Need Actor::NeedOfReading(int32_t n) const {
  const ProgramIndex::Reading& reading = index_->reading(n);
  return {kPadding + reading.local, index_->TokenOf(reading, fire_) + 1};
}

// Of the slot that the next token of a register, written at the cursor, takes.
inline Actor::Need Actor::NeedOfSlot(int32_t reg) const {
  const int64_t take = TakeAt(reg);
  if (take < index_->reg(reg).by_slots.value()) return {acks_, 0};
  const ProgramIndex::Token last = TokenBefore(reg, take);
  return {acks_ + SlotOfTake(index_->CreditOf(reg), take),
          index_->ReleasesOf(last.reg, last.token)};
}

// Goes on to the first wait that is not met.
void Actor::FindLacking() {
  const auto readings = script_.Requires(cursor_), slots = script_.Acquires(cursor_);
  absl::Span<const int32_t> passes;
  if ((script_.Uses(cursor_) & ProgramIndex::kPassInto) != 0) passes = index_->PassesInto(event());
  for (;; ++waits_met_) {
    Need need;
    if (size_t n = waits_met_; n < readings.size()) {
      need = NeedOfReading(readings[n]);
    } else if ((n -= readings.size()) < slots.size()) {
      need = NeedOfSlot(slots[n]);
    } else if ((n -= slots.size()) < passes.size()) {
      need = {passes_ + index_->pass_local(passes[n]), 1};
    } else {
      lacking_ = {};
      return;
    }
    if (counts_[need.count] < need.value) {
      lacking_ = need;
      return;
    }
  }
}

bool Actor::FindMissing(ProgramIndex::Wait* missing) const {
  if (Done() || Ready()) return false;
  const auto readings = script_.Requires(cursor_), slots = script_.Acquires(cursor_);
  // A token of the session's is one that no event owes.
  *missing = {ProgramIndex::WaitKind::kToken, -1, -1, 0, 0};
  if (size_t n = waits_met_; n < readings.size()) {
    missing->what = index_->reading(readings[n]).reg;
  } else if ((n -= readings.size()) < slots.size()) {
    missing->kind = ProgramIndex::WaitKind::kSlot;
    missing->what = TokenBefore(slots[n], TakeAt(slots[n])).reg;
  } else {
    missing->kind = ProgramIndex::WaitKind::kPass;
    missing->what = index_->PassesInto(event())[n - slots.size()];
  }
  bool found = false;
  index_->ForEachWait(id_, fire_, cursor_, [&](const ProgramIndex::Wait& wait) {
    if (found || wait.kind != missing->kind || wait.what != missing->what) return;
    *missing = wait;
    found = true;
  });
  return true;
}

void Actor::AppendFences(std::vector<Fence>* out) const {
  auto add = [out](Fence fence) {
    if (fence != 0) out->push_back(fence);
  };
  for (int32_t n : script_.Requires(cursor_)) {
    const ProgramIndex::Reading& reading = index_->reading(n);
    const int32_t slot = index_->SlotOf(reading.reg, index_->TokenOf(reading, fire_));
    add(token_fences_[fence_base_[reading.local] + slot]);
  }
  for (int32_t r : script_.Acquires(cursor_)) {
    const int64_t take = TakeAt(r);
    if (take < 0) continue;
    const int32_t slot = SlotOfTake(index_->CreditOf(r), take);
    const int32_t acks = static_cast<int32_t>(counts_[acks_ + slot]);
    for (int32_t n = 0; n < std::min(acks, ack_width_); ++n) {
      add(ack_fences_[slot * ack_width_ + n]);
    }
  }
  for (int32_t n : index_->PassesInto(event())) add(pass_fences_[index_->pass_local(n)]);
}

// Takes the slots and passes of the instruction at the cursor. Tokens are counted by the fire.
inline void Actor::Consume() {
  const uint8_t uses = script_.Uses(cursor_);
  if ((uses & ProgramIndex::kAcquires) != 0) {
    for (int32_t r : script_.Acquires(cursor_)) {
      const int64_t take = TakeAt(r);
      if (take >= 0) counts_[acks_ + SlotOfTake(index_->CreditOf(r), take)] = 0;
    }
  }
  if ((uses & ProgramIndex::kPassInto) != 0) {
    for (int32_t n : index_->PassesInto(event())) --counts_[passes_ + index_->pass_local(n)];
  }
}

inline void Actor::Tell(Message::Kind kind, int32_t to, int32_t index, int64_t take, Fence fence,
                        MessageList* out) {
  if (to == id_) return On({kind, to, index, take, fence});
  // Written where it stands: a copy would have to wait for what it reads.
  Message& message = out->emplace_back();
  message.kind = kind;
  message.to = to;
  message.index = index;
  message.take = take;
  message.fence = fence;
}

// Tells the producer of the next take of a token's slot that one user of the token is through.
inline void Actor::Free(int32_t reg, int64_t token, Fence fence, MessageList* out) {
  const ProgramIndex::Register& x = index_->reg(reg);
  if (x.producer < 0) return;
  const int64_t take = index_->TakeOf(reg, token) + x.by_slots.value();
  const int32_t credit = x.alone ? x.credit : index_->PlaceOf(x.ring, take).credit;
  Tell(Message::Kind::kAck, index_->credit(credit).actor, credit, take, fence, out);
}

inline void Actor::Emit(int32_t reg, Fence fence, MessageList* out) {
  const ProgramIndex::Register& x = index_->reg(reg);
  const int64_t emission = x.by_every.Quotient(fire_);
  if (fire_ + 1 != (emission + 1) * x.every) return;
  const int64_t token = x.initial + emission;
  for (int32_t n = x.readings_begin; n < x.readings_end; ++n) {
    Tell(Message::Kind::kReq, index_->reading(n).actor, n, token, fence, out);
  }
  if (x.readings_begin == x.readings_end) Free(reg, token, fence, out);
}

void Actor::Exchange(Fence fence, MessageList* out) {
  Consume();
  const uint8_t uses = script_.Uses(cursor_);
  if ((uses & ProgramIndex::kEmits) != 0) {
    for (int32_t r : script_.Emits(cursor_)) Emit(r, fence, out);
  }
  if ((uses & ProgramIndex::kReleases) != 0) {
    for (int32_t n : script_.Releases(cursor_)) {
      const ProgramIndex::Reading& reading = index_->reading(n);
      const int64_t served = reading.by_serves.Quotient(fire_);
      if (fire_ + 1 != (served + 1) * reading.serves) continue;
      Free(reading.reg, served + reading.offset, fence, out);
    }
  }
  if ((uses & ProgramIndex::kPassFrom) != 0) {
    for (int32_t n : index_->PassesFrom(event())) {
      Tell(Message::Kind::kPass, index_->pass_target(n), n, 0, fence, out);
    }
  }
}

void Actor::NextFire() {
  cursor_ = 0;
  ++fire_;
  if (++micro_ < index_->actor(id_).fires) return;
  micro_ = 0;
  ++step_;
}

int Actor::MostMessages() const {
  int most = 0;
  for (int i = 0; i < index_->actor(id_).length; ++i) {
    int n = static_cast<int>(script_.Releases(i).size());
    for (int32_t r : script_.Emits(i)) {
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
