#include "framework/compiler/expansion.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/compiler/pulls.h"

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

namespace {

absl::Status DoesNotFit(absl::string_view what, int64_t bytes, int64_t expected) {
  return absl::InternalError(absl::StrCat(what, ": expected at most the ", expected,
                                          " bytes of its representative, got ", bytes));
}

// Scratch, and which outputs take an input's bytes.
absl::Status PlaceScript(const plan::Actor& representative, plan::Actor* actor) {
  for (int i = 0; i < actor->script_size(); ++i) {
    const plan::Instruction& image = representative.script(i);
    plan::Instruction* instruction = actor->mutable_script(i);
    for (int output = 0; output < instruction->outputs_size(); ++output) {
      instruction->mutable_outputs(output)->set_takes(image.outputs(output).takes());
    }
    if (!instruction->has_scratch_offset()) continue;
    if (instruction->scratch() > image.scratch()) {
      return DoesNotFit(absl::StrCat("scratch of ", instruction->scope()), instruction->scratch(),
                        image.scratch());
    }
    instruction->set_scratch_offset(image.scratch_offset());
  }
  return absl::OkStatus();
}

}  // namespace

// What its representative has too: no pulls, nothing of other ranks, nothing of the session's.
std::vector<Expansion::Own> Expansion::OwnOf(const plan::Program& program, size_t devices) {
  std::vector<Own> own(devices);
  const auto is_own = [&](int a) {
    return !IsRemote(program.actors(a)) && !IsPull(program.actors(a));
  };
  const auto device_of = [&](int a) {
    return program.streams(program.actors(a).stream()).device();
  };
  for (int s = 0; s < program.streams_size(); ++s) {
    if (program.streams(s).kind() == plan::STREAM_NET) continue;
    own[program.streams(s).device()].streams.push_back(s);
  }
  for (int a = 0; a < program.actors_size(); ++a) {
    if (is_own(a)) own[device_of(a)].actors.push_back(a);
  }
  for (int r = 0; r < program.registers_size(); ++r) {
    const plan::Register& reg = program.registers(r);
    if (reg.producer() < 0 && reg.variable().empty()) continue;
    if (reg.producer() >= 0 && !is_own(reg.producer())) continue;
    own[reg.device()].registers.push_back(r);
  }
  for (int n = 0; n < program.temporaries_size(); ++n) {
    own[device_of(program.temporaries(n).actor())].temporaries.push_back(n);
  }
  return own;
}

Expansion::Expansion(const plan::Program& representative_program, const plan::Program& program,
                     absl::Span<const int32_t> representatives)
    : representative_program_(representative_program),
      program_(program),
      representative_(representatives),
      own_(OwnOf(program, representatives.size())) {
  to_stream_.assign(program.streams_size(), -1);
  to_actor_.assign(program.actors_size(), -1);
  to_register_.assign(program.registers_size(), -1);
  to_temporary_.assign(program.temporaries_size(), -1);
  const std::vector<Own> theirs = OwnOf(representative_program, representatives.size());
  for (size_t d = 0; d < own_.size(); ++d) {
    if (!own_[d].actors.empty()) Match(own_[d], theirs[representative_[d]], d);
  }
  int32_t instances = 0;
  for (const plan::Actor& actor : representative_program.actors()) {
    first_instance_.push_back(instances);
    instances += actor.firings_per_step() * actor.script_size();
  }
  NameItems();
}

void Expansion::Match(const Own& mine, const Own& theirs, size_t device) {
  SLUICE_CHECK(mine.streams.size() <= theirs.streams.size() &&
               mine.actors.size() <= theirs.actors.size() &&
               mine.registers.size() <= theirs.registers.size() &&
               mine.temporaries.size() == theirs.temporaries.size())
      << "device " << device << " is not what device " << representative_[device] << " is";
  const auto match = [](const std::vector<int32_t>& from, const std::vector<int32_t>& to,
                        std::vector<int32_t>* image) {
    for (size_t i = 0; i < from.size(); ++i) (*image)[from[i]] = to[i];
  };
  match(mine.streams, theirs.streams, &to_stream_);
  match(mine.actors, theirs.actors, &to_actor_);
  match(mine.registers, theirs.registers, &to_register_);
  match(mine.temporaries, theirs.temporaries, &to_temporary_);
}

void Expansion::NameItems() {
  const plan::Program& program = representative_program_;
  last_write_.resize(program.registers_size());
  for (int r = 0; r < program.registers_size(); ++r) {
    const plan::Register& reg = program.registers(r);
    if (reg.number() > 0) registers_[{reg.device(), reg.number()}] = r;
  }
  for (int a = 0; a < program.actors_size(); ++a) {
    const int32_t device = program.streams(program.actors(a).stream()).device();
    for (int i = 0; i < program.actors(a).script_size(); ++i) {
      const plan::Instruction& x = program.actors(a).script(i);
      if (x.number() > 0) readers_[{device, x.number()}] = {a, i};
      for (const plan::Operand& input : x.inputs()) {
        if (input.updates()) last_write_[input.register_()] = {a, i};
      }
      for (const plan::Operand& output : x.outputs()) {
        if (output.storage_case() != plan::Operand::kRegister) continue;
        last_write_[output.register_()] = {a, i};
        const int32_t number = program.registers(output.register_()).number();
        if (number > 0) readers_.emplace(std::pair(device, number), Item{a, i});
      }
    }
  }
}

