#include "framework/plan/program_index.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/plan/kinds.h"

namespace sluice {
namespace {

// A few bytes of a plan can ask for any number of instances and slots; tables are made for so many.
constexpr int64_t kMostInstances = int64_t{1} << 24;
constexpr int64_t kMostSlots = int64_t{1} << 24;

absl::Status Bad(const plan::Program& program, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("program \"", program.name(), "\": ", what));
}

enum class Access : uint8_t { kRead, kUpdate, kOutput };
// What the index wants to know of an operand, several times: the messages lie scattered in memory,
// and to go through all of them once costs as much as all else that is done here.
struct Operand {
  int32_t reg;  // -1: a temporary
  Access access;
};

// Where one actor touches one register.
struct Touch {
  int32_t reg;
  // Instructions; -1: none. Reads are those that take a token.
  int32_t first_read = -1, last_read = -1, first_write = -1, last_write = -1;
};

}  // namespace

void ProgramIndex::Lists::Fill(int32_t lists, const std::vector<int32_t>& list_of) {
  begin.assign(lists + 1, 0);
  items.assign(list_of.size(), 0);
  for (int32_t list : list_of) ++begin[list + 1];
  for (int32_t list = 0; list < lists; ++list) begin[list + 1] += begin[list];
  // begin[list + 1] is the cursor of a list, from its begin to its end.
  for (int32_t list = lists; list > 0; --list) begin[list] = begin[list - 1];
  for (size_t n = 0; n < list_of.size(); ++n) {
    items[begin[list_of[n] + 1]++] = static_cast<int32_t>(n);
  }
}

class ProgramIndexBuilder {
 public:
  explicit ProgramIndexBuilder(const plan::Program& program) : program_(program) {
    index_.program_ = &program;
  }

  absl::StatusOr<ProgramIndex> Build() {
    RETURN_IF_ERROR(CheckReferences());
    RETURN_IF_ERROR(CheckSizes());
    AddActors();
    AddRegisters();
    RETURN_IF_ERROR(AddTouches());
    RETURN_IF_ERROR(AddRings());
    AddConsumers();
    AddTokens();
    AddAckCounts();
    AddOperands();
    RETURN_IF_ERROR(AddEntries());
    RETURN_IF_ERROR(index_.ReadReuseEdges());
    return std::move(index_);
  }

 private:
  absl::Status CheckOperand(const plan::Operand& operand, int a, int i) const {
    if (operand.storage_case() == plan::Operand::kTemporary) {
      if (operand.temporary() >= 0 && operand.temporary() < program_.temporaries_size()) return {};
      return Bad(program_, absl::StrCat(index_.Describe(a, 0, i), " names temporary ",
                                        operand.temporary(), " of ", program_.temporaries_size()));
    }
    if (operand.storage_case() == plan::Operand::kRegister && operand.register_() >= 0 &&
        operand.register_() < program_.registers_size()) {
      return {};
    }
    return Bad(program_, absl::StrCat(index_.Describe(a, 0, i), " names register ",
                                      operand.register_(), " of ", program_.registers_size()));
  }

  absl::Status CheckReferences() {
    index_.operand_begin_ = {0};
    for (int a = 0; a < program_.actors_size(); ++a) {
      const plan::Actor& actor = program_.actors(a);
      const auto who = [&] { return absl::StrCat("actor \"", actor.name(), "\""); };
      if (actor.stream() < 0 || actor.stream() >= program_.streams_size()) {
        return Bad(program_, absl::StrCat(who(), " runs on stream ", actor.stream(), " of ",
                                          program_.streams_size()));
      }
      if (actor.firings_per_step() < 1) {
        return Bad(program_,
                   absl::StrCat(who(), " fires ", actor.firings_per_step(), " times a step"));
      }
      if (actor.script_size() == 0)
        return Bad(program_, absl::StrCat(who(), " has no instruction"));
      for (int i = 0; i < actor.script_size(); ++i) {
        for (const auto& x : actor.script(i).inputs()) {
          RETURN_IF_ERROR(CheckOperand(x, a, i));
          AddOperand(x, x.updates() ? Access::kUpdate : Access::kRead);
        }
        for (const auto& x : actor.script(i).outputs()) {
          RETURN_IF_ERROR(CheckOperand(x, a, i));
          AddOperand(x, Access::kOutput);
        }
        index_.operand_begin_.push_back(static_cast<int32_t>(operands_.size()));
        index_.nanoseconds_.push_back(std::max<int64_t>(0, actor.script(i).nanoseconds()));
      }
    }
    return CheckRegisters();
  }

