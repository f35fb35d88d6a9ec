// What a program's scripts imply, as dense tables: who reads which register and how often, where
// tokens are taken and given, what an instruction waits for. It is derived from the scripts alone,
// once, and it is the one definition of the protocol: actors, proof, clock and packing all read it,
// by array index. Immutable after Build, but for ReadReuseEdges; any thread. Refers to the program,
// which must outlive it.
//
// Words. An *instance* is an instruction of one firing of an actor; firings count from the start of
// the run. Token t of a register is *sequence number* j of its ring and lies in slot j mod slots; a
// register alone is a ring of one. A *consumer* is one actor's use of one register it does not
// write at that place. An *ack count* is one actor's count of acks for the slots of one ring.
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
    int32_t stream, firings, length;  // firings a step; instructions of the script
    int32_t priority;
    int32_t first_instruction;  // of the flat numbering of all scripts
    int32_t first_instance;  // of a step: instance = first_instance + firing * length + instruction
    int32_t consumers_begin, consumers_end;  // in actor_consumers
    int32_t ack_counts_begin, ack_counts_end;
    int32_t reuse_edges_in;  // reuse edges that end at this actor
  };
  // The token of firing f is f / serves + offset. It is required at `first`, given back at `last`.
  struct Consumer {
    int32_t reg, actor, first, last, serves, offset;
    int32_t local;  // among the consumers of its actor
    Divisor by_serves;
  };
  struct Register {
    int32_t producer;  // -1: the session, one token a step
    int32_t first_write, last_write;
    int32_t every, initial, quota;
    int32_t tokens;  // emitted in one step
    int32_t consumers_begin, consumers_end;
    int32_t ring;
    int32_t places_begin, places;  // its places in the ring's round
    bool updated, late_own_consumer;
    bool alone;                  // in its ring: its token t is sequence number t
    int32_t ack_count;           // of its producer for the ring; -1 if that is the session
    Divisor by_every, by_slots;  // of firings, of sequence numbers
  };
  struct Ring {
    int32_t slots, places_begin, places;  // a round of sequence numbers
    int32_t explicit_ring;                // index into Program.rings, or -1
    Divisor by_places;
  };
  // One place of a ring's round.
  struct RingPlace {
    int32_t reg, occurrence;  // it is the register's occurrence-th place of the round
    int32_t ack_count;        // of the register's producer; -1 if that is the session
  };
  struct AckCount {
    int32_t ring, actor;
    int32_t slot_base;  // of the actor's counters
    Divisor by_slots;
  };
  struct OperandUse {
    int32_t reg;      // -1: a temporary
    int32_t offset;   // of a read: the consumer's
    int32_t divisor;  // token = firing / divisor + offset
  };
  struct Token {
    int32_t reg;
    int64_t token;
  };
  enum class WaitKind { kScript, kToken, kSlot, kReuse, kOrder, kCollective };
  // What an instance waits for: an earlier instance. `what` is a register, a register (whose slot),
  // a reuse edge, a stream.
  struct Wait {
    WaitKind kind;
    int32_t what;
    int32_t actor;
    int64_t firing;
    int32_t instruction;
  };

  // InvalidArgument names what refers to nothing, or a register with two producers.
  static absl::StatusOr<ProgramIndex> Build(const plan::Program& program);
  // Takes over the reuse edges that the program has by now. Packing replaces them and nothing else
  // that stands here, and to build all of it again is 4 % of compiling a rank's plan.
  // InvalidArgument names an edge that ends at no instance.
  absl::Status ReadReuseEdges();

  const plan::Program& program() const { return *program_; }
  int num_actors() const { return static_cast<int>(actors_.size()); }
  int num_registers() const { return static_cast<int>(registers_.size()); }
  int num_rings() const { return static_cast<int>(rings_.size()); }
  int num_streams() const { return program_->streams_size(); }
  int num_instances() const { return num_instances_; }  // of one step
  int num_ack_counts() const { return static_cast<int>(ack_counts_.size()); }
  absl::Span<const Consumer> consumers() const { return consumers_; }

  const Actor& actor(int a) const { return actors_[a]; }
  const Register& reg(int r) const { return registers_[r]; }
  const Consumer& consumer(int i) const { return consumers_[i]; }
  const Ring& ring(int q) const { return rings_[q]; }
  const AckCount& ack_count(int c) const { return ack_counts_[c]; }
  int32_t AckCountOf(int r) const { return registers_[r].ack_count; }  // the producer's
  const plan::Instruction& instruction(int a, int i) const { return program_->actors(a).script(i); }
  // How long it is thought to take; at least 0.
  int64_t Nanoseconds(int a, int i) const { return nanoseconds_[Flat(a, i)]; }
  plan::StreamKind stream_kind(int s) const { return program_->streams(s).kind(); }
  int device_of(int a) const { return program_->streams(actors_[a].stream).device(); }
  bool listed(int stream) const { return program_->streams(stream).order_size() > 0; }

  // Of instruction i of actor a, as indices: consumers that it is the first or last use of,
  // registers whose slot it takes or whose token it emits, and its operands, inputs first.
  enum Use : uint8_t {
    kRequires = 1,
    kAcquires = 2,
    kReuseInto = 4,
    kEmits = 8,
    kReleases = 16,
    kReuseFrom = 32,
    kWaits = kRequires | kAcquires | kReuseInto,                            // may have to wait
    kExchanges = kAcquires | kReuseInto | kEmits | kReleases | kReuseFrom,  // changes counts
  };
  class Script {
   public:
    absl::Span<const int32_t> Requires(int i) const { return List(4 * i); }
    absl::Span<const int32_t> Acquires(int i) const { return List(4 * i + 1); }
    absl::Span<const int32_t> Emits(int i) const { return List(4 * i + 2); }
    absl::Span<const int32_t> Releases(int i) const { return List(4 * i + 3); }
    // What instruction i, in any firing, has to do with tokens, as a set of Use; mostly nothing.
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
  absl::Span<const int32_t> ConsumersOf(int a) const {
    return absl::MakeConstSpan(actor_consumers_)
        .subspan(actors_[a].consumers_begin, actors_[a].consumers_end - actors_[a].consumers_begin);
  }
  absl::Span<const int32_t> StreamActors(int s) const { return stream_actors_.Of(s); }
  // Reuse edges that end or begin at an instance of a step, and a reuse edge's number among its
  // actor's.
  absl::Span<const int32_t> ReuseInto(int instance) const { return reuse_into_.Of(instance); }
  absl::Span<const int32_t> ReuseFrom(int instance) const { return reuse_from_.Of(instance); }
  int32_t reuse_local(int reuse_edge) const { return reuse_local_[reuse_edge]; }
  int32_t reuse_target(int reuse_edge) const {
    return reuse_target_[reuse_edge];
  }  // the actor it ends at
  // The members of a collective, or nothing: flat instances are found by actor and instruction.
  struct Member {
    int32_t actor, instruction;
  };
  int num_collectives() const { return static_cast<int>(collectives_.size()); }
  absl::Span<const Member> Members(int collective) const { return collectives_[collective]; }
  int32_t CollectiveOf(int a, int i) const { return collective_of_[Flat(a, i)]; }

  int32_t InstanceOf(int a, int64_t firing_in_step, int i) const {
    return static_cast<int32_t>(actors_[a].first_instance + firing_in_step * actors_[a].length + i);
  }
  struct Instance {
    int32_t actor, firing, instruction;
  };
  int32_t ActorOf(int32_t instance) const { return instance_actor_[instance]; }
  Instance InstanceAt(int32_t instance) const {
    const int32_t a = ActorOf(instance), n = instance - actors_[a].first_instance;
    return {a, n / actors_[a].length, n % actors_[a].length};
  }

  int64_t SequenceOf(int r, int64_t token) const {
    const Register& x = registers_[r];
    if (x.alone) return token;
    const Ring& q = rings_[x.ring];
    return token / x.places * q.places + occurrences_[x.places_begin + token % x.places];
  }
  int32_t SlotOf(int r, int64_t token) const {
    const Divisor& slots = registers_[r].by_slots;
    return slots.value() == 1 ? 0 : slots.Remainder(SequenceOf(r, token));
  }
  const RingPlace& PlaceOf(int q, int64_t sequence) const {
    return places_[rings_[q].places_begin + rings_[q].by_places.Remainder(sequence)];
  }
  Token TokenAt(int q, int64_t sequence) const {
    const RingPlace& place = PlaceOf(q, sequence);
    return {place.reg, rings_[q].by_places.Quotient(sequence) * registers_[place.reg].places +
                           place.occurrence};
  }
  // Acks that free a token's slot: one a reader, or the writer's own if nobody reads it.
  int32_t ReleasesOf(int r, int64_t token) const {
    const Register& x = registers_[r];
    const int32_t n = x.consumers_end - x.consumers_begin;
    if (n == 0) return token >= x.initial ? 1 : 0;
    return n - (x.late_own_consumer && token < x.initial ? 1 : 0);
  }
  int64_t TokenOf(const Consumer& consumer, int64_t firing) const {
    return consumer.by_serves.Quotient(firing) + consumer.offset;
  }
  // What the program says of where slots begin in the memory of the register's device: of each slot
  // of its ring, or nothing yet.
  const google::protobuf::RepeatedField<int64_t>& SlotOffsets(int r) const;
  int64_t SlotOffset(int r, int32_t slot) const;  // 0 where it says nothing

  // Calls fn(Wait) for all that an instance waits for; firings are absolute, and so those of the
  // waits. Peers of a collective are not among them.
  template <typename F>
  void ForEachWait(int a, int64_t firing, int i, F&& fn) const;
  // Calls fn(actor, firing, instruction) for each instance that together frees a token's slot.
  template <typename F>
  void ForEachRelease(int r, int64_t token, F&& fn) const;

  // In the user's words: `actor "F0" (gpt/block0), instruction 2 "matmul", micro-batch 3`.
  std::string Describe(int a, int64_t firing, int i) const;
  std::string RegisterName(int r) const;
  std::string ActorName(int a) const;
  std::string StreamName(int s) const;

 private:
  struct Lists {  // several short lists in one array
    std::vector<int32_t> begin, items;
    absl::Span<const int32_t> Of(int i) const {
      return absl::MakeConstSpan(items).subspan(begin[i], begin[i + 1] - begin[i]);
    }
    // Item n goes into list list_of[n].
    void Fill(int32_t lists, const std::vector<int32_t>& list_of);
  };
  friend class ProgramIndexBuilder;

  bool HasInstance(int32_t a, int32_t firing, int32_t i) const {
    return a >= 0 && a < num_actors() && firing >= 0 && firing < actors_[a].firings && i >= 0 &&
           i < actors_[a].length;
  }
  void FillTokenUses();
  int32_t Flat(int a, int i) const { return actors_[a].first_instruction + i; }

  const plan::Program* program_ = nullptr;
  std::vector<Actor> actors_;
  std::vector<Register> registers_;
  std::vector<Consumer> consumers_;
  std::vector<Ring> rings_;
  std::vector<RingPlace> places_;
  std::vector<AckCount> ack_counts_;
  std::vector<int32_t> occurrences_, actor_consumers_, reuse_local_, reuse_target_, instance_actor_;
  Lists stream_actors_, reuse_into_, reuse_from_;
  std::vector<int32_t> tokens_, tokens_begin_;  // by instruction: four lists side by side
  std::vector<uint8_t> token_uses_;
  std::vector<int64_t> nanoseconds_;
  std::vector<OperandUse> operands_;
  std::vector<int32_t> operand_begin_, collective_of_, order_previous_;
  std::vector<std::vector<Member>> collectives_;
  int32_t num_instances_ = 0;
};

