#include "framework/runtime/loaded_program.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/comm/comm_net.h"
#include "framework/device/null_stream.h"
#include "framework/kernels/async_kernel.h"
#include "framework/plan/kinds.h"
#include "framework/plan/shard_proto.h"
#include "framework/plan/validate_collectives.h"
#include "framework/runtime/nan_check.h"

namespace sluice {
namespace {

Shape ShapeFrom(const google::protobuf::RepeatedField<int64_t>& values) {
  return Shape(absl::MakeConstSpan(values.data(), values.size()));
}

std::vector<int> Ints(const google::protobuf::RepeatedField<int32_t>& values) {
  return std::vector<int>(values.begin(), values.end());
}

FoldRegion RegionFrom(const plan::Region& proto) {
  FoldRegion region;
  for (int d = 0; d < proto.begin_size(); ++d) region.extent.Append(proto.end(d) - proto.begin(d));
  region.sources = Ints(proto.sources());
  region.fold = Ints(proto.fold());
  region.source_offsets.assign(proto.source_offsets().begin(), proto.source_offsets().end());
  for (const plan::Strides& s : proto.source_strides()) {
    region.source_strides.push_back(ShapeFrom(s.values()));
  }
  region.offset = proto.offset();
  region.strides = ShapeFrom(proto.strides());
  region.micro = proto.micro();
  return region;
}

}  // namespace

absl::StatusOr<KernelSpec> SpecOf(const plan::Instruction& instruction, int threads) {
  KernelSpec spec;
  // A copy of regions is a fold that sums nothing.
  spec.op = instruction.kind() == plan::INSTRUCTION_COPY && instruction.regions_size() > 0
                ? std::string(InstructionKindName(plan::INSTRUCTION_FOLD))
                : InstructionName(instruction);
  spec.attributes = instruction.attributes();
  spec.scope = instruction.scope();
  for (const plan::Operand& operand : instruction.inputs()) {
    ASSIGN_OR_RETURN(spec.inputs.emplace_back(), ShardFromProto(operand.shard()));
    spec.updates.push_back(operand.updates());
  }
  for (const plan::Operand& operand : instruction.outputs()) {
    ASSIGN_OR_RETURN(spec.outputs.emplace_back(), ShardFromProto(operand.shard()));
    spec.takes.push_back(operand.takes());
  }
  spec.threads = threads;
  spec.calls = std::max(instruction.calls(), 1);
  spec.most_scratch = instruction.scratch();
  spec.transfer = IsTransfer(instruction.kind());
  spec.reduction = static_cast<Reduction>(instruction.reduction());
  spec.fill_identity = instruction.fill_identity();
  for (const plan::Region& region : instruction.regions()) {
    spec.regions.push_back(RegionFrom(region));
  }
  return spec;
}

void StepPorts::SetFeed(size_t port, const Feed& feed) {
  FedPort& to = feeds[port];
  to.rows = feed.rows;
  if (feed.tensor == nullptr) return;
  SLUICE_CHECK_EQ(feed.tensor->shape.NumElements(), to.tensor.shape.NumElements());
  to.tensor.bytes.resize(feed.tensor->bytes.size());  // once: a port's type stays
  if (feed.tensor->bytes.empty()) return;
  std::memcpy(to.tensor.bytes.data(), feed.tensor->bytes.data(), feed.tensor->bytes.size());
}

absl::StatusOr<std::unique_ptr<LoadedProgram>> LoadedProgram::Load(
    const plan::Plan& plan, int program, ProgramIndex index,
    absl::Span<std::byte* const> memories) {
  std::unique_ptr<LoadedProgram> loaded(new LoadedProgram(plan, program, std::move(index)));
  loaded->scratch_.assign(loaded->program_.actors_size(), 0);
  const bool alone = std::all_of(plan.devices().begin(), plan.devices().end(),
                                 [&](const auto& device) { return device.rank() == plan.rank(); });
  if (!alone) loaded->rank_ = absl::StrCat("rank ", plan.rank(), ", ");
  size_t instructions = 0;
  for (const plan::Actor& actor : loaded->program_.actors()) instructions += actor.script_size();
  loaded->instructions_.resize(instructions);
  loaded->MakePorts();
  RETURN_IF_ERROR(loaded->LocateRegisters(memories));
  loaded->LocateOperands();
  loaded->LocateScratch(memories);
  loaded->FindWrittenShards();
  return loaded;
}

void LoadedProgram::MakePorts() {
  for (StepPorts& ports : ports_) {
    for (const plan::Port& port : program_.feeds()) {
      StepPorts::FedPort& fed = ports.feeds.emplace_back();
      fed.tensor.dtype = static_cast<DType>(port.dtype());
      fed.tensor.shape = ShapeFrom(port.shape());
    }
    for (const plan::Port& port : program_.fetches()) {
      ports.fetches.emplace_back(static_cast<DType>(port.dtype()), ShapeFrom(port.shape()));
    }
  }
}

absl::Status LoadedProgram::LocateRegisters(absl::Span<std::byte* const> memories) {
  const auto address = [&](int32_t device, int64_t bytes, int64_t offset) {
    return bytes == 0 || memories[device] == nullptr ? nullptr : memories[device] + offset;
  };
  struct NumberedShard {
    int64_t offset;
    int32_t number;
  };
  std::map<std::pair<absl::string_view, int32_t>, NumberedShard> shards;
  int32_t number = 0;
  for (const plan::Variable& variable : plan_.variables()) {
    for (const plan::VariableShard& shard : variable.shards()) {
      shards[{variable.name(), shard.device()}] = {shard.offset(), number++};
    }
  }
  for (int r = 0; r < program_.registers_size(); ++r) {
    const plan::Register& reg = program_.registers(r);
    const int slots = index_.ring(index_.reg(r).ring).slots;
    first_address_.push_back(static_cast<int32_t>(addresses_.size()));
    variable_shard_.push_back(-1);
    if (reg.variable().empty()) {
      for (int slot = 0; slot < slots; ++slot) {
        addresses_.push_back(address(reg.device(), reg.bytes(), index_.SlotOffset(r, slot)));
      }
      continue;
    }
    const auto found = shards.find({reg.variable(), reg.device()});
    if (found == shards.end() || slots != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("program ", program_.name(), ", register ", reg.name(),
                       ": expected one slot in a shard of variable ", reg.variable(), " on device ",
                       reg.device(), ", got ", slots, " slots and ",
                       found == shards.end() ? "no shard" : "a shard"));
    }
    addresses_.push_back(address(reg.device(), 1, found->second.offset));
    variable_shard_.back() = found->second.number;
  }
  for (const plan::Temporary& local : program_.temporaries()) {
    addresses_.push_back(address(index_.device_of(local.actor()), 1, local.offset()));
  }
  return absl::OkStatus();
}