  void AddOperand(const plan::Operand& operand, Access access) {
    const bool temporary = operand.storage_case() == plan::Operand::kTemporary;
    operands_.push_back({temporary ? -1 : operand.register_(), access});
  }

  absl::Status CheckRegisters() const {
    for (const plan::Register& x : program_.registers()) {
      if (x.producer() < -1 || x.producer() >= program_.actors_size()) {
        return Bad(program_, absl::StrCat("register \"", x.name(), "\" has producer ", x.producer(),
                                          " of ", program_.actors_size(), " actors"));
      }
      if (x.quota() < 1 || x.emit_every() < 0 || x.initial_tokens() < 0) {
        return Bad(program_, absl::StrCat("register \"", x.name(), "\" has quota ", x.quota(),
                                          ", is emitted every ", x.emit_every(), " fires and has ",
                                          x.initial_tokens(), " initial tokens"));
      }
    }
    return {};
  }

  absl::Status CheckSizes() const {
    int64_t instances = 0, slots = 0;
    for (const plan::Actor& x : program_.actors()) {
      instances += int64_t{x.firings_per_step()} * x.script_size();
      if (instances > kMostInstances) break;
    }
    for (const plan::Register& x : program_.registers()) slots += x.quota();
    // A ring counts once for each of its places: every producer has counters of all its slots.
    for (const plan::Ring& x : program_.rings()) {
      slots += int64_t{std::max(0, x.slots())} * x.registers_size();
    }
    if (instances > kMostInstances || slots > kMostSlots) {
      return Bad(program_, absl::StrCat("expected at most ", kMostInstances, " instances and ",
                                        kMostSlots, " slots, got more"));
    }
    return {};
  }

  void AddActors() {
    std::vector<int32_t> stream_of;
    int32_t instructions = 0, instances = 0;
    for (int a = 0; a < program_.actors_size(); ++a) {
      const plan::Actor& actor = program_.actors(a);
      ProgramIndex::Actor x{};
      x.stream = actor.stream();
      x.firings = actor.firings_per_step();
      x.length = actor.script_size();
      x.priority = actor.priority();
      x.first_instruction = instructions;
      x.first_instance = instances;
      instructions += x.length;
      instances += x.length * x.firings;
      index_.actors_.push_back(x);
      index_.instance_actor_.resize(instances, a);
      stream_of.push_back(x.stream);
    }
    index_.num_instances_ = instances;
    index_.stream_actors_.Fill(program_.streams_size(), stream_of);
    index_.collective_of_.assign(instructions, -1);
    std::map<int32_t, int32_t> number;  // of a plan -> dense
    for (int a = 0; a < program_.actors_size(); ++a) {
      for (int i = 0; i < index_.actors_[a].length; ++i) {
        const int32_t collective = program_.actors(a).script(i).collective();
        if (collective <= 0) continue;
        auto [it, fresh] = number.emplace(collective, index_.num_collectives());
        if (fresh) index_.collectives_.emplace_back();
        index_.collectives_[it->second].push_back({a, i});
        index_.collective_of_[index_.Flat(a, i)] = it->second;
      }
    }
  }

  void AddRegisters() {
    for (const plan::Register& x : program_.registers()) {
      ProgramIndex::Register r{};
      r.producer = x.producer();
      r.first_write = r.last_write = -1;
      r.every = std::max(1, x.emit_every());
      r.by_every = Divisor(r.every);
      r.initial = x.initial_tokens();
      r.quota = x.quota();
      r.tokens = r.producer < 0 ? 1 : index_.actors_[r.producer].firings / r.every;
      r.ring = r.ack_count = -1;
      index_.registers_.push_back(r);
    }
  }

