// An Actor runs a script by counting: tokens that have arrived, slots that are free, reuse edges.
// It is a pure state machine; it knows no thread, clock, socket or device, and there is one class
// of it. Executors deliver messages (On), run the instruction at the cursor once it is Ready, and
// Finish it: when it has run, or, on a device with fences, when it has been launched. Owned by one
// executor, used by one thread at a time; allocates only when it is built.
#ifndef SLUICE_FRAMEWORK_ACTOR_ACTOR_H_
#define SLUICE_FRAMEWORK_ACTOR_ACTOR_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "framework/actor/message.h"
#include "framework/plan/program_index.h"

namespace sluice {

// On cache lines of its own, with all that it counts: another thread has the next.
class alignas(64) Actor {
 public:
  // The index must outlive the actor.
  Actor(const ProgramIndex* index, int32_t actor);

  void On(const Message& message);
  // Is all that the instruction at the cursor waits for there? The turn of the stream is not asked.
  bool Ready() const { return blocked_on_.count < 0 && !Done(); }
  // The instruction at the cursor has run: appends what others are to be told, with this fence, and
  // moves the cursor. What the actor owes itself it has got already. Requires Ready().
  void Finish(Fence fence, MessageList* out) {
    if ((script_.Uses(cursor_) & ProgramIndex::kExchanges) != 0) Exchange(fence, out);
    if (++cursor_ == length_) NextFiring();
    waits_met_ = 0;
    if ((script_.Uses(cursor_) & ProgramIndex::kWaits) != 0) FindBlockedOn();
  }

  int32_t id() const { return id_; }
  int32_t stream() const { return stream_; }
  int64_t firing() const { return firing_; }  // since the start of the run
  int64_t step() const { return step_; }
  int32_t micro() const { return micro_; }    // firing of the step
  int32_t cursor() const { return cursor_; }  // instruction of the script
  int32_t instance() const { return InstanceOf(cursor_); }
  const plan::Instruction& instruction() const { return index_->instruction(id_, cursor_); }

  // Runs no further than this many steps. Default: without end, for as long as tokens come.
  void set_step_limit(int64_t steps) { step_limit_ = steps; }
  bool Done() const { return step_ >= step_limit_; }

  // The slot that an operand of the instruction at the cursor lies in, inputs first; -1: a
  // temporary.
  int32_t SlotOf(int operand) const {
    const ProgramIndex::OperandUse& use = index_->Operands(id_, cursor_)[operand];
    return use.reg < 0 ? -1 : index_->SlotOf(use.reg, firing_ / use.divisor + use.offset);
  }
  // Are the slots and reuse edges free that an instruction of this firing takes, at the cursor or
  // behind it, where what it takes is of earlier steps?
  bool CanTake(int32_t instruction) const;
  // Appends the fences, other than 0, that an instruction has to wait for: the one at the cursor,
  // or one behind it. Requires that it is Ready(), or CanTake() and lacks nothing else.
  void AppendFences(int32_t instruction, std::vector<Fence>* out) const;
  // The first thing missing, for traces and errors; false if Ready. At the end of the run: false.
  bool FindMissing(ProgramIndex::Wait* missing) const;
  // The most messages that one Finish appends.
  int MostMessages() const;

  // Counts, for the checks of tests: tokens of the n-th of ConsumersOf; acks that lie in a slot.
  int64_t arrived(int consumer_local) const { return counts_[kPadding + consumer_local]; }
  int32_t acks(int32_t ack_count, int32_t slot) const {
    return static_cast<int32_t>(counts_[acks_ + index_->ack_count(ack_count).slot_base + slot]);
  }

 private:
  // Words at both ends of the counts, so that no cache line of theirs holds anything else.
  static constexpr int32_t kPadding = 8;

  int32_t InstanceOf(int32_t instruction) const {
    return first_instance_ + micro_ * length_ + instruction;
  }
  // Of an actor's slots: which one a sequence number lies in.
  int32_t SlotOfSequence(int32_t ack_count, int64_t sequence) const {
    const ProgramIndex::AckCount& x = index_->ack_count(ack_count);
    return x.slot_base + x.by_slots.Remainder(sequence);
  }
  // The sequence number of the token that this firing makes; -1: an earlier firing made it.
  int64_t SequenceAt(int32_t reg) const;
  ProgramIndex::Token TokenBefore(int32_t reg, int64_t sequence) const;
  // How far one of the counts has to come.
  struct Need {
    int32_t count = -1;
    int64_t value = 0;
  };
  Need NeedOfConsumer(int32_t consumer) const;
  Need NeedOfSlot(int32_t reg) const;
  void FindBlockedOn();
  void KeepFence(const Message& message);
  // Takes the slots and reuse edges of the instruction at the cursor, and tells what it gives.
  void Exchange(Fence fence, MessageList* out);
  void Consume();
  void NextFiring();
  void Tell(Message::Kind kind, int32_t to, int32_t index, int64_t sequence, Fence fence,
            MessageList* out);
  void Emit(int32_t reg, Fence fence, MessageList* out);
  void Free(int32_t reg, int64_t token, Fence fence, MessageList* out);

  const ProgramIndex* index_;
  int32_t id_;
  int64_t firing_ = 0, step_ = 0;
  int32_t micro_ = 0, cursor_ = 0;
  int32_t stream_;
  int32_t length_;  // of the script
  int32_t first_instance_;
  ProgramIndex::Script script_;
  int64_t step_limit_ = std::numeric_limits<int64_t>::max();
  // From kPadding on, tokens that arrived since the start, by consumer; from acks_ on, acks since a
  // slot was last taken, by ack count and slot; from reuse_edges_ on, reuse edges that arrived and
  // are not used.
  std::vector<int64_t> counts_;
  int32_t acks_ = 0, reuse_edges_ = 0;
  // Of what the instruction at the cursor waits for, in the order consumers, slots, reuse edges: so
  // many are met, and the next lacks this; count -1: nothing lacks. Counts only grow while an actor
  // waits, so that each wait is looked at once.
  int32_t waits_met_ = 0;
  Need blocked_on_;
  bool fenced_ = false;  // a fence other than 0 has come
  // Fences beside the counts: from fence_base_ of a consumer on, of a token by its slot; from
  // ack_fences_ on, of acks by slot and order; from reuse_fences_ on, of a reuse edge its last (a
  // later fence of one stream implies the earlier ones).
  std::vector<int32_t> fence_base_;
  std::vector<Fence> fences_;
  int32_t ack_fences_ = 0, reuse_fences_ = 0;
  int32_t ack_width_ = 1;
};

// Appends the tokens that the session grants for one step: those of registers without a producer.
void GrantStep(const ProgramIndex& index, int64_t step, MessageList* out);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_ACTOR_H_
