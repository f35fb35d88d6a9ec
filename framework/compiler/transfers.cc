#include "framework/compiler/transfers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/plan/kinds.h"
#include "framework/plan/shard_proto.h"

namespace sluice {
namespace {

bool IsHost(const plan::Device& device) { return IsHost(KindOf(device)); }

// The first CPU of a device's rank.
int32_t HostOf(const plan::Plan& plan, int32_t device) {
  for (int d = 0; d < plan.devices_size(); ++d) {
    if (plan.devices(d).rank() != plan.devices(device).rank()) continue;
    if (KindOf(plan.devices(d)) == DeviceKind::kCpu) return d;
  }
  return -1;
}

// Every element of the output is one element of one input.
bool OnlyMoves(const plan::Instruction& x) {
  return x.kind() == plan::INSTRUCTION_FOLD && !x.fill_identity() &&
         std::all_of(x.regions().begin(), x.regions().end(),
                     [](const plan::Region& region) { return region.sources_size() == 1; });
}

class Stager {
 public:
  Stager(const plan::Plan& plan, const Machine& machine, plan::Program* program)
      : plan_(plan), machine_(machine), program_(*program), spaces_(MemorySpaces(plan)) {
    for (int d = 0; d < plan.devices_size(); ++d) host_.push_back(HostOf(plan, d));
  }

  absl::Status Run() {
    MoveHostWork();
    FindTypes();
    const int actors = program_.actors_size();  // copies are added behind
    for (int a = 0; a < actors; ++a) {
      for (plan::Instruction& x : *program_.mutable_actors(a)->mutable_script()) {
        RETURN_IF_ERROR(Stage(a, &x));
      }
    }
    return absl::OkStatus();
  }

 private:
  int32_t DeviceOf(int32_t stream) const { return program_.streams(stream).device(); }
  int32_t SpaceOf(int32_t device) const { return spaces_[device]; }

  // Streams of the host stand on its device, with the registers that they fill. Devices in a space
  // of their own read their peers through copies, in the order that was recorded for their readers.
  void MoveHostWork() {
    for (plan::Stream& stream : *program_.mutable_streams()) {
      if (IsHost(plan_.devices(stream.device()))) continue;
      if (stream.kind() == plan::STREAM_HOST) stream.set_device(host_[stream.device()]);
      if (stream.kind() == plan::STREAM_COMM) stream.set_kind(plan::STREAM_COPY);
    }
    for (plan::Register& reg : *program_.mutable_registers()) {
      if (reg.producer() < 0 || !reg.variable().empty()) continue;
      const plan::Stream& stream = program_.streams(program_.actors(reg.producer()).stream());
      if (stream.kind() == plan::STREAM_HOST) reg.set_device(stream.device());
    }
  }

  // What lies in each register as a whole: its producer's output, or the variable's shard. Of
  // those with room for more than is written, which other devices of their class need, and of those
  // that are written in parts: bytes.
  void FindTypes() {
    types_.resize(program_.registers_size());
    for (int r = 0; r < program_.registers_size(); ++r) {
      for (const plan::Variable& variable : plan_.variables()) {
        if (variable.name() != program_.registers(r).variable()) continue;
        for (const plan::VariableShard& shard : variable.shards()) {
          if (shard.device() == program_.registers(r).device()) types_[r] = shard.shard();
        }
      }
    }
    for (const plan::Actor& actor : program_.actors()) {
      for (const plan::Instruction& x : actor.script()) {
        for (const plan::Operand& output : x.outputs()) {
          if (output.storage_case() != plan::Operand::kRegister || output.offset() != 0) continue;
          const absl::StatusOr<Shard> shard = ShardFromProto(output.shard());
          if (!shard.ok() || shard->NumBytes() != program_.registers(output.register_()).bytes()) {
            continue;
          }
          types_[output.register_()] = output.shard();
        }
      }
    }
    for (int r = 0; r < program_.registers_size(); ++r) {
      if (types_[r].has_value() || program_.registers(r).bytes() == 0) continue;
      types_[r] = ShardToProto(Shard::Whole(DType::kU8, Shape{program_.registers(r).bytes()}));
    }
  }

  // The register of an operand that lies in another space than a device's; -1: it does not.
  int32_t ForeignRegister(const plan::Operand& operand, int32_t device) const {
    if (operand.storage_case() != plan::Operand::kRegister) return -1;
    const plan::Register& reg = program_.registers(operand.register_());
    const bool foreign = reg.bytes() > 0 && SpaceOf(reg.device()) != SpaceOf(device);
    return foreign ? operand.register_() : -1;
  }