  // Finds the uses of registers by actors, and checks that writers are producers. Writes come
  // first, as reads between them need no token.
  absl::Status AddTouches() {
    std::vector<int32_t> seen(program_.registers_size(), -1), place(program_.registers_size(), 0);
    touches_begin_ = {0};
    for (int a = 0; a < program_.actors_size(); ++a) {
      const auto touch = [&](int32_t r) -> Touch& {
        if (seen[r] != a) {
          seen[r] = a;
          place[r] = static_cast<int32_t>(touches_.size());
          touches_.push_back({r});
        }
        return touches_[place[r]];
      };
      const int length = index_.actors_[a].length;
      for (int i = 0; i < length; ++i) {
        for (const Operand& operand : OperandsOf(a, i)) {
          if (operand.reg < 0) continue;
          Touch& t = touch(operand.reg);
          if (operand.access == Access::kUpdate) index_.registers_[operand.reg].updated = true;
          if (operand.access == Access::kRead) continue;
          if (t.first_write < 0) t.first_write = i;
          t.last_write = i;
        }
      }
      RETURN_IF_ERROR(AddWrites(a));
      for (int i = 0; i < length; ++i) {
        for (const Operand& operand : OperandsOf(a, i)) {
          if (operand.reg < 0 || operand.access != Access::kRead) continue;
          Touch& t = touch(operand.reg);
          if (!TakesToken(index_.registers_[t.reg], a, i)) continue;
          if (t.first_read < 0) t.first_read = i;
          t.last_read = i;
        }
      }
      touches_begin_.push_back(static_cast<int32_t>(touches_.size()));
    }
    return CheckProducersWrite();
  }

  // Of the last actor that has touches.
  absl::Status AddWrites(int a) {
    for (size_t n = touches_begin_.back(); n < touches_.size(); ++n) {
      const Touch& t = touches_[n];
      if (t.first_write < 0) continue;
      ProgramIndex::Register& r = index_.registers_[t.reg];
      if (r.first_write >= 0) {
        return Bad(program_, absl::StrCat(index_.RegisterName(t.reg),
                                          " has two producers: ", index_.ActorName(r.producer),
                                          " and ", index_.ActorName(a)));
      }
      if (r.producer != a) {
        return Bad(program_,
                   absl::StrCat(index_.ActorName(a), " writes ", index_.RegisterName(t.reg),
                                ", whose producer is ",
                                r.producer < 0 ? "the session" : index_.ActorName(r.producer)));
      }
      r.first_write = t.first_write;
      r.last_write = t.last_write;
    }
    return {};
  }

  // A producer that reads its own stateless register between its writes needs no token: script
  // order is enough. After the last write it is a reader like any other.
  static bool TakesToken(const ProgramIndex::Register& r, int a, int i) {
    if (r.producer != a || r.initial > 0 || r.every > 1) return true;
    return i <= r.first_write || i > r.last_write;
  }

  absl::Status CheckProducersWrite() const {
    for (int r = 0; r < index_.num_registers(); ++r) {
      const ProgramIndex::Register& x = index_.registers_[r];
      if (x.producer < 0 || x.first_write >= 0) continue;
      return Bad(program_, absl::StrCat(index_.ActorName(x.producer), " produces ",
                                        index_.RegisterName(r), ", but no instruction writes it"));
    }
    return {};
  }

  absl::Status AddRings() {
    auto add_ring = [&](int32_t slots, absl::Span<const int32_t> takes, int32_t explicit_ring) {
      const int32_t q = index_.num_rings(), begin = static_cast<int32_t>(index_.places_.size());
      for (int32_t r : takes) {
        ProgramIndex::Register& x = index_.registers_[r];
        x.ring = q;
        index_.places_.push_back({r, x.places++, -1});
      }
      const int32_t count = static_cast<int32_t>(takes.size());
      for (int32_t r : takes) {
        index_.registers_[r].alone = count == 1;
        index_.registers_[r].by_slots = Divisor(slots);
      }
      index_.rings_.push_back({slots, begin, count, explicit_ring, Divisor(count)});
    };
    for (int q = 0; q < program_.rings_size(); ++q) {
      const plan::Ring& ring = program_.rings(q);
      if (ring.slots() < 1 || ring.registers_size() == 0) {
        return Bad(program_, absl::StrCat("ring \"", ring.name(), "\" has ", ring.slots(),
                                          " slots for ", ring.registers_size(), " registers"));
      }
      for (int32_t r : ring.registers()) {
        if (r < 0 || r >= index_.num_registers()) {
          return Bad(program_, absl::StrCat("ring \"", ring.name(), "\" names register ", r, " of ",
                                            index_.num_registers()));
        }
        if (index_.registers_[r].ring < 0) continue;
        return Bad(program_, absl::StrCat(index_.RegisterName(r), " is in two rings"));
      }
      add_ring(ring.slots(), {ring.registers().data(), static_cast<size_t>(ring.registers_size())},
               q);
    }
    for (int r = 0; r < index_.num_registers(); ++r) {
      if (index_.registers_[r].ring < 0) add_ring(index_.registers_[r].quota, {r}, -1);
    }
    // Places of each register within its round, side by side.
    int32_t begin = 0;
    for (ProgramIndex::Register& x : index_.registers_) {
      x.places_begin = begin;
      begin += x.places;
    }
    index_.occurrences_.resize(begin);
    for (const ProgramIndex::Ring& ring : index_.rings_) {
      for (int32_t n = 0; n < ring.places; ++n) {
        const ProgramIndex::RingPlace& sequence = index_.places_[ring.places_begin + n];
        index_.occurrences_[index_.registers_[sequence.reg].places_begin + sequence.occurrence] = n;
      }
    }
    return {};
  }

