#include "framework/runtime/loaded_program.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/plan/kinds.h"
#include "framework/plan/shard_proto.h"

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

// The sum of a block's bits tells a NaN apart without a branch an element.
template <typename T, typename IsNan>
bool AnyNan(const std::byte* data, int64_t elements, IsNan is_nan) {
  const T* values = reinterpret_cast<const T*>(data);
  for (int64_t begin = 0; begin < elements; begin += 4096) {
    const int64_t end = std::min(elements, begin + 4096);
    int found = 0;
    for (int64_t i = begin; i < end; ++i) found |= is_nan(values[i]);
    if (found != 0) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<KernelSpec> SpecOf(const plan::Instruction& instruction, int threads) {
  KernelSpec spec;
  spec.op = InstructionName(instruction);
  spec.attributes = instruction.attributes();
  spec.scope = instruction.scope();
  for (const plan::Operand& operand : instruction.inputs()) {
    ASSIGN_OR_RETURN(spec.inputs.emplace_back(), ShardFromProto(operand.shard()));
  }
  for (const plan::Operand& operand : instruction.outputs()) {
    ASSIGN_OR_RETURN(spec.outputs.emplace_back(), ShardFromProto(operand.shard()));
  }
  spec.threads = threads;
  spec.reduction = static_cast<Reduction>(instruction.reduction());
  spec.fill_identity = instruction.fill_identity();
  for (const plan::Region& region : instruction.regions()) {
    spec.regions.push_back(RegionFrom(region));
  }
  return spec;
}

bool HasNan(DType dtype, const std::byte* data, int64_t elements) {
  switch (dtype) {
    case DType::kF32:
      return AnyNan<uint32_t>(data, elements,
                              [](uint32_t x) { return (x & 0x7fffffffu) > 0x7f800000u; });
    case DType::kF64:
      return AnyNan<uint64_t>(data, elements,
                              [](uint64_t x) { return (x << 1) > (uint64_t{0x7ff} << 53); });
    case DType::kBF16:
      return AnyNan<uint16_t>(data, elements, [](uint16_t x) { return (x & 0x7fffu) > 0x7f80u; });
    case DType::kI32:
      return false;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<LoadedProgram>> LoadedProgram::Load(
    const plan::Plan& plan, int program, absl::Span<std::byte* const> memories) {
  ASSIGN_OR_RETURN(ProgramIndex index, ProgramIndex::Build(plan.programs(program)));
  std::unique_ptr<LoadedProgram> loaded(
      new LoadedProgram(plan.programs(program), std::move(index)));
  loaded->null_ = memories.empty();
  loaded->scratch_.assign(loaded->program_.actors_size(), 0);
  size_t instructions = 0;
  for (const plan::Actor& actor : loaded->program_.actors()) instructions += actor.script_size();
  loaded->instructions_.resize(instructions);
  loaded->MakePorts();
  if (loaded->null_) return loaded;
  RETURN_IF_ERROR(loaded->LocateRegisters(plan, memories));
  RETURN_IF_ERROR(loaded->LocateOperands());
  return loaded;
}

void LoadedProgram::MakePorts() {
  for (StepPorts& ports : ports_) {
    for (const plan::Port& port : program_.feeds()) {
      ports.feeds.emplace_back(static_cast<DType>(port.dtype()), ShapeFrom(port.shape()));
    }
    for (const plan::Port& port : program_.fetches()) {
      ports.fetches.emplace_back(static_cast<DType>(port.dtype()), ShapeFrom(port.shape()));
    }
  }
}

absl::Status LoadedProgram::LocateRegisters(const plan::Plan& plan,
                                            absl::Span<std::byte* const> memories) {
  for (int r = 0; r < program_.registers_size(); ++r) {
    const plan::Register& reg = program_.registers(r);
    const int slots = index_.ring(index_.reg(r).ring).slots;
    first_address_.push_back(static_cast<int32_t>(addresses_.size()));
    if (reg.variable().empty()) {
      for (int slot = 0; slot < slots; ++slot) {
        addresses_.push_back(
            reg.bytes() == 0 ? nullptr : memories[reg.device()] + index_.SlotOffset(r, slot));
      }
      continue;
    }
    const plan::VariableShard* found = nullptr;
    for (const plan::Variable& variable : plan.variables()) {
      if (variable.name() != reg.variable()) continue;
      for (const plan::VariableShard& shard : variable.shards()) {
        if (shard.device() == reg.device()) found = &shard;
      }
    }
    if (found == nullptr || slots != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "program ", program_.name(), ", register ", reg.name(),
          ": expected one slot in a shard of variable ", reg.variable(), " on device ",
          reg.device(), ", got ", slots, " slots and ", found == nullptr ? "no shard" : "a shard"));
    }
    addresses_.push_back(memories[reg.device()] + found->offset());
  }
  for (const plan::Temporary& local : program_.temporaries()) {
    addresses_.push_back(memories[index_.device_of(local.actor())] + local.offset());
  }
  return absl::OkStatus();
}

absl::Status LoadedProgram::LocateOperands() {
  const int32_t first_temporary =
      static_cast<int32_t>(addresses_.size()) - program_.temporaries_size();
  for (int a = 0; a < program_.actors_size(); ++a) {
    for (int i = 0; i < program_.actors(a).script_size(); ++i) {
      const plan::Instruction& planned = program_.actors(a).script(i);
      Instruction& instruction = instructions_[index_.actor(a).first_instruction + i];
      const absl::Span<const ProgramIndex::OperandUse> uses = index_.Operands(a, i);
      instruction.operands_begin = static_cast<int32_t>(operands_.size());
      instruction.moving_begin = static_cast<int32_t>(moving_.size());
      instruction.checks_begin = static_cast<int32_t>(checks_.size());
      for (size_t o = 0; o < uses.size(); ++o) {
        const bool input = o < static_cast<size_t>(planned.inputs_size());
        const plan::Operand& operand =
            input ? planned.inputs(o) : planned.outputs(o - planned.inputs_size());
        const int32_t address = operand.storage_case() == plan::Operand::kRegister
                                    ? first_address_[operand.register_()]
                                    : first_temporary + operand.temporary();
        operands_.push_back(addresses_[address] + operand.offset());
        if (uses[o].reg >= 0 && index_.ring(index_.reg(uses[o].reg).ring).slots > 1) {
          moving_.push_back({&addresses_[address], operand.offset(), static_cast<int32_t>(o),
                             uses[o].reg, uses[o].offset, Divisor(std::max(uses[o].divisor, 1))});
        }
        ASSIGN_OR_RETURN(const Shard shard, ShardFromProto(operand.shard()));
        if (IsFloat(shard.dtype) && (!input || operand.updates())) {
          checks_.push_back({static_cast<int32_t>(o), shard.dtype, shard.NumElements()});
        }
      }
      instruction.moving_end = static_cast<int32_t>(moving_.size());
      instruction.checks_end = static_cast<int32_t>(checks_.size());
    }
  }
  return absl::OkStatus();
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

absl::Status LoadedProgram::Prepare(int actor, PrepareKernel prepare, int threads) {
  if (null_) return absl::OkStatus();
  for (int i = 0; i < program_.actors(actor).script_size(); ++i) {
    const plan::Instruction& planned = program_.actors(actor).script(i);
    Instruction& instruction = instructions_[index_.actor(actor).first_instruction + i];
    if (planned.kind() == plan::INSTRUCTION_FEED || planned.kind() == plan::INSTRUCTION_FETCH) {
      RETURN_IF_ERROR(CheckPort(actor, planned));
      instruction.feeds = planned.kind() == plan::INSTRUCTION_FEED;
      instruction.port = planned.port();
      // A feed's operands: what it waits for, then its output. A fetch's: its input first.
      instruction.port_operand = instruction.feeds ? planned.inputs_size() : 0;
      ASSIGN_OR_RETURN(
          const Shard shard,
          ShardFromProto((instruction.feeds ? planned.outputs(0) : planned.inputs(0)).shard()));
      instruction.copy = std::make_unique<PortCopy>(shard);
      continue;
    }
    if (planned.kind() == plan::INSTRUCTION_BEGIN) continue;  // its token is all there is to it
    ASSIGN_OR_RETURN(const KernelSpec spec, SpecOf(planned, threads));
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = prepare(spec);
    if (!kernel.ok()) {
      return AddContext(kernel.status(),
                        absl::StrCat(planned.scope(), " (", InstructionName(planned), ")"));
    }
    instruction.kernel = *std::move(kernel);
    scratch_[actor] = std::max(scratch_[actor], instruction.kernel->scratch());
  }
  return absl::OkStatus();
}

absl::Status LoadedProgram::Run(const Actor& actor, KernelContext* context, std::byte* scratch) {
  if (null_) return absl::OkStatus();
  const Instruction& instruction =
      instructions_[index_.actor(actor.id()).first_instruction + actor.cursor()];
  std::byte** const operands = operands_.data() + instruction.operands_begin;
  for (int32_t m = instruction.moving_begin; m < instruction.moving_end; ++m) {
    const MovingOperand& moving = moving_[m];
    const int64_t token = moving.divisor.Quotient(actor.firing()) + moving.add;
    operands[moving.operand] = moving.slots[index_.SlotOf(moving.reg, token)] + moving.offset;
  }
  StepPorts& ports = this->ports(actor.step());
  context->step = ports.number;
  context->micro = actor.micro();
  if (instruction.kernel == nullptr) {
    if (instruction.copy != nullptr) CopyPort(instruction, *context, &ports);
    return absl::OkStatus();
  }
  absl::Status status = instruction.kernel->Run(*context, operands, scratch);
  if (!context->check_nan || !status.ok()) return status;
  return CheckResults(instruction);
}

void LoadedProgram::CopyPort(const Instruction& instruction, const KernelContext& context,
                             StepPorts* ports) const {
  std::byte* const operand = operands_[instruction.operands_begin + instruction.port_operand];
  if (instruction.feeds) {
    instruction.copy->Feed(ports->feeds[instruction.port].bytes.data(), context.micro, operand);
  } else {
    instruction.copy->Fetch(operand, context.micro, ports->fetches[instruction.port].bytes.data());
  }
}

absl::Status LoadedProgram::CheckResults(const Instruction& instruction) const {
  for (int c = instruction.checks_begin; c < instruction.checks_end; ++c) {
    const NanCheck& check = checks_[c];
    if (HasNan(check.dtype, operands_[instruction.operands_begin + check.operand],
               check.elements)) {
      return absl::OutOfRangeError("a result is NaN");
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