bool LoadedProgram::IsPulled(int32_t reg) const {
  const int32_t producer = reg < 0 ? -1 : index_.reg(reg).producer;
  return producer >= 0 && index_.instruction(producer, 0).kind() == plan::INSTRUCTION_PULL;
}

void LoadedProgram::LocateOperands() {
  const int32_t first_temporary =
      static_cast<int32_t>(addresses_.size()) - program_.temporaries_size();
  for (int a = 0; a < program_.actors_size(); ++a) {
    for (int i = 0; i < program_.actors(a).script_size(); ++i) {
      const plan::Instruction& planned = program_.actors(a).script(i);
      Instruction& instruction = instructions_[index_.actor(a).first_instruction + i];
      const absl::Span<const ProgramIndex::OperandUse> uses = index_.Operands(a, i);
      instruction.operands_begin = static_cast<int32_t>(operands_.size());
      instruction.moving_begin = static_cast<int32_t>(moving_.size());
      for (size_t o = 0; o < uses.size(); ++o) {
        const bool input = o < static_cast<size_t>(planned.inputs_size());
        const plan::Operand& operand =
            input ? planned.inputs(o) : planned.outputs(o - planned.inputs_size());
        const int32_t address = operand.storage_case() == plan::Operand::kRegister
                                    ? first_address_[operand.register_()]
                                    : first_temporary + operand.temporary();
        std::byte* const start = addresses_[address];
        operands_.push_back(start == nullptr ? nullptr : start + operand.offset());
        const bool pulled = IsPulled(uses[o].reg);
        if (pulled && !input) instruction.pulled = address;
        if (start != nullptr && uses[o].reg >= 0 &&
            ((pulled && input) || index_.ring(index_.reg(uses[o].reg).ring).slots > 1)) {
          moving_.push_back({&addresses_[address], operand.offset(), static_cast<int32_t>(o),
                             uses[o].reg, uses[o].offset, Divisor(std::max(uses[o].divisor, 1))});
        }
      }
      instruction.moving_end = static_cast<int32_t>(moving_.size());
    }
  }
}