  // Sorted by register, then by actor.
  void AddConsumers() {
    std::vector<ProgramIndex::Consumer> found;
    std::vector<int32_t> register_of;
    for (int a = 0; a < index_.num_actors(); ++a) {
      for (const Touch& t : TouchesOf(a)) {
        if (t.first_read < 0) continue;
        ProgramIndex::Register& r = index_.registers_[t.reg];
        const int32_t serves = std::max(1, index_.actors_[a].firings / std::max(1, r.tokens));
        const bool late = r.producer == a && r.initial > 0 && t.first_read > r.last_write;
        r.late_own_consumer = r.late_own_consumer || late;
        found.push_back({t.reg, a, t.first_read, t.last_read, serves, late ? r.initial : 0, 0,
                         Divisor(serves)});
        register_of.push_back(t.reg);
      }
    }
    ProgramIndex::Lists of;
    of.Fill(index_.num_registers(), register_of);
    for (int32_t n : of.items) index_.consumers_.push_back(found[n]);
    for (int r = 0; r < index_.num_registers(); ++r) {
      index_.registers_[r].consumers_begin = of.begin[r];
      index_.registers_[r].consumers_end = of.begin[r + 1];
    }
    std::vector<int32_t> actor_of;
    for (const ProgramIndex::Consumer& consumer : index_.consumers_) {
      actor_of.push_back(consumer.actor);
    }
    ProgramIndex::Lists mine;
    mine.Fill(index_.num_actors(), actor_of);
    for (int a = 0; a < index_.num_actors(); ++a) {
      index_.actors_[a].consumers_begin = mine.begin[a];
      index_.actors_[a].consumers_end = mine.begin[a + 1];
      for (int32_t n = mine.begin[a]; n < mine.begin[a + 1]; ++n) {
        index_.consumers_[mine.items[n]].local = n - mine.begin[a];
      }
    }
    index_.actor_consumers_ = std::move(mine.items);
  }

  void AddTokens() {
    const int32_t instructions = static_cast<int32_t>(index_.collective_of_.size());
    std::vector<int32_t> requires_at, releases_at, acquires_at, emits_at;  // instructions
    for (const ProgramIndex::Consumer& consumer : index_.consumers_) {
      requires_at.push_back(index_.Flat(consumer.actor, consumer.first));
      releases_at.push_back(index_.Flat(consumer.actor, consumer.last));
    }
    // What the session produces goes to a list behind those of the instructions.
    for (const ProgramIndex::Register& x : index_.registers_) {
      const bool made = x.producer >= 0;
      acquires_at.push_back(made ? index_.Flat(x.producer, x.first_write) : instructions);
      emits_at.push_back(made ? index_.Flat(x.producer, x.last_write) : instructions);
    }
    ProgramIndex::Lists required, acquired, emitted, released;
    required.Fill(instructions, requires_at);
    acquired.Fill(instructions + 1, acquires_at);
    emitted.Fill(instructions + 1, emits_at);
    released.Fill(instructions, releases_at);
    for (int32_t flat = 0; flat < instructions; ++flat) {
      for (const ProgramIndex::Lists* lists : {&required, &acquired, &emitted, &released}) {
        const absl::Span<const int32_t> list = lists->Of(flat);
        index_.tokens_begin_.push_back(static_cast<int32_t>(index_.tokens_.size()));
        index_.tokens_.insert(index_.tokens_.end(), list.begin(), list.end());
      }
    }
    index_.tokens_begin_.push_back(static_cast<int32_t>(index_.tokens_.size()));
  }

