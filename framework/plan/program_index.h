// What a program's scripts imply, as dense tables: who reads which register and how often, where
// tokens are taken and given, what an instruction waits for. It is derived from the scripts alone,
// once, and it is the one definition of the protocol: actors, proof, clock and packing all read it,
// by array index. Immutable after Build; any thread. Refers to the program, which must outlive it.
//
// Words. An *event* is an instruction of one fire of an actor; fires count from the start of the
// run. Token t of a register is *take* j of its ring and lies in slot j mod slots; a register alone
// is a ring of one. A *reading* is one actor's use of one register it does not write at that place.
// A *credit* is one actor's count of acks for the slots of one ring.
#ifndef SLUICE_FRAMEWORK_PLAN_PROGRAM_INDEX_H_
#define SLUICE_FRAMEWORK_PLAN_PROGRAM_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/divisor.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

class ProgramIndex {
 public:
  struct Actor {
    int32_t stream, fires, length;  // fires a step; instructions of the script
    int32_t first_instruction;      // of the flat numbering of all scripts
    int32_t first_event;            // of a step: event = first_event + fire * length + instruction
    int32_t readings_begin, readings_end;  // in actor_readings
    int32_t credits_begin, credits_end;
    int32_t passes_in;  // passes that end at this actor
  };
  // The token of fire f is f / serves + offset. It is required at `first`, given back at `last`.
  struct Reading {
    int32_t reg, actor, first, last, serves, offset;
    int32_t local;  // among the readings of its actor
    Divisor by_serves;
  };
  struct Register {
    int32_t producer;  // -1: the session, one token a step
    int32_t first_write, last_write;
    int32_t every, initial, quota;
    int32_t tokens;  // emitted in one step
    int32_t readings_begin, readings_end;
    int32_t ring;
    int32_t takes_begin, takes;  // its places in the ring's round
    bool updated, late_own_reading;
    bool alone;                  // in its ring: its token t is take t
    int32_t credit;              // of its producer for the ring; -1 if that is the session
    Divisor by_every, by_slots;  // of fires, of takes
  };
  struct Ring {
    int32_t slots, takes_begin, takes;  // a round of takes
    int32_t explicit_ring;              // index into Program.rings, or -1
    Divisor by_takes;
  };
  // One place of a ring's round.
  struct Take {
    int32_t reg, occurrence;  // it is the register's occurrence-th take of the round
    int32_t credit;           // of the register's producer; -1 if that is the session
  };
  struct Credit {
    int32_t ring, actor;
    int32_t slot_base;  // of the actor's counters
    Divisor by_slots;
  };
  struct OperandUse {
    int32_t reg;      // -1: a local
    int32_t offset;   // of a read: the reading's
    int32_t divisor;  // token = fire / divisor + offset
  };
  struct Token {
    int32_t reg;
    int64_t token;
  };
  enum class WaitKind { kScript, kToken, kSlot, kPass, kTurn, kCollective };
  // What an event waits for: an earlier event. `what` is a register, a register (whose slot), a
  // pass, a stream.
  struct Wait {
    WaitKind kind;
    int32_t what;
    int32_t actor;
    int64_t fire;
    int32_t instruction;
  };

  // InvalidArgument names what refers to nothing, or a register with two producers.
  static absl::StatusOr<ProgramIndex> Build(const plan::Program& program);

  const plan::Program& program() const { return *program_; }
  int num_actors() const { return static_cast<int>(actors_.size()); }
  int num_registers() const { return static_cast<int>(registers_.size()); }
  int num_rings() const { return static_cast<int>(rings_.size()); }
  int num_streams() const { return program_->streams_size(); }
  int num_events() const { return num_events_; }  // of one step
  int num_credits() const { return static_cast<int>(credits_.size()); }
  absl::Span<const Reading> readings() const { return readings_; }

  const Actor& actor(int a) const { return actors_[a]; }
  const Register& reg(int r) const { return registers_[r]; }
  const Reading& reading(int i) const { return readings_[i]; }
  const Ring& ring(int q) const { return rings_[q]; }
  const Credit& credit(int c) const { return credits_[c]; }
  int32_t CreditOf(int r) const { return registers_[r].credit; }  // the producer's
  const plan::Instruction& instruction(int a, int i) const { return program_->actors(a).script(i); }
  const std::string& stream_kind(int s) const { return program_->streams(s).kind(); }
  int device_of(int a) const { return program_->streams(actors_[a].stream).device(); }
  bool listed(int stream) const { return program_->streams(stream).order_size() > 0; }