void LoadedProgram::LocateScratch(absl::Span<std::byte* const> memories) {
  for (int a = 0; a < program_.actors_size(); ++a) {
    std::byte* const memory = memories[index_.device_of(a)];
    for (int i = 0; i < program_.actors(a).script_size(); ++i) {
      const plan::Instruction& planned = program_.actors(a).script(i);
      if (memory == nullptr || !planned.has_scratch_offset()) continue;
      Of(a, i).scratch = memory + planned.scratch_offset();
    }
  }
}

void LoadedProgram::FindWrittenShards() {
  for (int a = 0; a < program_.actors_size(); ++a) {
    for (int i = 0; i < program_.actors(a).script_size(); ++i) {
      const plan::Instruction& planned = program_.actors(a).script(i);
      Instruction& instruction = Of(a, i);
      const auto add = [&](const plan::Operand& operand) {
        if (operand.storage_case() != plan::Operand::kRegister) return;
        const int32_t shard = variable_shard_[operand.register_()];
        if (shard >= 0) written_.push_back(shard);
      };
      instruction.written_begin = static_cast<int32_t>(written_.size());
      for (const plan::Operand& operand : planned.inputs()) {
        if (operand.updates()) add(operand);
      }
      for (const plan::Operand& operand : planned.outputs()) add(operand);
      instruction.written_end = static_cast<int32_t>(written_.size());
    }
  }
}

// The largest power of two, a cache line at most, that divides where every operand begins in every
// firing. What is pulled lies anywhere; no kernel of a device reads it there.
int64_t LoadedProgram::AlignmentOf(const Instruction& instruction, int operands) const {
  constexpr uintptr_t kMost = 64;
  uintptr_t all = kMost;
  for (int o = 0; o < operands; ++o) {
    all |= reinterpret_cast<uintptr_t>(operands_[instruction.operands_begin + o]);
  }
  for (int32_t m = instruction.moving_begin; m < instruction.moving_end; ++m) {
    const MovingOperand& moving = moving_[m];
    const int slots = index_.ring(index_.reg(moving.reg).ring).slots;
    for (int slot = 0; slot < slots; ++slot) {
      all |= reinterpret_cast<uintptr_t>(moving.slots[slot] + moving.offset);
    }
  }
  return static_cast<int64_t>(all & (~all + 1));
}

absl::Status LoadedProgram::CheckPort(int actor, const plan::Instruction& instruction) const {
  const bool feeds = instruction.kind() == plan::INSTRUCTION_FEED;
  const auto& ports = feeds ? program_.feeds() : program_.fetches();
  const auto& operands = feeds ? instruction.outputs() : instruction.inputs();
  const int port = instruction.port();
  if (port < 0 || port >= ports.size() || operands.empty() ||
      operands[0].shard().dtype() != ports[port].dtype() ||
      ShapeFrom(operands[0].shard().logical()) != ShapeFrom(ports[port].shape())) {
    return absl::InvalidArgumentError(
        absl::StrCat("program ", program_.name(), ", actor ", program_.actors(actor).name(), ", ",
                     InstructionName(instruction), " ", instruction.scope(),
                     ": expected an operand of port ", port, "'s type"));
  }
  return absl::OkStatus();
}

