#include "framework/testing/plan_executor.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/actor/program_state.h"
#include "framework/base/status.h"
#include "framework/graph/interpreter.h"
#include "framework/plan/kinds.h"
#include "framework/plan/program_index.h"
#include "framework/plan/shard_proto.h"
#include "framework/runtime/loaded_program.h"
#include "framework/testing/reference_kernels.h"

namespace sluice {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kUnwritten = 0xFF;  // every float of such bytes is NaN

Shape ShapeFrom(const google::protobuf::RepeatedField<int64_t>& values) {
  return Shape(absl::MakeConstSpan(values.data(), values.size()));
}

// A program made ready: kernels, actors, and the messages on their way.
struct Loaded {
  explicit Loaded(ProgramIndex built) : index(std::move(built)), state(&index) {}

  const ProgramIndex index;
  ProgramState state;
  std::vector<std::vector<std::unique_ptr<Kernel>>> kernels;  // by actor and instruction
  std::vector<std::vector<std::byte>> scratch;                // by actor
  int64_t steps = 0;                                          // begun since the start
  // Messages from one actor to another arrive in order; other orders are free.
  std::map<std::pair<int32_t, int32_t>, std::deque<Message>> channels;
  std::vector<std::pair<int32_t, int32_t>> filled;  // channels that hold a message
};

class PlanExecutorImpl : public PlanExecutor {
 public:
  PlanExecutorImpl(plan::Plan plan, const PlanExecutorOptions& options)
      : plan_(std::move(plan)), options_(options), random_(options.interleaving) {
    if (!options_.prepare) options_.prepare = PrepareReferenceKernel;
  }