  // Sorted by actor, then by ring.
  void AddAckCounts() {
    std::vector<ProgramIndex::AckCount> found;
    std::vector<int32_t> actor_of, last(index_.num_actors(), -1), slots(index_.num_actors(), 0);
    for (int q = 0; q < index_.num_rings(); ++q) {
      const ProgramIndex::Ring& ring = index_.rings_[q];
      for (int32_t n = ring.places_begin; n < ring.places_begin + ring.places; ++n) {
        const int32_t a = index_.registers_[index_.places_[n].reg].producer;
        if (a < 0 || last[a] == q) continue;
        last[a] = q;
        found.push_back({q, a, slots[a], Divisor(ring.slots)});
        actor_of.push_back(a);
        slots[a] += ring.slots;
      }
    }
    ProgramIndex::Lists of;
    of.Fill(index_.num_actors(), actor_of);
    for (int a = 0; a < index_.num_actors(); ++a) {
      index_.actors_[a].ack_counts_begin = index_.num_ack_counts();
      for (int32_t found_at : of.Of(a)) {
        const ProgramIndex::Ring& ring = index_.rings_[found[found_at].ring];
        for (int32_t n = ring.places_begin; n < ring.places_begin + ring.places; ++n) {
          ProgramIndex::RingPlace& sequence = index_.places_[n];
          if (index_.registers_[sequence.reg].producer != a) continue;
          sequence.ack_count = index_.registers_[sequence.reg].ack_count = index_.num_ack_counts();
        }
        index_.ack_counts_.push_back(found[found_at]);
      }
      index_.actors_[a].ack_counts_end = index_.num_ack_counts();
    }
  }

  void AddOperands() {
    std::vector<ProgramIndex::OperandUse> reads(index_.num_registers());
    for (int a = 0; a < index_.num_actors(); ++a) {
      for (const Touch& t : TouchesOf(a)) {
        const ProgramIndex::Register& r = index_.registers_[t.reg];
        reads[t.reg] = {t.reg, r.initial, r.every};
        for (int n = r.consumers_begin; n < r.consumers_end; ++n) {
          const ProgramIndex::Consumer& x = index_.consumers_[n];
          if (x.actor == a) reads[t.reg] = {t.reg, x.offset, x.serves};
        }
      }
      for (int i = 0; i < index_.actors_[a].length; ++i) {
        for (const Operand& operand : OperandsOf(a, i)) {
          const int32_t r = operand.reg;
          if (r < 0) {
            index_.operands_.push_back({-1, 0, 1});
          } else if (operand.access == Access::kRead) {
            index_.operands_.push_back(reads[r]);
          } else {
            const ProgramIndex::Register& x = index_.registers_[r];
            index_.operands_.push_back({r, x.initial, x.every});
          }
        }
      }
    }
  }

  absl::Status AddEntries() {
    index_.order_previous_.assign(index_.num_instances(), 0);
    for (int s = 0; s < index_.num_streams(); ++s) {
      const auto& order = program_.streams(s).order();
      for (int j = 0; j < order.size(); ++j) {
        const plan::ScheduleEntry& t = order[j];
        if (!index_.HasInstance(t.actor(), t.firing(), t.from()) || t.to() <= t.from() ||
            t.to() > index_.actors_[t.actor()].length || index_.actors_[t.actor()].stream != s) {
          return Bad(program_, absl::StrCat("the order of ", index_.StreamName(s), ", entry ", j,
                                            ", names actor ", t.actor(), ", firing ", t.firing(),
                                            ", instructions [", t.from(), ", ", t.to(),
                                            "), which the stream does not have"));
        }
      }
      for (int j = 0; j < order.size(); ++j) {
        const plan::ScheduleEntry& before = order[j > 0 ? j - 1 : order.size() - 1];
        const int32_t last =
            index_.InstanceOf(before.actor(), before.firing(), before.to() - 1) + 1;
        index_.order_previous_[index_.InstanceOf(order[j].actor(), order[j].firing(),
                                                 order[j].from())] = j > 0 ? last : -last;
      }
    }
    return {};
  }

  const plan::Program& program_;
  ProgramIndex index_;
  absl::Span<const Touch> TouchesOf(int a) const {
    return absl::MakeConstSpan(touches_).subspan(touches_begin_[a],
                                                 touches_begin_[a + 1] - touches_begin_[a]);
  }