  // Of instruction i of actor a, as indices: readings that it is the first or last use of,
  // registers whose slot it takes or whose token it emits, and its operands, inputs first.
  enum Use : uint8_t {
    kRequires = 1,
    kAcquires = 2,
    kPassInto = 4,
    kEmits = 8,
    kReleases = 16,
    kPassFrom = 32,
    kWaits = kRequires | kAcquires | kPassInto,                           // may have to wait
    kExchanges = kAcquires | kPassInto | kEmits | kReleases | kPassFrom,  // changes counts
  };
  class Script {
   public:
    absl::Span<const int32_t> Requires(int i) const { return List(4 * i); }
    absl::Span<const int32_t> Acquires(int i) const { return List(4 * i + 1); }
    absl::Span<const int32_t> Emits(int i) const { return List(4 * i + 2); }
    absl::Span<const int32_t> Releases(int i) const { return List(4 * i + 3); }
    // What instruction i, in any fire, has to do with tokens, as a set of Use; mostly nothing.
    uint8_t Uses(int i) const { return uses_[i]; }

   private:
    friend class ProgramIndex;
    absl::Span<const int32_t> List(int n) const {
      return {items_ + begin_[n], static_cast<size_t>(begin_[n + 1] - begin_[n])};
    }
    const int32_t* begin_;
    const int32_t* items_;
    const uint8_t* uses_;
  };
  Script ScriptOf(int a) const {
    Script script;
    script.begin_ = tokens_begin_.data() + 4 * Flat(a, 0);
    script.items_ = tokens_.data();
    script.uses_ = token_uses_.data() + Flat(a, 0);
    return script;
  }
  absl::Span<const int32_t> Requires(int a, int i) const { return ScriptOf(a).Requires(i); }
  absl::Span<const int32_t> Acquires(int a, int i) const { return ScriptOf(a).Acquires(i); }
  absl::Span<const int32_t> Emits(int a, int i) const { return ScriptOf(a).Emits(i); }
  absl::Span<const int32_t> Releases(int a, int i) const { return ScriptOf(a).Releases(i); }
  absl::Span<const OperandUse> Operands(int a, int i) const {
    const int32_t flat = Flat(a, i);
    return absl::MakeConstSpan(operands_).subspan(operand_begin_[flat],
                                                  operand_begin_[flat + 1] - operand_begin_[flat]);
  }
  absl::Span<const int32_t> ActorReadings(int a) const {
    return absl::MakeConstSpan(actor_readings_)
        .subspan(actors_[a].readings_begin, actors_[a].readings_end - actors_[a].readings_begin);
  }
  absl::Span<const int32_t> StreamActors(int s) const { return stream_actors_.Of(s); }
  // Passes that end or begin at an event of a step, and a pass's number among its actor's.
  absl::Span<const int32_t> PassesInto(int event) const { return passes_into_.Of(event); }
  absl::Span<const int32_t> PassesFrom(int event) const { return passes_from_.Of(event); }
  int32_t pass_local(int pass) const { return pass_local_[pass]; }
  int32_t pass_target(int pass) const { return pass_target_[pass]; }  // the actor it ends at
  // The members of a collective, or nothing: flat events are found by actor and instruction.
  struct Member {
    int32_t actor, instruction;
  };
  int num_collectives() const { return static_cast<int>(collectives_.size()); }
  absl::Span<const Member> Members(int collective) const { return collectives_[collective]; }
  int32_t CollectiveOf(int a, int i) const { return collective_of_[Flat(a, i)]; }

  int32_t EventOf(int a, int64_t fire_in_step, int i) const {
    return static_cast<int32_t>(actors_[a].first_event + fire_in_step * actors_[a].length + i);
  }
  struct Event {
    int32_t actor, fire, instruction;
  };
  Event EventAt(int32_t event) const {
    const int32_t a = event_actor_[event], n = event - actors_[a].first_event;
    return {a, n / actors_[a].length, n % actors_[a].length};
  }

  int64_t TakeOf(int r, int64_t token) const {
    const Register& x = registers_[r];
    if (x.alone) return token;
    const Ring& q = rings_[x.ring];
    return token / x.takes * q.takes + occurrences_[x.takes_begin + token % x.takes];
  }
  int32_t SlotOf(int r, int64_t token) const {
    const Divisor& slots = registers_[r].by_slots;
    return slots.value() == 1 ? 0 : slots.Remainder(TakeOf(r, token));
  }
  const Take& PlaceOf(int q, int64_t take) const {
    return takes_[rings_[q].takes_begin + rings_[q].by_takes.Remainder(take)];
  }
  Token TakerOf(int q, int64_t take) const {
    const Take& place = PlaceOf(q, take);
    return {place.reg,
            rings_[q].by_takes.Quotient(take) * registers_[place.reg].takes + place.occurrence};
  }
  // Acks that free a token's slot: one a reader, or the writer's own if nobody reads it.
  int32_t ReleasesOf(int r, int64_t token) const {
    const Register& x = registers_[r];
    const int32_t n = x.readings_end - x.readings_begin;
    if (n == 0) return token >= x.initial ? 1 : 0;
    return n - (x.late_own_reading && token < x.initial ? 1 : 0);
  }
  int64_t TokenOf(const Reading& reading, int64_t fire) const {
    return reading.by_serves.Quotient(fire) + reading.offset;
  }
  // The offset in the memory of the register's device.
  int64_t SlotOffset(int r, int32_t slot) const;