absl::Status Expansion::Expand(plan::Program* program) const {
  // The device's own actor behind each of its representative's.
  for (size_t d = 0; d < own_.size(); ++d) {
    std::map<int32_t, int32_t> own_actor;
    for (int32_t a : own_[d].actors) own_actor[to_actor_[a]] = a;
    for (int32_t s : own_[d].streams) {
      plan::Stream* stream = program->mutable_streams(s);
      stream->clear_order();
      for (const plan::ScheduleEntry& entry :
           representative_program_.streams(to_stream_[s]).order()) {
        plan::ScheduleEntry* added = stream->add_order();
        *added = entry;
        added->set_actor(own_actor.at(entry.actor()));
      }
    }
  }
  for (int r = 0; r < program->registers_size(); ++r) {
    if (to_register_[r] < 0) continue;
    const plan::Register& image = representative_program_.registers(to_register_[r]);
    plan::Register* reg = program->mutable_registers(r);
    if (reg->bytes() > image.bytes()) return DoesNotFit(reg->name(), reg->bytes(), image.bytes());
    *reg->mutable_slot_offsets() = image.slot_offsets();
    // A shard without elements may have fewer readers, and by its own count fewer slots.
    reg->set_quota(image.quota());
  }
  for (int n = 0; n < program->temporaries_size(); ++n) {
    const plan::Temporary& image = representative_program_.temporaries(to_temporary_[n]);
    plan::Temporary* temporary = program->mutable_temporaries(n);
    if (temporary->bytes() > image.bytes()) {
      return DoesNotFit(absl::StrCat("temporary ", n), temporary->bytes(), image.bytes());
    }
    temporary->set_offset(image.offset());
  }
  for (int a = 0; a < program->actors_size(); ++a) {
    if (to_actor_[a] < 0) continue;
    RETURN_IF_ERROR(
        PlaceScript(representative_program_.actors(to_actor_[a]), program->mutable_actors(a)));
  }
  return absl::OkStatus();
}

int32_t Expansion::InstanceOf(const Item& item, int64_t firing) const {
  const int32_t length = representative_program_.actors(item.actor).script_size();
  return static_cast<int32_t>(first_instance_[item.actor] + firing * length + item.instruction);
}

Expansion::Item Expansion::ReaderOf(int32_t device, int32_t number) const {
  const auto found = readers_.find({representative_[device], number});
  SLUICE_CHECK(found != readers_.end()) << "no item " << number << " on device " << device;
  return found->second;
}

// The rank at which a token of a device's register has been emitted; -1: before the step.
int32_t Expansion::EmittedAt(int32_t device, int32_t number, int64_t token,
                             absl::Span<const int32_t> end) const {
  const auto found = registers_.find({representative_[device], number});
  SLUICE_CHECK(found != registers_.end()) << "no register " << number << " on device " << device;
  const plan::Register& reg = representative_program_.registers(found->second);
  if (reg.producer() < 0 || token < reg.initial_tokens()) return -1;
  const int64_t firing = (token - reg.initial_tokens() + 1) * std::max(1, reg.emit_every()) - 1;
  return end[InstanceOf(last_write_[found->second], firing)];
}

// Own ranks are even, so that what pulls do fits between the end of one and the beginning of the
// next.
void Expansion::LiftEdge(const plan::Actor& actor, absl::Span<const int32_t> begin,
                         absl::Span<const int32_t> end, InstanceRanks* lifted) const {
  const plan::Instruction& x = actor.script(0);
  const int32_t device = program_.streams(actor.stream()).device();
  const bool pulls = x.kind() == plan::INSTRUCTION_PULL;
  for (int32_t f = 0; f < actor.firings_per_step(); ++f) {
    if (!pulls && x.inputs_size() > 0) {  // reads here
      const int32_t instance = InstanceOf(ReaderOf(device, x.number()), f);
      lifted->begin.push_back(2 * (begin[instance] + 1));
      lifted->end.push_back(2 * (end[instance] + 1));
      continue;
    }
    const plan::Register& from =
        program_.registers((pulls ? x.inputs(0) : x.outputs(0)).register_());
    int32_t after = EmittedAt(from.device(), from.number(), f, end);
    if (pulls && f > 0) {
      after = std::max(after, end[InstanceOf(ReaderOf(device, x.number()), f - 1)]);
    }
    lifted->begin.push_back(2 * (after + 1) + (pulls ? 1 : 0));
    lifted->end.push_back(lifted->begin.back());
  }
}

InstanceRanks Expansion::Lift(absl::Span<const int32_t> begin,
                              absl::Span<const int32_t> end) const {
  InstanceRanks lifted;
  for (int a = 0; a < program_.actors_size(); ++a) {
    const plan::Actor& actor = program_.actors(a);
    if (to_actor_[a] < 0) {
      LiftEdge(actor, begin, end, &lifted);
      continue;
    }
    const int32_t first = first_instance_[to_actor_[a]];
    for (int32_t n = first; n < first + actor.firings_per_step() * actor.script_size(); ++n) {
      lifted.begin.push_back(2 * (begin[n] + 1));
      lifted.end.push_back(2 * (end[n] + 1));
    }
  }
  return lifted;
}

}  // namespace sluice
