#include "framework/testing/random_program.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

class Builder {
 public:
  explicit Builder(std::mt19937* random) : random_(*random) {}

  plan::Program Build() {
    program_.set_name("random");
    devices_ = 1 + Below(3);
    micro_ = 1 + Below(4);
    program_.set_micro_batches(micro_);
    for (int n = Below(3); n > 0; --n) states_.push_back(NewState());
    if (Below(2)) session_ = NewRegister("step", -1, 1);
    Phase(1);
    Phase(micro_);
    Phase(1);
    Ending();
    MakeRings();
    DropEmptyActors();
    return std::move(program_);
  }

 private:
  struct Value {
    int32_t reg;
    int tokens;
  };
  struct Use {
    int written = 0, read = 0;  // places in the global order
  };

  int Below(int n) { return static_cast<int>(random_() % n); }

  int32_t NewRegister(const std::string& name, int32_t producer, int tokens) {
    plan::Register* x = program_.add_registers();
    x->set_name(name);
    x->set_producer(producer);
    x->set_quota(1);
    x->set_bytes(16 * (1 + Below(3)));
    if (producer >= 0) {
      x->set_device(program_.streams(program_.actors(producer).stream()).device());
    }
    uses_.push_back({place_, place_});
    tokens_.push_back(tokens);
    return program_.registers_size() - 1;
  }

  int32_t NewState() {
    const int32_t r = NewRegister(absl::StrCat("w", states_.size()), -1, 1);
    program_.mutable_registers(r)->set_initial_tokens(1);
    return r;
  }

  int32_t Stream(int device, plan::StreamKind kind) {
    auto [it, fresh] = streams_.emplace(std::pair(device, kind), program_.streams_size());
    if (fresh) {
      plan::Stream* s = program_.add_streams();
      s->set_device(device);
      s->set_kind(kind);
    }
    return it->second;
  }

  int32_t NewActor(int32_t stream, int firings) {
    plan::Actor* actor = program_.add_actors();
    actor->set_name(absl::StrCat("a", program_.actors_size() - 1));
    actor->set_stream(stream);
    actor->set_firings_per_step(firings);
    temporaries_.emplace_back();
    return program_.actors_size() - 1;
  }

  plan::Instruction* Add(int32_t actor) {
    plan::Instruction* x = program_.mutable_actors(actor)->add_script();
    x->set_op("mix");
    x->set_nanoseconds(1 + Below(9));
    ++place_;
    return x;
  }

  void Read(plan::Instruction* x, int32_t reg) {
    x->add_inputs()->set_register_(reg);
    uses_[reg].read = place_;
  }

  // What an instruction of so many firings may read, in a random order.
  std::vector<int32_t> Readable(int firings) {
    std::vector<int32_t> regs = states_;
    for (const Value& v : values_) {
      if (v.tokens == firings || v.tokens == 1) regs.push_back(v.reg);
    }
    if (session_ >= 0) regs.push_back(session_);
    std::shuffle(regs.begin(), regs.end(), random_);
    return regs;
  }

  void Phase(int firings) {
    static constexpr plan::StreamKind kKinds[] = {plan::STREAM_COMPUTE, plan::STREAM_COMPUTE,
                                                  plan::STREAM_COMM, plan::STREAM_HOST};
    std::vector<int32_t> mine;
    std::vector<Value> sums;  // there when the phase has ended
    for (int n = 1 + Below(3); n > 0; --n) {
      mine.push_back(NewActor(Stream(Below(devices_), kKinds[Below(4)]), firings));
    }
    for (int n = static_cast<int>(mine.size()) + Below(2 * static_cast<int>(mine.size()) + 1);
         n > 0; --n) {
      Step(mine[Below(static_cast<int>(mine.size()))], firings, &sums);
    }
    if (devices_ > 1 && Below(5) < 3) Collectives(firings);
    values_.insert(values_.end(), sums.begin(), sums.end());
  }

  void Step(int32_t actor, int firings, std::vector<Value>* sums) {
    plan::Instruction* x = Add(actor);
    const std::vector<int32_t> regs = Readable(firings);
    const size_t reads = std::min<size_t>(regs.size(), Below(4));
    for (size_t n = 0; n < reads; ++n) Read(x, regs[n]);
    if (!temporaries_[actor].empty() && Below(2)) {
      x->add_inputs()->set_temporary(
          temporaries_[actor][Below(static_cast<int>(temporaries_[actor].size()))]);
    }
    if (x->inputs_size() == 0) x->set_attributes(absl::StrCat(place_));
    if (Below(4) == 0) {
      plan::Temporary* local = program_.add_temporaries();
      local->set_actor(actor);
      local->set_bytes(16 * (1 + Below(3)));
      temporaries_[actor].push_back(program_.temporaries_size() - 1);
      x->add_outputs()->set_temporary(temporaries_[actor].back());
      return;
    }
    const bool sum = firings > 1 && Below(5) < 2;
    const int32_t r =
        NewRegister(absl::StrCat("r", program_.registers_size()), actor, sum ? 1 : firings);
    plan::Register* reg = program_.mutable_registers(r);
    if (sum) {
      reg->set_emit_every(firings);
      plan::Operand* operand = x->add_inputs();
      operand->set_register_(r);
      operand->set_updates(true);
      sums->push_back({r, 1});
      return;
    }
    if (Below(2)) reg->set_quota(1 + Below(4));
    x->add_outputs()->set_register_(r);
    values_.push_back({r, firings});
  }

