#include "framework/compiler/expansion.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "framework/base/log.h"

namespace sluice {

void OutlineBoxing(plan::Instruction* instruction) {
  if (instruction->kind() != plan::INSTRUCTION_FOLD) return;
  instruction->clear_regions();
  std::set<std::pair<bool, int32_t>> seen;
  google::protobuf::RepeatedPtrField<plan::Operand> inputs;
  for (plan::Operand& input : *instruction->mutable_inputs()) {
    const bool local = input.storage_case() == plan::Operand::kTemporary;
    if (!seen.emplace(local, local ? input.temporary() : input.register_()).second) continue;
    input.clear_shard();
    input.clear_offset();
    inputs.Add(std::move(input));
  }
  *instruction->mutable_inputs() = std::move(inputs);
}

Expansion::Expansion(const plan::Program& program, absl::Span<const int32_t> representatives)
    : program_(program), own_(representatives.size()), representative_(representatives) {
  const int devices = static_cast<int>(representatives.size());
  const auto device_of_actor = [&](int a) {
    return program.streams(program.actors(a).stream()).device();
  };
  const auto device_of_register = [&](int r) {  // -1: the session's
    const plan::Register& reg = program.registers(r);
    return reg.producer() < 0 && reg.variable().empty() ? -1 : reg.device();
  };
  for (int s = 0; s < program.streams_size(); ++s) {
    own_[program.streams(s).device()].streams.push_back(s);
  }
  for (int a = 0; a < program.actors_size(); ++a) own_[device_of_actor(a)].actors.push_back(a);
  for (int r = 0; r < program.registers_size(); ++r) {
    if (device_of_register(r) >= 0) own_[device_of_register(r)].registers.push_back(r);
  }
  for (int n = 0; n < program.temporaries_size(); ++n) {
    own_[device_of_actor(program.temporaries(n).actor())].temporaries.push_back(n);
  }
  to_stream_.assign(program.streams_size(), -1);
  to_actor_.assign(program.actors_size(), -1);
  to_register_.assign(program.registers_size(), -1);
  to_temporary_.assign(program.temporaries_size(), -1);
  // The representatives' keep their order.
  const auto number = [&](const auto& device_of, std::vector<int32_t>* to) {
    int32_t next = 0;
    for (size_t n = 0; n < to->size(); ++n) {
      const int32_t device = device_of(static_cast<int>(n));
      if (device < 0 || representative_[device] == device) (*to)[n] = next++;
    }
  };
  number([&](int s) { return program.streams(s).device(); }, &to_stream_);
  number(device_of_actor, &to_actor_);
  number(device_of_register, &to_register_);
  number([&](int n) { return device_of_actor(program.temporaries(n).actor()); }, &to_temporary_);
  for (int d = 0; d < devices; ++d) {
    const Own& mine = own_[d];
    const Own& theirs = own_[representative_[d]];
    SLUICE_CHECK(mine.streams.size() <= theirs.streams.size() &&
                 mine.actors.size() <= theirs.actors.size() &&
                 mine.registers.size() <= theirs.registers.size() &&
                 mine.temporaries.size() == theirs.temporaries.size())
        << "device " << d << " is not what device " << representative_[d] << " is";
    for (size_t i = 0; i < mine.streams.size(); ++i) {
      to_stream_[mine.streams[i]] = to_stream_[theirs.streams[i]];
    }
    for (size_t i = 0; i < mine.actors.size(); ++i) {
      to_actor_[mine.actors[i]] = to_actor_[theirs.actors[i]];
    }
    for (size_t i = 0; i < mine.registers.size(); ++i) {
      to_register_[mine.registers[i]] = to_register_[theirs.registers[i]];
    }
    for (size_t i = 0; i < mine.temporaries.size(); ++i) {
      to_temporary_[mine.temporaries[i]] = to_temporary_[theirs.temporaries[i]];
    }
  }
}

plan::Program Expansion::RepresentativeProgram() const {
  SLUICE_CHECK(program_.rings_size() == 0) << "rings have no representative_program yet";
  plan::Program representative_program;
  representative_program.set_name(program_.name());
  representative_program.set_micro_batches(program_.micro_batches());
  *representative_program.mutable_feeds() = program_.feeds();
  *representative_program.mutable_fetches() = program_.fetches();
  const auto point = [&](plan::Operand* operand) {
    if (operand->storage_case() == plan::Operand::kTemporary) {
      operand->set_temporary(to_temporary_[operand->temporary()]);
    } else {
      operand->set_register_(to_register_[operand->register_()]);
    }
  };
  const auto is_first = [](const std::vector<int32_t>& to, int n, int32_t next) {
    return to[n] == next;  // others of the class come later
  };
  for (int s = 0; s < program_.streams_size(); ++s) {
    if (!is_first(to_stream_, s, representative_program.streams_size())) continue;
    *representative_program.add_streams() = program_.streams(s);
  }
  for (int a = 0; a < program_.actors_size(); ++a) {
    if (!is_first(to_actor_, a, representative_program.actors_size())) continue;
    plan::Actor* actor = representative_program.add_actors();
    *actor = program_.actors(a);
    actor->set_stream(to_stream_[actor->stream()]);
    actor->set_priority(to_actor_[a]);
    for (plan::Instruction& instruction : *actor->mutable_script()) {
      for (plan::Operand& input : *instruction.mutable_inputs()) point(&input);
      for (plan::Operand& output : *instruction.mutable_outputs()) point(&output);
      OutlineBoxing(&instruction);
    }
  }
  for (int r = 0; r < program_.registers_size(); ++r) {
    if (!is_first(to_register_, r, representative_program.registers_size())) continue;
    plan::Register* reg = representative_program.add_registers();
    *reg = program_.registers(r);
    if (reg->producer() >= 0) reg->set_producer(to_actor_[reg->producer()]);
  }
  for (int n = 0; n < program_.temporaries_size(); ++n) {
    if (!is_first(to_temporary_, n, representative_program.temporaries_size())) continue;
    plan::Temporary* local = representative_program.add_temporaries();
    *local = program_.temporaries(n);
    local->set_actor(to_actor_[local->actor()]);
  }
  return representative_program;
}

void Expansion::Expand(const plan::Program& representative_program, plan::Program* program) const {
  // The device's own actor behind each of its representative's.
  for (size_t d = 0; d < own_.size(); ++d) {
    std::map<int32_t, int32_t> own_actor;
    for (int32_t a : own_[d].actors) own_actor[to_actor_[a]] = a;
    for (int32_t s : own_[d].streams) {
      plan::Stream* stream = program->mutable_streams(s);
      stream->clear_order();
      for (const plan::ScheduleEntry& entry :
           representative_program.streams(to_stream_[s]).order()) {
        plan::ScheduleEntry* added = stream->add_order();
        *added = entry;
        added->set_actor(own_actor.at(entry.actor()));
      }
    }
  }
  for (int r = 0; r < program->registers_size(); ++r) {
    const plan::Register& image = representative_program.registers(to_register_[r]);
    plan::Register* reg = program->mutable_registers(r);
    *reg->mutable_slot_offsets() = image.slot_offsets();
    // A shard without elements may have fewer readers, and by its own count fewer slots.
    reg->set_quota(image.quota());
  }
  for (int n = 0; n < program->temporaries_size(); ++n) {
    program->mutable_temporaries(n)->set_offset(
        representative_program.temporaries(to_temporary_[n]).offset());
  }
}

std::vector<int32_t> Expansion::LiftInstances(const plan::Program& representative_program,
                                              absl::Span<const int32_t> by_instance) const {
  std::vector<int32_t> first(representative_program.actors_size() + 1, 0);
  for (int a = 0; a < representative_program.actors_size(); ++a) {
    const plan::Actor& actor = representative_program.actors(a);
    first[a + 1] = first[a] + actor.firings_per_step() * actor.script_size();
  }
  std::vector<int32_t> lifted;
  for (int a = 0; a < program_.actors_size(); ++a) {
    const int32_t image = to_actor_[a];
    lifted.insert(lifted.end(), by_instance.begin() + first[image],
                  by_instance.begin() + first[image + 1]);
  }
  return lifted;
}

}  // namespace sluice
