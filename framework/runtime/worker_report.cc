// What a worker tells of itself: where its actors stand, what it waits for, which instruction an
// error comes from. No message and no instruction passes here.
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/plan/kinds.h"
#include "framework/runtime/worker.h"

namespace sluice {

std::string Worker::WaitsFor() const {
  int32_t a = -1;
  const BlockedOn on = FindBlockedOn(&a);
  if (a < 0) return "";
  const ProgramState& state = *own_[program_].state;
  const ProgramIndex& index = state.index();
  const Actor& actor = state.actor(a);
  const std::string what =
      on.kind == BlockedOn::kToken  ? "a token of " + index.RegisterName(on.index)
      : on.kind == BlockedOn::kSlot ? "a slot of " + index.RegisterName(on.index)
                                    : "bytes of " + index.ActorName(on.actor);
  return absl::StrCat(index.Describe(a, actor.firing(), actor.cursor()), " of step ", actor.step(),
                      " waits for ", what);
}

absl::Status Worker::Explain(const absl::Status& status, int program, const Actor& actor,
                             int32_t number) const {
  const LoadedProgram& loaded = *own_[program].loaded;
  const plan::Instruction& instruction = loaded.index().instruction(actor.id(), number);
  const std::string rank =
      setup_.link == nullptr ? "" : absl::StrCat("rank ", setup_.link->rank(), ", ");
  return AddContext(
      status, absl::StrCat(rank, "program ", loaded.program().name(), ", step ", context_.step,
                           ", device ", loaded.index().device_of(actor.id()), ", ",
                           instruction.scope(), " (", InstructionName(instruction), ")"));
}

// For those who watch; nothing that runs asks for it.
void Worker::Report(int64_t number) {
  std::vector<std::vector<ActorState>> states(own_.size());
  for (size_t p = 0; p < own_.size(); ++p) {
    const Own& own = own_[p];
    const ProgramIndex& index = own.state->index();
    const auto add = [&](int32_t a) {
      const Actor& actor = own.state->actor(a);
      ActorState state;
      state.actor = a;
      state.firing = actor.firing();
      state.step = actor.step();
      state.micro = actor.micro();
      state.instruction = actor.cursor();
      const bool listed = index.listed(actor.stream());
      state.has_turn = !listed || own.state->order(actor.stream()).actor() == a;
      if (!actor.Done()) {
        state.kind =
            actor.FindMissing(&state.wait) ? ActorState::Kind::kMissing : ActorState::Kind::kReady;
      }
      states[p].push_back(state);
    };
    for (const int32_t a : own.actors) add(a);
    for (const int32_t a : own.readers) add(a);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  states_ = std::move(states);
  reported_ = number;
}

std::optional<std::vector<std::vector<ActorState>>> Worker::States(int64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (reported_ != number) return std::nullopt;
  return states_;
}

// What the first stream that cannot run is waiting for; kStep where all have ended.
BlockedOn Worker::FindBlockedOn(int32_t* actor) const {
  const ProgramState& state = *own_[program_].state;
  const ProgramIndex& index = state.index();
  for (const int32_t stream : own_[program_].streams) {
    for (const int32_t a : index.StreamActors(stream)) {
      const bool listed = index.listed(stream);
      if (listed && state.order(stream).actor() != a) continue;
      ProgramIndex::Wait wait;
      if (!state.actor(a).FindMissing(&wait)) continue;
      *actor = a;
      const BlockedOn on = BlockedOnOf(wait);
      if (on.kind != BlockedOn::kNothing) return on;
    }
  }
  return {BlockedOn::kStep, -1, -1};
}

}  // namespace sluice
