// All actors and stream orders of one program, so that executors count no tokens. Actors of
// different streams may be used by different threads; a stream and its actors by one at a time.
#ifndef SLUICE_FRAMEWORK_ACTOR_PROGRAM_STATE_H_
#define SLUICE_FRAMEWORK_ACTOR_PROGRAM_STATE_H_

#include <cstdint>
#include <vector>

#include "framework/actor/actor.h"
#include "framework/actor/stream_order.h"

namespace sluice {

class ProgramState {
 public:
  // The index, and the program it was built from, must outlive the state.
  explicit ProgramState(const ProgramIndex* index) : index_(index) {
    actors_.reserve(index->num_actors());
    for (int a = 0; a < index->num_actors(); ++a) actors_.emplace_back(index, a);
    for (const plan::Stream& stream : index->program().streams()) orders_.emplace_back(stream);
  }

  const ProgramIndex& index() const { return *index_; }
  Actor& actor(int a) { return actors_[a]; }
  const Actor& actor(int a) const { return actors_[a]; }
  const StreamOrder& order(int stream) const { return orders_[stream]; }

  void set_step_limit(int64_t steps) {
    for (Actor& actor : actors_) actor.set_step_limit(steps);
  }
  void Deliver(const Message& message) { actors_[message.to].On(message); }
  // Is it the actor's turn on its stream?
  bool HasTurn(int a) const {
    const Actor& x = actors_[a];
    return orders_[x.stream()].Allows(a, x.micro(), x.cursor());
  }
  bool CanRun(int a) const { return actors_[a].Ready() && HasTurn(a); }
  // The instruction at the actor's cursor has run: the actor moves on, and the stream's turn.
  // Returns the actor that has the turn now if that has changed, else -1.
  int32_t Finish(int a, Fence fence, MessageList* out) {
    Actor& actor = actors_[a];
    const int32_t instruction = actor.cursor();
    actor.Finish(fence, out);
    StreamOrder& order = orders_[actor.stream()];
    return order.Advance(instruction) ? order.actor() : -1;
  }
  bool Done() const {
    for (const Actor& actor : actors_) {
      if (!actor.Done()) return false;
    }
    return true;
  }

 private:
  const ProgramIndex* index_;
  std::vector<Actor> actors_;
  std::vector<StreamOrder> orders_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_PROGRAM_STATE_H_
