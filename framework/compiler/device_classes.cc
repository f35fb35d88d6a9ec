#include "framework/compiler/device_classes.h"

#include <algorithm>
#include <map>
#include <set>

#include "framework/base/hash.h"
#include "framework/base/log.h"

namespace sluice {
namespace {

bool IsGlobal(const plan::Register& reg) { return reg.producer() < 0 && reg.variable().empty(); }

}  // namespace

DeviceClasses::DeviceClasses(const plan::Program& program, absl::Span<const int64_t> base)
    : program_(program), own_(base.size()), representative_(base.size()) {
  const int devices = static_cast<int>(base.size());
  for (int s = 0; s < program.streams_size(); ++s) {
    own_[program.streams(s).device()].streams.push_back(s);
  }
  for (int a = 0; a < program.actors_size(); ++a) {
    Own& own = own_[program.streams(program.actors(a).stream()).device()];
    actor_place_.push_back(static_cast<int32_t>(own.actors.size()));
    own.actors.push_back(a);
  }
  for (int r = 0; r < program.registers_size(); ++r) {
    const plan::Register& reg = program.registers(r);
    if (IsGlobal(reg)) {
      place_.push_back(static_cast<int32_t>(global_.size()));
      global_.push_back(r);
      continue;
    }
    Own& own = own_[reg.device()];
    place_.push_back(static_cast<int32_t>(own.registers.size()));
    own.registers.push_back(r);
  }
  for (int n = 0; n < program.locals_size(); ++n) {
    const int32_t device =
        program.streams(program.actors(program.locals(n).actor()).stream()).device();
    local_place_.push_back(static_cast<int32_t>(own_[device].locals.size()));
    own_[device].locals.push_back(n);
  }
  // Refine until no class falls apart any more.
  std::vector<uint64_t> classes(base.begin(), base.end());
  size_t count = 0;
  while (true) {
    classes = Signatures(classes);
    const size_t now = std::set<uint64_t>(classes.begin(), classes.end()).size();
    if (now == count) break;
    count = now;
  }
  num_classes_ = static_cast<int>(count);
  std::map<uint64_t, int32_t> first;
  for (int d = 0; d < devices; ++d) representative_[d] = first.emplace(classes[d], d).first->second;
  to_stream_.assign(program.streams_size(), -1);
  to_actor_.assign(program.actors_size(), -1);
  to_register_.assign(program.registers_size(), -1);
  to_local_.assign(program.locals_size(), -1);
  int32_t streams = 0, actors = 0, registers = 0, locals = 0;
  for (int32_t r : global_) to_register_[r] = registers++;
  for (int d = 0; d < devices; ++d) {
    if (representative_[d] != d) continue;
    for (int32_t s : own_[d].streams) to_stream_[s] = streams++;
    for (int32_t a : own_[d].actors) to_actor_[a] = actors++;
    for (int32_t r : own_[d].registers) to_register_[r] = registers++;
    for (int32_t n : own_[d].locals) to_local_[n] = locals++;
  }
  for (int d = 0; d < devices; ++d) {
    const Own& mine = own_[d];
    const Own& theirs = own_[representative_[d]];
    for (size_t i = 0; i < mine.streams.size(); ++i) {
      to_stream_[mine.streams[i]] = to_stream_[theirs.streams[i]];
    }
    for (size_t i = 0; i < mine.actors.size(); ++i) {
      to_actor_[mine.actors[i]] = to_actor_[theirs.actors[i]];
    }
    for (size_t i = 0; i < mine.registers.size(); ++i) {
      to_register_[mine.registers[i]] = to_register_[theirs.registers[i]];
    }
    for (size_t i = 0; i < mine.locals.size(); ++i) {
      to_local_[mine.locals[i]] = to_local_[theirs.locals[i]];
    }
  }
}

std::vector<uint64_t> DeviceClasses::Signatures(const std::vector<uint64_t>& classes) const {
  std::vector<uint64_t> signatures;
  for (size_t d = 0; d < own_.size(); ++d) {
    StableHasher hash;
    hash.Add(static_cast<int64_t>(classes[d]));
    const auto add_operand = [&](const plan::Operand& operand) {
      hash.Add(operand.offset()).Add(operand.updates()).Add(operand.part().dtype());
      for (int64_t extent : operand.part().local()) hash.Add(extent);
      if (operand.storage_case() == plan::Operand::kLocal) {
        hash.Add("local").Add(local_place_[operand.local()]);
        return;
      }
      const plan::Register& reg = program_.registers(operand.register_());
      hash.Add(IsGlobal(reg) ? "global" : "register").Add(place_[operand.register_()]);
      if (!IsGlobal(reg)) hash.Add(static_cast<int64_t>(classes[reg.device()]));
    };
    for (int32_t s : own_[d].streams) hash.Add(program_.streams(s).kind());
    for (int32_t a : own_[d].actors) {
      const plan::Actor& actor = program_.actors(a);
      hash.Add(program_.streams(actor.stream()).kind()).Add(actor.fires_per_step());
      hash.Add(actor.script_size());
      for (const plan::Instruction& instruction : actor.script()) {
        hash.Add(instruction.op()).Add(instruction.nanoseconds()).Add(instruction.collective());
        hash.Add(instruction.inputs_size()).Add(instruction.outputs_size());
        for (const plan::Operand& input : instruction.inputs()) add_operand(input);
        for (const plan::Operand& output : instruction.outputs()) add_operand(output);
      }
    }
    for (int32_t r : own_[d].registers) {
      const plan::Register& reg = program_.registers(r);
      hash.Add(reg.bytes()).Add(reg.quota()).Add(reg.emit_every()).Add(reg.initial_tokens());
    }
    for (int32_t n : own_[d].locals) hash.Add(program_.locals(n).bytes());
    signatures.push_back(hash.digest());
  }
  return signatures;
}

plan::Program DeviceClasses::Quotient() const {
  SLUICE_CHECK(program_.rings_size() == 0) << "rings have no quotient yet";
  plan::Program quotient;
  quotient.set_name(program_.name());
  quotient.set_micro_batches(program_.micro_batches());
  *quotient.mutable_feeds() = program_.feeds();
  *quotient.mutable_fetches() = program_.fetches();
  const auto point = [&](plan::Operand* operand) {
    if (operand->storage_case() == plan::Operand::kLocal) {
      operand->set_local(to_local_[operand->local()]);
    } else {
      operand->set_register_(to_register_[operand->register_()]);
    }
  };
  const auto add_register = [&](int32_t r) {
    plan::Register* reg = quotient.add_registers();
    *reg = program_.registers(r);
    if (reg->producer() >= 0) reg->set_producer(to_actor_[reg->producer()]);
  };
  for (int32_t r : global_) add_register(r);
  for (size_t d = 0; d < own_.size(); ++d) {
    if (representative_[d] != static_cast<int32_t>(d)) continue;
    for (int32_t s : own_[d].streams) *quotient.add_streams() = program_.streams(s);
    for (int32_t a : own_[d].actors) {
      plan::Actor* actor = quotient.add_actors();
      *actor = program_.actors(a);
      actor->set_stream(to_stream_[actor->stream()]);
      for (plan::Instruction& instruction : *actor->mutable_script()) {
        for (plan::Operand& input : *instruction.mutable_inputs()) point(&input);
        for (plan::Operand& output : *instruction.mutable_outputs()) point(&output);
      }
    }
    for (int32_t r : own_[d].registers) add_register(r);
    for (int32_t n : own_[d].locals) {
      plan::Local* local = quotient.add_locals();
      *local = program_.locals(n);
      local->set_actor(to_actor_[local->actor()]);
    }
  }
  return quotient;
}

void DeviceClasses::Expand(const plan::Program& quotient, plan::Program* program) const {
  // The device's own actor behind each of its representative's.
  for (size_t d = 0; d < own_.size(); ++d) {
    std::map<int32_t, int32_t> own_actor;
    for (int32_t a : own_[d].actors) own_actor[to_actor_[a]] = a;
    for (int32_t s : own_[d].streams) {
      plan::Stream* stream = program->mutable_streams(s);
      stream->clear_order();
      for (const plan::Turn& turn : quotient.streams(to_stream_[s]).order()) {
        plan::Turn* added = stream->add_order();
        *added = turn;
        added->set_actor(own_actor.at(turn.actor()));
      }
    }
  }
  for (int r = 0; r < program->registers_size(); ++r) {
    *program->mutable_registers(r)->mutable_slot_offsets() =
        quotient.registers(to_register_[r]).slot_offsets();
  }
  for (int n = 0; n < program->locals_size(); ++n) {
    program->mutable_locals(n)->set_offset(quotient.locals(to_local_[n]).offset());
  }
}

std::vector<int32_t> DeviceClasses::LiftEvents(const plan::Program& quotient,
                                               absl::Span<const int32_t> by_event) const {
  std::vector<int32_t> first(quotient.actors_size() + 1, 0);
  for (int a = 0; a < quotient.actors_size(); ++a) {
    const plan::Actor& actor = quotient.actors(a);
    first[a + 1] = first[a] + actor.fires_per_step() * actor.script_size();
  }
  std::vector<int32_t> lifted;
  for (int a = 0; a < program_.actors_size(); ++a) {
    const int32_t image = to_actor_[a];
    lifted.insert(lifted.end(), by_event.begin() + first[image],
                  by_event.begin() + first[image + 1]);
  }
  return lifted;
}

}  // namespace sluice