  // One or two, each on two or more devices.
  void Collectives(int firings) {
    std::map<int, int32_t> actor_on;
    for (int n = 1 + Below(2); n > 0; --n) {
      std::vector<int> group;
      for (int d = 0; d < devices_; ++d) group.push_back(d);
      std::shuffle(group.begin(), group.end(), random_);
      group.resize(2 + Below(devices_ - 1));
      ++collectives_;
      const std::vector<int32_t> regs = Readable(firings);
      std::vector<Value> out;
      const int place = place_ + 1;  // one for all members
      for (int d : group) {
        auto [it, fresh] = actor_on.emplace(d, -1);
        if (fresh) it->second = NewActor(Stream(d, plan::STREAM_COLLECTIVE), firings);
        plan::Instruction* x = Add(it->second);
        place_ = place;
        x->set_op("sum");
        x->set_collective(collectives_);
        x->set_kind(plan::INSTRUCTION_COLLECTIVE);
        if (!regs.empty()) Read(x, regs[Below(static_cast<int>(regs.size()))]);
        const int32_t r =
            NewRegister(absl::StrCat("c", program_.registers_size()), it->second, firings);
        program_.mutable_registers(r)->set_quota(1 + Below(2));
        x->add_outputs()->set_register_(r);
        out.push_back({r, firings});
      }
      values_.insert(values_.end(), out.begin(), out.end());
    }
  }

  void Ending() {
    std::vector<int32_t> once;
    for (const Value& v : values_) {
      if (v.tokens == 1) once.push_back(v.reg);
    }
    const int32_t update = NewActor(Stream(0, plan::STREAM_COMPUTE), 1);
    for (int32_t w : states_) {
      plan::Instruction* x = Add(update);
      if (!once.empty()) Read(x, once[Below(static_cast<int>(once.size()))]);
      x->set_attributes(once.empty() ? "1 subtract" : "subtract");
      plan::Operand* operand = x->add_inputs();
      operand->set_register_(w);
      operand->set_updates(true);
      program_.mutable_registers(w)->set_producer(update);
    }
    plan::Instruction* x = Add(update);
    for (size_t n = 0; n < std::min<size_t>(2, once.size()); ++n) {
      Read(x, once[once.size() - 1 - n]);
    }
    const int32_t end = NewRegister("end", update, 1);
    program_.mutable_registers(end)->set_quota(2);
    x->add_outputs()->set_register_(end);
    const int32_t fetch = NewActor(Stream(0, plan::STREAM_HOST), 1);
    plan::Instruction* log = Add(fetch);
    log->set_op("log");
    Read(log, end);
    for (size_t n = 0; n < std::min<size_t>(2, once.size()); ++n) Read(log, once[n]);
  }

  // Registers of one token a step, of one device, in the order in which they are written; slots as
  // few as keep the global order possible, or more.
  void MakeRings() {
    if (Below(2)) return;
    for (int d = 0; d < devices_; ++d) {
      std::vector<int32_t> takes;
      for (const Value& v : values_) {
        const plan::Register& r = program_.registers(v.reg);
        if (v.tokens == 1 && r.emit_every() == 0 && r.device() == d && Below(3) > 0) {
          takes.push_back(v.reg);
        }
      }
      if (takes.size() < 2) continue;
      std::sort(takes.begin(), takes.end(),
                [&](int32_t a, int32_t b) { return uses_[a].written < uses_[b].written; });
      const int n = static_cast<int>(takes.size());
      int slots = 1;
      const auto fits = [&] {
        for (int j = 0; j + slots < n; ++j) {
          const Use& before = uses_[takes[j]];
          if (std::max(before.read, before.written) >= uses_[takes[j + slots]].written)
            return false;
        }
        return true;
      };
      while (!fits()) ++slots;
      plan::Ring* ring = program_.add_rings();
      ring->set_name(absl::StrCat("ring", d));
      ring->set_slots(std::min(n, slots + Below(2)));
      for (int32_t r : takes) {
        ring->add_registers(r);
        program_.mutable_registers(r)->set_quota(1);
      }
    }
  }

  void DropEmptyActors() {
    std::vector<int32_t> number;
    int32_t kept = 0;
    for (const plan::Actor& actor : program_.actors()) {
      number.push_back(actor.script_size() > 0 ? kept++ : -1);
    }
    plan::Program old = program_;
    program_.clear_actors();
    for (const plan::Actor& actor : old.actors()) {
      if (actor.script_size() > 0) *program_.add_actors() = actor;
    }
    for (plan::Register& r : *program_.mutable_registers()) {
      if (r.producer() >= 0) r.set_producer(number[r.producer()]);
    }
    for (plan::Temporary& l : *program_.mutable_temporaries()) l.set_actor(number[l.actor()]);
  }