  // Calls fn(Wait) for all that an event waits for; fires are absolute, and so those of the waits.
  // Peers of a collective are not among them.
  template <typename F>
  void ForEachWait(int a, int64_t fire, int i, F&& fn) const;
  // Calls fn(actor, fire, instruction) for each event that together frees a token's slot.
  template <typename F>
  void ForEachRelease(int r, int64_t token, F&& fn) const;

  // In the user's words: `actor "F0" (gpt/block0), instruction 2 "matmul", micro-batch 3`.
  std::string Describe(int a, int64_t fire, int i) const;
  std::string RegisterName(int r) const;
  std::string ActorName(int a) const;
  std::string StreamName(int s) const;

 private:
  struct Lists {  // several short lists in one array
    std::vector<int32_t> begin, items;
    absl::Span<const int32_t> Of(int i) const {
      return absl::MakeConstSpan(items).subspan(begin[i], begin[i + 1] - begin[i]);
    }
    void Fill(const std::vector<std::vector<int32_t>>& lists);
    // Item n goes into list list_of[n].
    void Fill(int32_t lists, const std::vector<int32_t>& list_of);
  };
  friend class ProgramIndexBuilder;

  int32_t Flat(int a, int i) const { return actors_[a].first_instruction + i; }

  const plan::Program* program_ = nullptr;
  std::vector<Actor> actors_;
  std::vector<Register> registers_;
  std::vector<Reading> readings_;
  std::vector<Ring> rings_;
  std::vector<Take> takes_;
  std::vector<Credit> credits_;
  std::vector<int32_t> occurrences_, actor_readings_, pass_local_, pass_target_, event_actor_;
  Lists stream_actors_, passes_into_, passes_from_;
  std::vector<int32_t> tokens_, tokens_begin_;  // by instruction: four lists side by side
  std::vector<uint8_t> token_uses_;
  std::vector<OperandUse> operands_;
  std::vector<int32_t> operand_begin_, collective_of_, turn_previous_;
  std::vector<std::vector<Member>> collectives_;
  int32_t num_events_ = 0;
};

template <typename F>
void ProgramIndex::ForEachRelease(int r, int64_t token, F&& fn) const {
  const Register& x = registers_[r];
  for (int n = x.readings_begin; n < x.readings_end; ++n) {
    const Reading& reading = readings_[n];
    if (token < reading.offset) continue;
    fn(reading.actor, (token - reading.offset + 1) * reading.serves - 1, reading.last);
  }
  if (x.readings_begin == x.readings_end && token >= x.initial) {
    fn(x.producer, (token - x.initial + 1) * x.every - 1, x.last_write);
  }
}

template <typename F>
void ProgramIndex::ForEachWait(int a, int64_t fire, int i, F&& fn) const {
  const Actor& actor = actors_[a];
  if (i > 0) {
    fn(Wait{WaitKind::kScript, a, a, fire, i - 1});
  } else if (fire > 0) {
    fn(Wait{WaitKind::kScript, a, a, fire - 1, actor.length - 1});
  }
  for (int32_t n : Requires(a, i)) {
    const Reading& reading = readings_[n];
    const Register& x = registers_[reading.reg];
    const int64_t emitted = TokenOf(reading, fire) - x.initial;
    if (x.producer < 0 || emitted < 0) continue;
    fn(Wait{WaitKind::kToken, reading.reg, x.producer, (emitted + 1) * x.every - 1, x.last_write});
  }
  for (int32_t r : Acquires(a, i)) {
    const Register& x = registers_[r];
    if (fire % x.every != 0) continue;
    const int64_t take = TakeOf(r, x.initial + fire / x.every) - rings_[x.ring].slots;
    if (take < 0) continue;
    const Token freed = TakerOf(x.ring, take);
    ForEachRelease(freed.reg, freed.token, [&](int32_t b, int64_t g, int32_t j) {
      fn(Wait{WaitKind::kSlot, freed.reg, b, g, j});
    });
  }
  const int64_t step = fire / actor.fires;
  const int32_t event = EventOf(a, fire % actor.fires, i);
  for (int32_t n : PassesInto(event)) {
    const plan::Pass& pass = program_->passes(n);
    const int64_t of = step - (pass.wraps() ? 1 : 0);
    if (of < 0) continue;
    const int32_t b = pass.after().actor();
    fn(Wait{WaitKind::kPass, n, b, pass.after().fire() + of * actors_[b].fires,
            pass.after().instruction()});
  }
  if (const int32_t previous = turn_previous_[event]; previous != 0) {
    // Above 0: the previous turn's last event + 1; below: the same, of the step before.
    const int64_t of = step - (previous < 0 ? 1 : 0);
    if (of < 0) return;
    const Event e = EventAt((previous < 0 ? -previous : previous) - 1);
    fn(Wait{WaitKind::kTurn, actor.stream, e.actor, e.fire + of * actors_[e.actor].fires,
            e.instruction});
  }
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_PROGRAM_INDEX_H_
