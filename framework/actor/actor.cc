#include "framework/actor/actor.h"

#include <algorithm>

#include "framework/base/log.h"

namespace sluice {

Actor::Actor(const ProgramIndex* index, int32_t actor)
    : index_(index),
      id_(actor),
      stream_(index->actor(actor).stream),
      length_(index->actor(actor).length),
      first_instance_(index->actor(actor).first_instance),
      script_(index->ScriptOf(actor)) {
  const ProgramIndex::Actor& self = index->actor(actor);
  const absl::Span<const int32_t> consumers = index->ConsumersOf(actor);
  acks_ = kPadding + static_cast<int32_t>(consumers.size());
  int32_t slots = 0;
  for (int32_t c = self.ack_counts_begin; c < self.ack_counts_end; ++c) {
    const ProgramIndex::Ring& ring = index->ring(index->ack_count(c).ring);
    slots += ring.slots;
    for (int32_t j = 0; j < ring.places; ++j) {
      const ProgramIndex::Register& x = index->reg(index->PlaceOf(index->ack_count(c).ring, j).reg);
      ack_width_ = std::max(ack_width_, x.consumers_end - x.consumers_begin);
    }
  }
  reuse_edges_ = acks_ + slots;
  counts_.assign(reuse_edges_ + self.reuse_edges_in + kPadding, 0);
  fence_base_.reserve(consumers.size());
  for (int32_t n : consumers) {
    const ProgramIndex::Register& x = index->reg(index->consumer(n).reg);
    counts_[kPadding + fence_base_.size()] = x.initial;
    fence_base_.push_back(ack_fences_);
    ack_fences_ += index->ring(x.ring).slots;
  }
  reuse_fences_ = ack_fences_ + slots * ack_width_;
  fences_.assign(reuse_fences_ + self.reuse_edges_in, 0);
  const int32_t last_instance = self.first_instance + self.firings * self.length;
  for (int32_t instance = self.first_instance; self.reuse_edges_in > 0 && instance < last_instance;
       ++instance) {
    for (int32_t n : index->ReuseInto(instance)) {
      counts_[reuse_edges_ + index->reuse_local(n)] =
          index->program().reuse_edges(n).wraps() ? 1 : 0;
    }
  }
  FindBlockedOn();
}

void Actor::On(const Message& message) {
  if (message.fence != 0 || fenced_) KeepFence(message);
  int32_t count = reuse_edges_;
  switch (message.kind) {
    case Message::Kind::kReq:
      count = kPadding + index_->consumer(message.index).local;
      break;
    case Message::Kind::kAck:
      count = acks_ + SlotOfSequence(message.index, message.sequence);
      break;
    case Message::Kind::kReuse:
      count = reuse_edges_ + index_->reuse_local(message.index);
      break;
  }
  if (++counts_[count] < blocked_on_.value || count != blocked_on_.count) return;
  ++waits_met_;
  FindBlockedOn();
}

void Actor::KeepFence(const Message& message) {
  fenced_ = true;
  switch (message.kind) {
    case Message::Kind::kReq: {
      const ProgramIndex::Consumer& consumer = index_->consumer(message.index);
      const int32_t slot = index_->SlotOf(consumer.reg, message.sequence);
      fences_[fence_base_[consumer.local] + slot] = message.fence;
      return;
    }
    case Message::Kind::kAck: {
      const int32_t slot = SlotOfSequence(message.index, message.sequence);
      const int32_t n = std::min(static_cast<int32_t>(counts_[acks_ + slot]), ack_width_ - 1);
      fences_[ack_fences_ + slot * ack_width_ + n] = message.fence;
      return;
    }
    case Message::Kind::kReuse:
      fences_[reuse_fences_ + index_->reuse_local(message.index)] = message.fence;
      return;
  }
}

inline int64_t Actor::SequenceAt(int32_t reg) const {
  const ProgramIndex::Register& x = index_->reg(reg);
  const int64_t emission = x.by_every.Quotient(firing_);
  return emission * x.every == firing_ ? index_->SequenceOf(reg, x.initial + emission) : -1;
}

// The token that lay in the slot of a sequence number before it, which is not the first in its
// slot.
inline ProgramIndex::Token Actor::TokenBefore(int32_t reg, int64_t sequence) const {
  const ProgramIndex::Register& x = index_->reg(reg);
  const int64_t freed = sequence - x.by_slots.value();
  return x.alone ? ProgramIndex::Token{reg, freed} : index_->TokenAt(x.ring, freed);
}

inline Actor::Need Actor::NeedOfConsumer(int32_t n) const {
  const ProgramIndex::Consumer& consumer = index_->consumer(n);
  return {kPadding + consumer.local, index_->TokenOf(consumer, firing_) + 1};
}

// Of the slot that the next token of a register, written at the cursor, takes.
inline Actor::Need Actor::NeedOfSlot(int32_t reg) const {
  const int64_t sequence = SequenceAt(reg);
  if (sequence < index_->reg(reg).by_slots.value()) return {acks_, 0};
  const ProgramIndex::Token last = TokenBefore(reg, sequence);
  return {acks_ + SlotOfSequence(index_->AckCountOf(reg), sequence),
          index_->ReleasesOf(last.reg, last.token)};
}

// Goes on to the first wait that is not met.
void Actor::FindBlockedOn() {
  const auto consumers = script_.Requires(cursor_), slots = script_.Acquires(cursor_);
  absl::Span<const int32_t> reuse_edges;
  if ((script_.Uses(cursor_) & ProgramIndex::kReuseInto) != 0)
    reuse_edges = index_->ReuseInto(instance());
  for (;; ++waits_met_) {
    Need need;
    if (size_t n = waits_met_; n < consumers.size()) {
      need = NeedOfConsumer(consumers[n]);
    } else if ((n -= consumers.size()) < slots.size()) {
      need = NeedOfSlot(slots[n]);
    } else if ((n -= slots.size()) < reuse_edges.size()) {
      need = {reuse_edges_ + index_->reuse_local(reuse_edges[n]), 1};
    } else {
      blocked_on_ = {};
      return;
    }
    if (counts_[need.count] < need.value) {
      blocked_on_ = need;
      return;
    }
  }
}

bool Actor::FindMissing(ProgramIndex::Wait* missing) const {
  if (Done() || Ready()) return false;
  const auto consumers = script_.Requires(cursor_), slots = script_.Acquires(cursor_);
  // A token of the session's is one that no instance owes.
  *missing = {ProgramIndex::WaitKind::kToken, -1, -1, 0, 0};
  if (size_t n = waits_met_; n < consumers.size()) {
    missing->what = index_->consumer(consumers[n]).reg;
  } else if ((n -= consumers.size()) < slots.size()) {
    missing->kind = ProgramIndex::WaitKind::kSlot;
    missing->what = TokenBefore(slots[n], SequenceAt(slots[n])).reg;
  } else {
    missing->kind = ProgramIndex::WaitKind::kReuse;
    missing->what = index_->ReuseInto(instance())[n - slots.size()];
  }
  bool found = false;
  index_->ForEachWait(id_, firing_, cursor_, [&](const ProgramIndex::Wait& wait) {
    if (found || wait.kind != missing->kind || wait.what != missing->what) return;
    *missing = wait;
    found = true;
  });
  return true;
}

bool Actor::CanTake(int32_t instruction) const {
  const auto has = [this](const Need& need) { return counts_[need.count] >= need.value; };
  for (int32_t r : script_.Acquires(instruction)) {
    if (!has(NeedOfSlot(r))) return false;
  }
  for (int32_t n : index_->ReuseInto(InstanceOf(instruction))) {
    if (!has({reuse_edges_ + index_->reuse_local(n), 1})) return false;
  }
  return true;
}

void Actor::AppendFences(int32_t instruction, std::vector<Fence>* out) const {
  auto add = [out](Fence fence) {
    if (fence != 0) out->push_back(fence);
  };
  for (int32_t n : script_.Requires(instruction)) {
    const ProgramIndex::Consumer& consumer = index_->consumer(n);
    const int32_t slot = index_->SlotOf(consumer.reg, index_->TokenOf(consumer, firing_));
    add(fences_[fence_base_[consumer.local] + slot]);
  }
  for (int32_t r : script_.Acquires(instruction)) {
    const int64_t sequence = SequenceAt(r);
    if (sequence < 0) continue;
    const int32_t slot = SlotOfSequence(index_->AckCountOf(r), sequence);
    const int32_t acks = static_cast<int32_t>(counts_[acks_ + slot]);
    for (int32_t n = 0; n < std::min(acks, ack_width_); ++n) {
      add(fences_[ack_fences_ + slot * ack_width_ + n]);
    }
  }
  for (int32_t n : index_->ReuseInto(InstanceOf(instruction)))
    add(fences_[reuse_fences_ + index_->reuse_local(n)]);
}

// Takes the slots and reuse edges of the instruction at the cursor. Tokens are counted by the
// firing.
inline void Actor::Consume() {
  const uint8_t uses = script_.Uses(cursor_);
  if ((uses & ProgramIndex::kAcquires) != 0) {
    for (int32_t r : script_.Acquires(cursor_)) {
      const int64_t sequence = SequenceAt(r);
      if (sequence >= 0) counts_[acks_ + SlotOfSequence(index_->AckCountOf(r), sequence)] = 0;
    }
  }
  if ((uses & ProgramIndex::kReuseInto) != 0) {
    for (int32_t n : index_->ReuseInto(instance()))
      --counts_[reuse_edges_ + index_->reuse_local(n)];
  }
}

inline void Actor::Tell(Message::Kind kind, int32_t to, int32_t index, int64_t sequence,
                        Fence fence, MessageList* out) {
  if (to == id_) return On({kind, to, index, sequence, fence});
  // Written where it stands: a copy would have to wait for what it reads.
  Message& message = out->emplace_back();
  message.kind = kind;
  message.to = to;
  message.index = index;
  message.sequence = sequence;
  message.fence = fence;
}

// Tells the producer of the next sequence number of a token's slot that one user of the token is
// through.
inline void Actor::Free(int32_t reg, int64_t token, Fence fence, MessageList* out) {
  const ProgramIndex::Register& x = index_->reg(reg);
  if (x.producer < 0) return;
  const int64_t sequence = index_->SequenceOf(reg, token) + x.by_slots.value();
  const int32_t ack_count = x.alone ? x.ack_count : index_->PlaceOf(x.ring, sequence).ack_count;
  Tell(Message::Kind::kAck, index_->ack_count(ack_count).actor, ack_count, sequence, fence, out);
}

inline void Actor::Emit(int32_t reg, Fence fence, MessageList* out) {
  const ProgramIndex::Register& x = index_->reg(reg);
  const int64_t emission = x.by_every.Quotient(firing_);
  if (firing_ + 1 != (emission + 1) * x.every) return;
  const int64_t token = x.initial + emission;
  for (int32_t n = x.consumers_begin; n < x.consumers_end; ++n) {
    Tell(Message::Kind::kReq, index_->consumer(n).actor, n, token, fence, out);
  }
  if (x.consumers_begin == x.consumers_end) Free(reg, token, fence, out);
}

void Actor::Exchange(Fence fence, MessageList* out) {
  Consume();
  const uint8_t uses = script_.Uses(cursor_);
  if ((uses & ProgramIndex::kEmits) != 0) {
    for (int32_t r : script_.Emits(cursor_)) Emit(r, fence, out);
  }
  if ((uses & ProgramIndex::kReleases) != 0) {
    for (int32_t n : script_.Releases(cursor_)) {
      const ProgramIndex::Consumer& consumer = index_->consumer(n);
      const int64_t served = consumer.by_serves.Quotient(firing_);
      if (firing_ + 1 != (served + 1) * consumer.serves) continue;
      Free(consumer.reg, served + consumer.offset, fence, out);
    }
  }
  if ((uses & ProgramIndex::kReuseFrom) != 0) {
    for (int32_t n : index_->ReuseFrom(instance())) {
      Tell(Message::Kind::kReuse, index_->reuse_target(n), n, 0, fence, out);
    }
  }
}

void Actor::NextFiring() {
  cursor_ = 0;
  ++firing_;
  if (++micro_ < index_->actor(id_).firings) return;
  micro_ = 0;
  ++step_;
}

int Actor::MostMessages() const {
  int most = 0;
  for (int i = 0; i < index_->actor(id_).length; ++i) {
    int n = static_cast<int>(script_.Releases(i).size());
    for (int32_t r : script_.Emits(i)) {
      n += std::max(1, index_->reg(r).consumers_end - index_->reg(r).consumers_begin);
    }
    int reuse_edges = 0;
    for (int f = 0; f < index_->actor(id_).firings; ++f) {
      reuse_edges = std::max(
          reuse_edges, static_cast<int>(index_->ReuseFrom(index_->InstanceOf(id_, f, i)).size()));
    }
    most = std::max(most, n + reuse_edges);
  }
  return most;
}

void GrantStep(const ProgramIndex& index, int64_t step, MessageList* out) {
  for (size_t n = 0; n < index.consumers().size(); ++n) {
    const ProgramIndex::Consumer& consumer = index.consumers()[n];
    const ProgramIndex::Register& x = index.reg(consumer.reg);
    if (x.producer >= 0) continue;
    out->push_back(
        {Message::Kind::kReq, consumer.actor, static_cast<int32_t>(n), x.initial + step});
  }
}

}  // namespace sluice