  std::mt19937& random_;
  plan::Program program_;
  int devices_ = 1, micro_ = 1, place_ = 0;
  int32_t collectives_ = 0, session_ = -1;
  std::vector<int32_t> states_;
  std::vector<Value> values_;
  std::vector<Use> uses_;    // by register
  std::vector<int> tokens_;  // by register
  std::map<std::pair<int, plan::StreamKind>, int32_t> streams_;
  std::vector<std::vector<int32_t>> temporaries_;  // by actor
};

template <typename T>
const T& Pick(const std::vector<T>& from, std::mt19937* random) {
  return from[(*random)() % from.size()];
}

bool BreakRegister(bool token, std::mt19937* random, plan::Program* program, Break* out) {
  std::vector<int32_t> candidates;
  for (int r = 0; r < program->registers_size(); ++r) {
    const plan::Register& x = program->registers(r);
    bool in_ring = false;
    for (const plan::Ring& ring : program->rings()) {
      for (int32_t take : ring.registers()) in_ring = in_ring || take == r;
    }
    if (x.producer() < 0 || in_ring) continue;
    const int firings = program->actors(x.producer()).firings_per_step();
    if (token ? x.initial_tokens() > 0 : x.quota() > 1 && firings > 1) candidates.push_back(r);
  }
  if (candidates.empty()) return false;
  out->reg = Pick(candidates, random);
  plan::Register* x = program->mutable_registers(out->reg);
  if (token) {
    x->set_initial_tokens(x->initial_tokens() - 1);
  } else {
    out->tokens = (*random)() % 2 ? 1 : x->quota() - 1;
    x->set_quota(x->quota() - out->tokens);
  }
  return true;
}

bool BreakSlot(std::mt19937* random, plan::Program* program, Break* out) {
  std::vector<int32_t> candidates;
  for (int q = 0; q < program->rings_size(); ++q) {
    if (program->rings(q).slots() > 1) candidates.push_back(q);
  }
  if (candidates.empty()) return false;
  out->ring = Pick(candidates, random);
  plan::Ring* ring = program->mutable_rings(out->ring);
  ring->set_slots(ring->slots() - 1);
  return true;
}

// A new edge from a later actor to an earlier one, of the same rate.
bool BreakEdge(std::mt19937* random, plan::Program* program) {
  std::vector<std::pair<int32_t, int32_t>> candidates;  // reader, register
  for (int r = 0; r < program->registers_size(); ++r) {
    const plan::Register& x = program->registers(r);
    if (x.producer() < 0) continue;
    for (int a = 0; a < program->actors_size(); ++a) {
      const int firings = program->actors(x.producer()).firings_per_step();
      if (a != x.producer() && program->actors(a).firings_per_step() == firings &&
          x.emit_every() <= 1) {
        candidates.push_back({a, r});
      }
    }
  }
  if (candidates.empty()) return false;
  const auto [a, r] = Pick(candidates, random);
  program->mutable_actors(a)->mutable_script(0)->add_inputs()->set_register_(r);
  return true;
}

bool BreakOrder(std::mt19937* random, plan::Program* program) {
  std::vector<int> candidates;
  for (int s = 0; s < program->streams_size(); ++s) {
    if (program->streams(s).order_size() > 1) candidates.push_back(s);
  }
  if (candidates.empty()) return false;
  auto* order = program->mutable_streams(Pick(candidates, random))->mutable_order();
  const int i = static_cast<int>((*random)() % order->size());
  const int j = static_cast<int>((*random)() % order->size());
  order->SwapElements(i, j);
  return i != j;
}

bool BreakRate(std::mt19937* random, plan::Program* program) {
  std::vector<int32_t> candidates;
  for (int r = 0; r < program->registers_size(); ++r) {
    if (program->registers(r).producer() >= 0) candidates.push_back(r);
  }
  if (candidates.empty()) return false;
  plan::Register* x = program->mutable_registers(Pick(candidates, random));
  x->set_emit_every(std::max(1, x->emit_every()) % 3 + 1);
  return true;
}

bool BreakReuseEdge(std::mt19937* random, plan::Program* program) {
  const int n = program->reuse_edges_size();
  if (n == 0) return false;
  program->mutable_reuse_edges()->DeleteSubrange(static_cast<int>((*random)() % n), 1);
  return true;
}

}  // namespace

plan::Program RandomProgram(std::mt19937* random) { return Builder(random).Build(); }

Break BreakProgram(Breakage kind, std::mt19937* random, plan::Program* program) {
  Break out;
  out.kind = kind;
  switch (kind) {
    case Breakage::kToken:
    case Breakage::kQuota:
      out.done = BreakRegister(kind == Breakage::kToken, random, program, &out);
      break;
    case Breakage::kSlot:
      out.done = BreakSlot(random, program, &out);
      break;
    case Breakage::kEdge:
      out.done = BreakEdge(random, program);
      break;
    case Breakage::kOrder:
      out.done = BreakOrder(random, program);
      break;
    case Breakage::kRate:
      out.done = BreakRate(random, program);
      break;
    case Breakage::kReuse:
      out.done = BreakReuseEdge(random, program);
      break;
  }
  return out;
}

}  // namespace sluice