  absl::Status Stage(int a, plan::Instruction* x) {
    const int32_t device = DeviceOf(program_.actors(a).stream());
    for (const plan::Operand& output : x->outputs()) {
      const int32_t r = ForeignRegister(output, device);
      if (r < 0) continue;
      return absl::InternalError(absl::StrCat(
          "program ", program_.name(), ", ", x->scope(), " (", InstructionName(*x),
          "): expected outputs in the memory of device ", DeviceName(plan_.devices(device)),
          ", register ", program_.registers(r).name(), " is another's"));
    }
    const bool reads = std::any_of(x->inputs().begin(), x->inputs().end(), [&](const auto& input) {
      return ForeignRegister(input, device) >= 0;
    });
    if (!reads) return absl::OkStatus();
    if (OnlyMoves(*x) && !IsHost(plan_.devices(device))) {
      x->set_kind(plan::INSTRUCTION_COPY);
      return absl::OkStatus();
    }
    for (plan::Operand& input : *x->mutable_inputs()) {
      const int32_t r = ForeignRegister(input, device);
      if (r < 0) continue;
      input.set_register_(StagingOf(r, device, program_.actors(a).priority()));
    }
    return absl::OkStatus();
  }

  // The register, in the space of `device`, that a copy of register r fills.
  int32_t StagingOf(int32_t r, int32_t device, int32_t priority) {
    const auto [found, fresh] = staging_.emplace(std::pair(r, SpaceOf(device)), -1);
    if (!fresh) return found->second;
    const plan::Register& from = program_.registers(r);
    // Of the two ends, the one that has fences copies; of two such, the one that reads.
    const int32_t at = IsHost(plan_.devices(device)) ? from.device() : device;
    const int32_t tokens =
        from.producer() < 0
            ? 1
            : program_.actors(from.producer()).firings_per_step() / std::max(1, from.emit_every());
    plan::Register to;
    to.set_name(absl::StrCat(from.name(), ".d", device));
    to.set_producer(program_.actors_size());
    to.set_device(IsHost(plan_.devices(device)) ? host_[device] : device);
    to.set_bytes(from.bytes());
    to.set_quota(std::min(tokens, 2));
    to.set_emit_every(1);

    plan::Actor actor;
    actor.set_name(absl::StrCat("d", at, ".copy(", to.name(), ")"));
    actor.set_stream(
        CopyStream(at, IsHost(plan_.devices(device)) ? plan::STREAM_COPY_OUT : plan::STREAM_COPY));
    actor.set_firings_per_step(tokens);
    actor.set_priority(priority);
    plan::Instruction* copy = actor.add_script();
    copy->set_kind(plan::INSTRUCTION_COPY);
    copy->set_scope(from.name());
    copy->set_bytes(2 * from.bytes());
    copy->set_wire_bytes(from.bytes());
    copy->set_nanoseconds(machine_.link(LinkKind::kProcess).latency_nanoseconds +
                          machine_.LinkNanoseconds(from.bytes(), LinkKind::kProcess));
    plan::Operand* input = copy->add_inputs();
    *input->mutable_shard() = *types_[r];
    input->set_register_(r);
    plan::Operand* output = copy->add_outputs();
    *output->mutable_shard() = *types_[r];
    output->set_register_(program_.registers_size());

    found->second = program_.registers_size();
    *program_.add_registers() = std::move(to);
    *program_.add_actors() = std::move(actor);
    return found->second;
  }

  int32_t CopyStream(int32_t device, plan::StreamKind kind) {
    for (int s = 0; s < program_.streams_size(); ++s) {
      if (program_.streams(s).kind() == kind && DeviceOf(s) == device) return s;
    }
    plan::Stream* stream = program_.add_streams();
    stream->set_device(device);
    stream->set_kind(kind);
    return program_.streams_size() - 1;
  }

  const plan::Plan& plan_;
  const Machine& machine_;
  plan::Program& program_;
  const std::vector<int32_t> spaces_;                       // by device
  std::vector<int32_t> host_;                               // by device
  std::vector<std::optional<plan::Shard>> types_;           // by register of the program as it came
  std::map<std::pair<int32_t, int32_t>, int32_t> staging_;  // by register and space
};

}  // namespace

bool NeedsTransfers(const plan::Plan& plan) {
  return std::any_of(plan.devices().begin(), plan.devices().end(),
                     [](const plan::Device& device) { return !IsHost(device); });
}

void AddHostDevices(plan::Plan* plan) {
  std::set<int32_t> ranks;
  for (const plan::Device& device : plan->devices()) ranks.insert(device.rank());
  for (const int32_t rank : ranks) {
    int32_t first = -1;
    for (int d = 0; d < plan->devices_size(); ++d) {
      if (plan->devices(d).rank() == rank && first < 0) first = d;
    }
    if (HostOf(*plan, first) >= 0) continue;
    plan->add_devices()->set_rank(rank);
  }
}

absl::StatusOr<Schedule> StageTransfers(const plan::Plan& plan, const Machine& machine,
                                        Schedule schedule) {
  RETURN_IF_ERROR(Stager(plan, machine, &schedule.program).Run());
  return schedule;
}

}  // namespace sluice