absl::Status LoadedProgram::PreparePort(int actor, const plan::Instruction& planned,
                                        Instruction* out) const {
  RETURN_IF_ERROR(CheckPort(actor, planned));
  out->feeds = planned.kind() == plan::INSTRUCTION_FEED;
  out->port = planned.port();
  // A feed's operands: what it waits for, then its output. A fetch's: its input first.
  out->port_operand = out->feeds ? planned.inputs_size() : 0;
  ASSIGN_OR_RETURN(const Shard shard,
                   ShardFromProto((out->feeds ? planned.outputs(0) : planned.inputs(0)).shard()));
  out->copy = std::make_unique<PortCopy>(shard);
  out->shard = std::make_unique<Shard>(shard);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> LoadedProgram::MakePlain(int actor,
                                                                 const plan::Instruction& planned,
                                                                 const KernelSpec& spec,
                                                                 const KernelOptions& options,
                                                                 Stream* stream) const {
  const int device = index_.device_of(actor);
  const bool cuda = KindOf(plan_.devices(device)) == DeviceKind::kCuda;
  if (planned.kind() == plan::INSTRUCTION_COLLECTIVE && cuda && options.communicators != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> group, DevicesOfCollective(plan_, planned));
    return options.collectives->prepare(spec, options.communicators, group, device);
  }
  return cuda ? options.cuda->prepare(spec, stream) : options.prepare(spec);
}

// A check runs where the kernel runs, so it stands within what makes the kernel asynchronous.
absl::Status LoadedProgram::PrepareOne(int actor, const plan::Instruction& planned,
                                       const KernelOptions& options, Stream* stream,
                                       Instruction* out) const {
  const int device = index_.device_of(actor);
  const DeviceKind kind = KindOf(plan_.devices(device));
  ASSIGN_OR_RETURN(KernelSpec spec, SpecOf(planned, options.threads));
  if (kind == DeviceKind::kCuda) {
    spec.device = kind;
    spec.alignment = AlignmentOf(*out, planned.inputs_size() + planned.outputs_size());
  }
  const std::string where = absl::StrCat(planned.scope(), " (", InstructionName(planned), ")");
  const absl::Status fits = options.check == nullptr ? absl::OkStatus() : options.check(spec);
  if (!fits.ok()) return AddContext(fits, where);
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = MakePlain(actor, planned, spec, options, stream);
  if (!kernel.ok()) return AddContext(kernel.status(), where);
  const int64_t scratch = planned.has_scratch_offset() ? planned.scratch() : 0;
  if ((kind == DeviceKind::kCuda || planned.has_scratch_offset()) &&
      (*kernel)->scratch() > scratch) {
    return absl::InternalError(absl::StrCat(where, ": expected at most ", scratch,
                                            " bytes of scratch, as the plan says, got ",
                                            (*kernel)->scratch()));
  }
  const KernelPlace place = {absl::StrCat(rank_, "program ", program_.name()),
                             absl::StrCat("device ", device, ", ", where)};
  // A copy makes no NaN, and may write where only copies reach.
  if (options.check_nan && !(kind == DeviceKind::kCuda && spec.transfer)) {
    std::vector<WrittenOperand> written;
    const auto add = [&](size_t operand, const Shard& shard) {
      if (!IsFloat(shard.dtype)) return;
      const bool extreme = shard.partial == Reduction::kMax || shard.partial == Reduction::kMin;
      written.push_back({static_cast<int32_t>(operand), shard.dtype, shard.NumElements(), extreme});
    };
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      if (planned.inputs(static_cast<int>(i)).updates()) add(i, spec.inputs[i]);
    }
    for (size_t i = 0; i < spec.outputs.size(); ++i) add(spec.inputs.size() + i, spec.outputs[i]);
    kernel = (kind == DeviceKind::kCuda ? options.cuda->check_nan : MakeNanCheck)(
        *std::move(kernel), std::move(written));
  }
  if (kind == DeviceKind::kAsync) {
    kernel = MakeAsyncKernel(*std::move(kernel), planned.inputs_size() + planned.outputs_size(),
                             spec.transfer, place);
  } else if (kind == DeviceKind::kCuda) {
    kernel = options.cuda->place(*std::move(kernel), spec, place, stream);
  }
  out->kernel = *std::move(kernel);
  return absl::OkStatus();
}