template <typename F>
void ProgramIndex::ForEachRelease(int r, int64_t token, F&& fn) const {
  const Register& x = registers_[r];
  for (int n = x.consumers_begin; n < x.consumers_end; ++n) {
    const Consumer& consumer = consumers_[n];
    if (token < consumer.offset) continue;
    fn(consumer.actor, (token - consumer.offset + 1) * consumer.serves - 1, consumer.last);
  }
  if (x.consumers_begin == x.consumers_end && token >= x.initial) {
    fn(x.producer, (token - x.initial + 1) * x.every - 1, x.last_write);
  }
}

template <typename F>
void ProgramIndex::ForEachWait(int a, int64_t firing, int i, F&& fn) const {
  const Actor& actor = actors_[a];
  if (i > 0) {
    fn(Wait{WaitKind::kScript, a, a, firing, i - 1});
  } else if (firing > 0) {
    fn(Wait{WaitKind::kScript, a, a, firing - 1, actor.length - 1});
  }
  for (int32_t n : Requires(a, i)) {
    const Consumer& consumer = consumers_[n];
    const Register& x = registers_[consumer.reg];
    const int64_t emitted = TokenOf(consumer, firing) - x.initial;
    if (x.producer < 0 || emitted < 0) continue;
    fn(Wait{WaitKind::kToken, consumer.reg, x.producer, (emitted + 1) * x.every - 1, x.last_write});
  }
  for (int32_t r : Acquires(a, i)) {
    const Register& x = registers_[r];
    if (firing % x.every != 0) continue;
    const int64_t sequence = SequenceOf(r, x.initial + firing / x.every) - rings_[x.ring].slots;
    if (sequence < 0) continue;
    const Token freed = TokenAt(x.ring, sequence);
    ForEachRelease(freed.reg, freed.token, [&](int32_t b, int64_t g, int32_t j) {
      fn(Wait{WaitKind::kSlot, freed.reg, b, g, j});
    });
  }
  const int64_t step = firing / actor.firings;
  const int32_t instance = InstanceOf(a, firing % actor.firings, i);
  for (int32_t n : ReuseInto(instance)) {
    const plan::ReuseEdge& reuse_edge = program_->reuse_edges(n);
    const int64_t of = step - (reuse_edge.wraps() ? 1 : 0);
    if (of < 0) continue;
    const int32_t b = reuse_edge.after().actor();
    fn(Wait{WaitKind::kReuse, n, b, reuse_edge.after().firing() + of * actors_[b].firings,
            reuse_edge.after().instruction()});
  }
  if (const int32_t previous = order_previous_[instance]; previous != 0) {
    // Above 0: the previous schedule entry's last instance + 1; below: the same, of the step
    // before.
    const int64_t of = step - (previous < 0 ? 1 : 0);
    if (of < 0) return;
    const Instance e = InstanceAt((previous < 0 ? -previous : previous) - 1);
    fn(Wait{WaitKind::kOrder, actor.stream, e.actor, e.firing + of * actors_[e.actor].firings,
            e.instruction});
  }
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_PROGRAM_INDEX_H_