  absl::Span<const Operand> OperandsOf(int a, int i) const {
    const int32_t* begin = &index_.operand_begin_[index_.Flat(a, i)];
    return absl::MakeConstSpan(operands_).subspan(begin[0], begin[1] - begin[0]);
  }

  std::vector<Operand> operands_;  // of all instructions, inputs first
  // Of one actor after the other, in the order of its script.
  std::vector<Touch> touches_;
  std::vector<int32_t> touches_begin_;
};

absl::StatusOr<ProgramIndex> ProgramIndex::Build(const plan::Program& program) {
  return ProgramIndexBuilder(program).Build();
}

absl::Status ProgramIndex::ReadReuseEdges() {
  const auto& edges = program_->reuse_edges();
  reuse_local_.clear();
  reuse_target_.clear();
  for (Actor& actor : actors_) actor.reuse_edges_in = 0;
  std::vector<int32_t> into, from;  // by reuse edge: the instance
  for (int n = 0; n < edges.size(); ++n) {
    const plan::Point &after = edges[n].after(), &before = edges[n].before();
    for (const plan::Point* p : {&after, &before}) {
      if (HasInstance(p->actor(), p->firing(), p->instruction())) continue;
      return Bad(*program_,
                 absl::StrCat("reuse ", n, " names actor ", p->actor(), ", firing ", p->firing(),
                              ", instruction ", p->instruction(), ", which is not in the program"));
    }
    from.push_back(InstanceOf(after.actor(), after.firing(), after.instruction()));
    into.push_back(InstanceOf(before.actor(), before.firing(), before.instruction()));
    reuse_local_.push_back(actors_[before.actor()].reuse_edges_in++);
    reuse_target_.push_back(before.actor());
  }
  reuse_into_.Fill(num_instances(), into);
  reuse_from_.Fill(num_instances(), from);
  FillTokenUses();
  return {};
}

void ProgramIndex::FillTokenUses() {
  token_uses_.assign(collective_of_.size(), 0);
  for (int a = 0; a < num_actors(); ++a) {
    for (int i = 0; i < actors_[a].length; ++i) {
      uint8_t& uses = token_uses_[Flat(a, i)];
      const auto note = [&uses](Use use, absl::Span<const int32_t> list) {
        if (!list.empty()) uses |= use;
      };
      note(kRequires, Requires(a, i));
      note(kAcquires, Acquires(a, i));
      note(kEmits, Emits(a, i));
      note(kReleases, Releases(a, i));
      for (int f = 0; f < actors_[a].firings; ++f) {
        const int32_t instance = InstanceOf(a, f, i);
        note(kReuseInto, ReuseInto(instance));
        note(kReuseFrom, ReuseFrom(instance));
      }
    }
  }
}

const google::protobuf::RepeatedField<int64_t>& ProgramIndex::SlotOffsets(int r) const {
  const int32_t ring = rings_[registers_[r].ring].explicit_ring;
  return ring >= 0 ? program_->rings(ring).slot_offsets() : program_->registers(r).slot_offsets();
}

int64_t ProgramIndex::SlotOffset(int r, int32_t slot) const {
  const auto& offsets = SlotOffsets(r);
  return slot < offsets.size() ? offsets[slot] : 0;
}

std::string ProgramIndex::Describe(int a, int64_t firing, int i) const {
  const plan::Actor& actor = program_->actors(a);
  std::string text = ActorName(a);
  if (i < actor.script_size()) {
    const plan::Instruction& x = actor.script(i);
    absl::StrAppend(&text, ", instruction ", i, " \"", InstructionName(x), "\"");
    if (!x.scope().empty()) absl::StrAppend(&text, " of ", x.scope());
  }
  if (actor.firings_per_step() > 1) {
    absl::StrAppend(&text, ", micro-batch ", firing % actor.firings_per_step());
  }
  return text;
}

std::string ProgramIndex::RegisterName(int r) const {
  return absl::StrCat("register \"", program_->registers(r).name(), "\"");
}

std::string ProgramIndex::ActorName(int a) const {
  return absl::StrCat("actor \"", program_->actors(a).name(), "\"");
}

std::string ProgramIndex::StreamName(int s) const {
  return absl::StrCat("stream d", program_->streams(s).device(), ".",
                      StreamKindName(program_->streams(s).kind()));
}

}  // namespace sluice