  absl::Status Initialize() {
    for (const plan::Device& device : plan_.devices()) {
      std::vector<std::byte>& bytes = memory_.emplace_back(device.memory_bytes() + kAlignment);
      std::memset(bytes.data(), kUnwritten, bytes.size());
      const size_t odd = reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment;
      arenas_.push_back(bytes.data() + (odd == 0 ? 0 : kAlignment - odd));
    }
    for (const plan::Variable& variable : plan_.variables()) {
      RETURN_IF_ERROR(AddContext(Draw(variable), variable.name()));
    }
    for (const plan::Program& program : plan_.programs()) {
      RETURN_IF_ERROR(AddContext(Load(program), absl::StrCat("program ", program.name())));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<HostTensorMap>> Steps(int program,
                                                   const std::vector<HostTensorMap>& feeds,
                                                   int64_t first_step) override;
  absl::StatusOr<HostTensor> Read(const std::string& variable) const override;
  absl::Status Write(const std::string& variable, const HostTensor& value) override;
  absl::Status CheckReplicas() const override;
  const plan::Plan& plan() const override { return plan_; }

 private:
  // One call of Steps: step `first` + i of the program's count is number `number` + i.
  struct Call {
    int64_t first, number;
    const std::vector<HostTensorMap>* feeds;
    std::vector<HostTensorMap>* results;
  };

  absl::Status Draw(const plan::Variable& variable);
  absl::Status Load(const plan::Program& program);
  void Post(int32_t from, const MessageList& messages, Loaded* loaded) const;
  absl::Status RunInstruction(int a, const Call& call, Loaded* loaded);
  absl::Status Feed(const plan::Program& program, const plan::Instruction& instruction, int micro,
                    const HostTensorMap& feeds, std::byte* output) const;
  absl::Status Fetch(const plan::Program& program, const plan::Instruction& instruction, int micro,
                     const std::byte* input, HostTensorMap* results) const;
  std::byte* AddressOf(const Loaded& loaded, const Actor& actor, int operand_index,
                       const plan::Operand& operand) const;
  std::byte* RegisterAddress(const Loaded& loaded, int32_t reg, int32_t slot) const;
  void Poison(const Loaded& loaded, const Actor& actor) const;
  absl::StatusOr<const plan::Variable*> Find(const std::string& name) const;
  absl::Status Stuck(const Loaded& loaded) const;

  const plan::Plan plan_;
  PlanExecutorOptions options_;
  std::mt19937_64 random_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::byte*> arenas_;
  std::vector<std::unique_ptr<Loaded>> programs_;
};

absl::Status PlanExecutorImpl::Draw(const plan::Variable& variable) {
  ASSIGN_OR_RETURN(const VariableAttributes init,
                   ParseAttributes<VariableAttributes>(variable.init()));
  for (const plan::VariableShard& proto : variable.shards()) {
    ASSIGN_OR_RETURN(const Shard shard, ShardFromProto(proto.shard()));
    const Array values =
        InitialShard(variable.name(), init, shard.logical, shard.BoxAt(0), options_.seed);
    std::byte* const data = arenas_[proto.device()] + proto.offset();
    for (size_t i = 0; i < values.values.size(); ++i) {
      StoreElement(shard.dtype, data, static_cast<int64_t>(i), values.values[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status PlanExecutorImpl::Load(const plan::Program& program) {
  ASSIGN_OR_RETURN(ProgramIndex index, ProgramIndex::Build(program));
  auto loaded = std::make_unique<Loaded>(std::move(index));
  for (const plan::Actor& actor : program.actors()) {
    auto& kernels = loaded->kernels.emplace_back();
    int64_t scratch = 0;
    for (const plan::Instruction& instruction : actor.script()) {
      kernels.emplace_back();
      if (!NeedsKernel(instruction.kind())) continue;
      ASSIGN_OR_RETURN(const KernelSpec spec, SpecOf(instruction, /*threads=*/1));
      auto kernel = options_.prepare(spec);
      RETURN_IF_ERROR(
          AddContext(kernel.status(), absl::StrCat(instruction.scope(), " (", spec.op, ")")));
      kernels.back() = *std::move(kernel);
      scratch = std::max(scratch, kernels.back()->scratch());
    }
    loaded->scratch.emplace_back(scratch + kAlignment);
  }
  loaded->state.set_step_limit(0);
  programs_.push_back(std::move(loaded));
  return absl::OkStatus();
}

void PlanExecutorImpl::Post(int32_t from, const MessageList& messages, Loaded* loaded) const {
  for (const Message& message : messages) {
    const auto key = std::make_pair(from, message.to);
    std::deque<Message>& channel = loaded->channels[key];
    if (channel.empty()) loaded->filled.push_back(key);
    channel.push_back(message);
  }
}

absl::StatusOr<std::vector<HostTensorMap>> PlanExecutorImpl::Steps(
    int program, const std::vector<HostTensorMap>& feeds, int64_t first_step) {
  Loaded& loaded = *programs_[program];
  std::vector<HostTensorMap> results(feeds.size());
  const Call call = {loaded.steps, first_step, &feeds, &results};
  for (size_t i = 0; i < feeds.size(); ++i) {
    MessageList grants;
    GrantStep(loaded.index, loaded.steps++, &grants);
    Post(-1, grants, &loaded);
  }
  loaded.state.set_step_limit(loaded.steps);
  std::vector<int32_t> ready;
  while (true) {
    ready.clear();
    for (int a = 0; a < loaded.index.num_actors(); ++a) {
      if (loaded.state.CanRun(a)) ready.push_back(a);
    }
    const size_t choices = ready.size() + loaded.filled.size();
    if (choices == 0) break;
    const size_t pick = random_() % choices;
    if (pick < ready.size()) {
      const int32_t a = ready[pick];
      RETURN_IF_ERROR(RunInstruction(a, call, &loaded));
      MessageList messages;
      loaded.state.Finish(a, 0, &messages);
      Post(a, messages, &loaded);
      continue;
    }
    auto& key = loaded.filled[pick - ready.size()];
    std::deque<Message>& channel = loaded.channels[key];
    loaded.state.Deliver(channel.front());
    channel.pop_front();
    if (!channel.empty()) continue;
    key = loaded.filled.back();
    loaded.filled.pop_back();
  }
  if (!loaded.state.Done()) return Stuck(loaded);
  return results;
}

absl::Status PlanExecutorImpl::Stuck(const Loaded& loaded) const {
  std::string text = "the program stands still:";
  for (int a = 0; a < loaded.index.num_actors(); ++a) {
    const Actor& actor = loaded.state.actor(a);
    if (actor.Done()) continue;
    absl::StrAppend(&text, " ", loaded.index.Describe(a, actor.firing(), actor.cursor()), ";");
  }
  return absl::InternalError(text);
}

std::byte* PlanExecutorImpl::RegisterAddress(const Loaded& loaded, int32_t reg,
                                             int32_t slot) const {
  const plan::Register& proto = loaded.index.program().registers(reg);
  std::byte* const arena = arenas_[proto.device()];
  if (proto.variable().empty()) {
    return proto.bytes() == 0 ? arena : arena + loaded.index.SlotOffset(reg, slot);
  }
  for (const plan::Variable& variable : plan_.variables()) {
    if (variable.name() != proto.variable()) continue;
    for (const plan::VariableShard& shard : variable.shards()) {
      if (shard.device() == proto.device()) return arena + shard.offset();
    }
  }
  return nullptr;
}

std::byte* PlanExecutorImpl::AddressOf(const Loaded& loaded, const Actor& actor, int operand_index,
                                       const plan::Operand& operand) const {
  const int32_t slot = actor.SlotOf(operand_index);
  if (slot < 0) {
    return arenas_[loaded.index.device_of(actor.id())] +
           loaded.index.program().temporaries(operand.temporary()).offset() + operand.offset();
  }
  return RegisterAddress(loaded, operand.register_(), slot) + operand.offset();
}

// What the instruction at the cursor is going to write is nobody's data any more.
void PlanExecutorImpl::Poison(const Loaded& loaded, const Actor& actor) const {
  const plan::Instruction& instruction = actor.instruction();
  const plan::Program& program = loaded.index.program();
  for (int i = 0; i < instruction.outputs_size(); ++i) {
    const plan::Operand& operand = instruction.outputs(i);
    if (operand.takes() > 0) continue;  // an input lies there yet
    int64_t bytes = 0;
    if (operand.storage_case() == plan::Operand::kTemporary) {
      bytes = program.temporaries(operand.temporary()).bytes();
    } else {
      const ProgramIndex::Register& reg = loaded.index.reg(operand.register_());
      if (actor.cursor() != reg.first_write || actor.firing() % reg.every != 0) continue;
      if (!program.registers(operand.register_()).variable().empty()) continue;
      bytes = program.registers(operand.register_()).bytes();
    }
    std::byte* const data = AddressOf(loaded, actor, instruction.inputs_size() + i, operand);
    if (bytes > 0) std::memset(data - operand.offset(), kUnwritten, bytes);
  }
}

absl::Status PlanExecutorImpl::RunInstruction(int a, const Call& call, Loaded* loaded) {
  const Actor& actor = loaded->state.actor(a);
  const plan::Instruction& instruction = actor.instruction();
  if (instruction.kind() == plan::INSTRUCTION_BEGIN) return absl::OkStatus();
  Poison(*loaded, actor);
  std::vector<std::byte*> operands;
  for (const plan::Operand& operand : instruction.inputs()) {
    operands.push_back(AddressOf(*loaded, actor, static_cast<int>(operands.size()), operand));
  }
  for (const plan::Operand& operand : instruction.outputs()) {
    operands.push_back(AddressOf(*loaded, actor, static_cast<int>(operands.size()), operand));
  }
  const int64_t step = actor.step() - call.first;
  absl::Status status;
  if (instruction.kind() == plan::INSTRUCTION_FEED) {
    status = Feed(loaded->index.program(), instruction, actor.micro(), (*call.feeds)[step],
                  operands[instruction.inputs_size()]);
  } else if (instruction.kind() == plan::INSTRUCTION_FETCH) {
    status = Fetch(loaded->index.program(), instruction, actor.micro(), operands[0],
                   &(*call.results)[step]);
  } else {
    KernelContext firing;
    firing.step = call.number + step;
    firing.micro = actor.micro();
    firing.seed = options_.seed;
    std::byte* scratch = loaded->scratch[a].data();
    scratch += (kAlignment - reinterpret_cast<uintptr_t>(scratch) % kAlignment) % kAlignment;
    status = loaded->kernels[a][actor.cursor()]->Launch(firing, operands.data(), scratch);
  }
  return AddContext(status, loaded->index.Describe(a, actor.firing(), actor.cursor()));
}

absl::Status PlanExecutorImpl::Feed(const plan::Program& program,
                                    const plan::Instruction& instruction, int micro,
                                    const HostTensorMap& feeds, std::byte* output) const {
  const plan::Port& port = program.feeds(instruction.port());
  const auto found = feeds.find(port.name());
  if (found == feeds.end()) {
    return absl::InvalidArgumentError(absl::StrCat("input ", port.name(), " has no value"));
  }
  ASSIGN_OR_RETURN(const Shard shard, ShardFromProto(instruction.outputs(0).shard()));
  if (found->second.shape != shard.logical || found->second.dtype != shard.dtype) {
    return absl::InvalidArgumentError(absl::StrCat("input ", port.name(), ": expected ",
                                                   shard.logical.ToString(), ", got ",
                                                   found->second.shape.ToString()));
  }
  const int64_t size = SizeOf(shard.dtype);
  const std::byte* const from = found->second.bytes.data();
  ForEachRow(WholeBox(shard.logical), shard.BoxAt(micro), [&](int64_t offset, int64_t length) {
    std::memcpy(output, from + offset * size, length * size);
    output += length * size;
  });
  return absl::OkStatus();
}

absl::Status PlanExecutorImpl::Fetch(const plan::Program& program,
                                     const plan::Instruction& instruction, int micro,
                                     const std::byte* input, HostTensorMap* results) const {
  const plan::Port& port = program.fetches(instruction.port());
  ASSIGN_OR_RETURN(const Shard shard, ShardFromProto(instruction.inputs(0).shard()));
  HostTensor& result =
      results->emplace(port.name(), HostTensor(shard.dtype, shard.logical)).first->second;
  const int64_t size = SizeOf(shard.dtype);
  ForEachRow(WholeBox(shard.logical), shard.BoxAt(micro), [&](int64_t offset, int64_t length) {
    std::memcpy(result.bytes.data() + offset * size, input, length * size);
    input += length * size;
  });
  return absl::OkStatus();
}

absl::StatusOr<const plan::Variable*> PlanExecutorImpl::Find(const std::string& name) const {
  for (const plan::Variable& variable : plan_.variables()) {
    if (variable.name() == name) return &variable;
  }
  return absl::NotFoundError(absl::StrCat("the plan has no variable ", name));
}

absl::StatusOr<HostTensor> PlanExecutorImpl::Read(const std::string& name) const {
  ASSIGN_OR_RETURN(const plan::Variable* const variable, Find(name));
  HostTensor whole(static_cast<DType>(variable->dtype()), ShapeFrom(variable->shape()));
  const int64_t size = SizeOf(whole.dtype);
  for (const plan::VariableShard& proto : variable->shards()) {
    ASSIGN_OR_RETURN(const Shard shard, ShardFromProto(proto.shard()));
    const std::byte* from = arenas_[proto.device()] + proto.offset();
    ForEachRow(WholeBox(shard.logical), shard.BoxAt(0), [&](int64_t offset, int64_t length) {
      std::memcpy(whole.bytes.data() + offset * size, from, length * size);
      from += length * size;
    });
  }
  return whole;
}

absl::Status PlanExecutorImpl::Write(const std::string& name, const HostTensor& value) {
  ASSIGN_OR_RETURN(const plan::Variable* const variable, Find(name));
  if (value.shape != ShapeFrom(variable->shape()) ||
      value.dtype != static_cast<DType>(variable->dtype())) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable ", name, ": got ", value.shape.ToString()));
  }
  const int64_t size = SizeOf(value.dtype);
  for (const plan::VariableShard& proto : variable->shards()) {
    ASSIGN_OR_RETURN(const Shard shard, ShardFromProto(proto.shard()));
    std::byte* to = arenas_[proto.device()] + proto.offset();
    ForEachRow(WholeBox(shard.logical), shard.BoxAt(0), [&](int64_t offset, int64_t length) {
      std::memcpy(to, value.bytes.data() + offset * size, length * size);
      to += length * size;
    });
  }
  return absl::OkStatus();
}

absl::Status PlanExecutorImpl::CheckReplicas() const {
  for (const plan::Variable& variable : plan_.variables()) {
    for (int i = 0; i < variable.shards_size(); ++i) {
      ASSIGN_OR_RETURN(const Shard a, ShardFromProto(variable.shards(i).shard()));
      for (int j = 0; j < i; ++j) {
        ASSIGN_OR_RETURN(const Shard b, ShardFromProto(variable.shards(j).shard()));
        if (a.offset != b.offset || a.local != b.local) continue;
        if (std::memcmp(arenas_[variable.shards(i).device()] + variable.shards(i).offset(),
                        arenas_[variable.shards(j).device()] + variable.shards(j).offset(),
                        a.NumBytes()) == 0) {
          continue;
        }
        return absl::DataLossError(absl::StrCat("variable ", variable.name(), ": devices ",
                                                variable.shards(j).device(), " and ",
                                                variable.shards(i).device(), " differ"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HostTensorMap> PlanExecutor::Step(int program, const HostTensorMap& feeds,
                                                 int64_t step) {
  ASSIGN_OR_RETURN(std::vector<HostTensorMap> results, Steps(program, {feeds}, step));
  return std::move(results[0]);
}

absl::StatusOr<std::unique_ptr<PlanExecutor>> PlanExecutor::Create(
    plan::Plan plan, const PlanExecutorOptions& options) {
  auto executor = std::make_unique<PlanExecutorImpl>(std::move(plan), options);
  RETURN_IF_ERROR(executor->Initialize());
  return executor;
}

}  // namespace sluice
