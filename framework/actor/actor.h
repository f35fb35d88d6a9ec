// An Actor runs a script by counting: tokens that have arrived, slots that are free, passes. It is
// a pure state machine; it knows no thread, clock, socket or device, and there is one class of it.
// Executors deliver messages (On), run the instruction at the cursor once it is Ready, and Finish
// it: when it has run, or, on a device with fences, when it has been launched.
// Owned by one executor, used by one thread at a time; allocates only when it is built.
#ifndef SLUICE_FRAMEWORK_ACTOR_ACTOR_H_
#define SLUICE_FRAMEWORK_ACTOR_ACTOR_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "framework/actor/message.h"
#include "framework/plan/program_index.h"

namespace sluice {

class Actor {
 public:
  // The index must outlive the actor.
  Actor(const ProgramIndex* index, int32_t actor);

  void On(const Message& message);
  // Are all tokens of the instruction at the cursor there? The turn of the stream is not asked.
  bool Ready() const;
  // The instruction at the cursor has run: appends what others are to be told, with this fence, and
  // moves the cursor. What the actor owes itself it has got already. Requires Ready().
  void Finish(Fence fence, MessageList* out);

  int32_t id() const { return id_; }
  int64_t fire() const { return fire_; }  // since the start of the run
  int64_t step() const { return step_; }
  int32_t micro() const { return micro_; }    // fire of the step
  int32_t cursor() const { return cursor_; }  // instruction of the script
  int32_t event() const { return index_->EventOf(id_, micro_, cursor_); }
  const plan::Instruction& instruction() const { return index_->instruction(id_, cursor_); }

  // Runs no further than this many steps. Default: without end, for as long as tokens come.
  void set_step_limit(int64_t steps) { step_limit_ = steps; }
  bool Done() const { return step_ >= step_limit_; }

  // The slot that an operand of the instruction at the cursor lies in, inputs first; -1: a local.
  int32_t SlotOf(int operand) const {
    const ProgramIndex::OperandUse& use = index_->Operands(id_, cursor_)[operand];
    return use.reg < 0 ? -1 : index_->SlotOf(use.reg, fire_ / use.divisor + use.offset);
  }
  // Appends the fences, other than 0, that the instruction at the cursor has to wait for. Requires
  // Ready().
  void AppendFences(std::vector<Fence>* out) const;
  // The first thing missing, for traces and errors; false if Ready. At the end of the run: false.
  bool FindMissing(ProgramIndex::Wait* missing) const;
  // The most messages that one Finish appends.
  int MostMessages() const;

  // Counts, for the checks of tests: tokens of the n-th of ActorReadings; acks that lie in a slot.
  int64_t arrived(int reading_local) const { return arrived_[reading_local]; }
  int32_t acks(int32_t credit, int32_t slot) const {
    return acks_[index_->credit(credit).slot_base + slot];
  }

 private:
  int32_t AckCounter(int32_t credit, int64_t take) const;
  bool HasSlot(int32_t reg) const;
  void Consume();
  void Tell(const Message& message, MessageList* out);
  void Free(int32_t reg, int64_t token, Fence fence, MessageList* out);

  const ProgramIndex* index_;
  int32_t id_;
  int64_t fire_ = 0, step_ = 0;
  int32_t micro_ = 0, cursor_ = 0;
  int64_t step_limit_ = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> arrived_;  // by reading: tokens since the start
  std::vector<int32_t> acks_;     // by credit and slot, since the slot was last taken
  std::vector<int32_t> passes_;   // by pass into this actor: arrived and not used
  // Fences beside the counts: of a token by its slot, of acks by slot and order, of a pass its last
  // (a later fence of one stream implies the earlier ones).
  std::vector<int32_t> fence_base_;
  std::vector<Fence> token_fences_, ack_fences_, pass_fences_;
  int32_t ack_width_ = 1;
};

// Appends the tokens that the session grants for one step: those of registers without a producer.
void GrantStep(const ProgramIndex& index, int64_t step, MessageList* out);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_ACTOR_H_