absl::Status LoadedProgram::Prepare(int actor, const KernelOptions& options, Stream* stream) {
  const bool counts = KindOf(plan_.devices(index_.device_of(actor))) == DeviceKind::kNull;
  for (int i = 0; i < program_.actors(actor).script_size(); ++i) {
    const plan::Instruction& planned = program_.actors(actor).script(i);
    Instruction& instruction = instructions_[index_.actor(actor).first_instruction + i];
    instruction.counts = counts;
    if (counts) continue;
    if (planned.kind() == plan::INSTRUCTION_FEED || planned.kind() == plan::INSTRUCTION_FETCH) {
      RETURN_IF_ERROR(PreparePort(actor, planned, &instruction));
    } else if (NeedsKernel(planned.kind())) {
      RETURN_IF_ERROR(CheckStop(options.stop));
      RETURN_IF_ERROR(PrepareOne(actor, planned, options, stream, &instruction));
      if (instruction.scratch != nullptr) continue;
      scratch_[actor] = std::max(scratch_[actor], instruction.kernel->scratch());
    }
  }
  return absl::OkStatus();
}

absl::Span<const std::byte> LoadedProgram::BytesOfRead(int actor, int64_t firing) const {
  const ProgramIndex::OperandUse& use = index_.Operands(actor, 0)[0];
  const int32_t slot = index_.SlotOf(use.reg, firing / use.divisor + use.offset);
  const std::byte* const start = addresses_[first_address_[use.reg] + slot];
  if (start == nullptr) return {};
  return {start, static_cast<size_t>(program_.registers(use.reg).bytes())};
}

absl::Status LoadedProgram::Run(const Actor& actor, int32_t number, KernelContext* context,
                                std::byte* scratch) {
  const Instruction& instruction = Of(actor.id(), number);
  std::byte** const operands = operands_.data() + instruction.operands_begin;
  for (int32_t m = instruction.moving_begin; m < instruction.moving_end; ++m) {
    const MovingOperand& moving = moving_[m];
    const int64_t token = moving.divisor.Quotient(actor.firing()) + moving.add;
    operands[moving.operand] = moving.slots[index_.SlotOf(moving.reg, token)] + moving.offset;
  }
  if (instruction.written_begin != instruction.written_end && snapshot_ != nullptr) {
    snapshot_->BeforeWrite(
        absl::MakeConstSpan(written_.data() + instruction.written_begin,
                            instruction.written_end - instruction.written_begin));
  }
  StepPorts& ports = this->ports(actor.step());
  context->step = ports.number;
  context->micro = actor.micro();
  if (instruction.kernel != nullptr) {
    return instruction.kernel->Launch(
        *context, operands, instruction.scratch == nullptr ? scratch : instruction.scratch);
  }
  if (instruction.copy != nullptr) return CopyPort(instruction, *context, &ports);
  if (instruction.pull >= 0 && !instruction.counts) {
    addresses_[instruction.pulled] = static_cast<PullStream*>(context->stream)
                                         ->Pull(instruction.pull, actor.firing(), operands[1]);
  }
  if (instruction.counts) {
    const plan::Instruction& planned = actor.instruction();
    static_cast<NullStream*>(context->stream)->Count(planned.flops(), planned.wire_bytes());
  }
  return absl::OkStatus();
}

absl::Status LoadedProgram::CopyPort(const Instruction& instruction, const KernelContext& context,
                                     StepPorts* ports) const {
  std::byte* const operand = operands_[instruction.operands_begin + instruction.port_operand];
  if (!instruction.feeds) {
    instruction.copy->Fetch(operand, context.micro, ports->fetches[instruction.port].bytes.data());
    return absl::OkStatus();
  }
  const StepPorts::FedPort& feed = ports->feeds[instruction.port];
  if (feed.rows.dataset != nullptr) {
    return FillRows(feed.rows, instruction.shard->BoxAt(context.micro), operand);
  }
  instruction.copy->Feed(feed.tensor.bytes.data(), context.micro, operand);
  return absl::OkStatus();
}

}  // namespace sluice
