#include "framework/compiler/schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/compiler/expansion.h"
#include "framework/plan/kinds.h"
#include "framework/plan/shard_proto.h"

namespace sluice {
namespace {

class ProgramBuilder {
 public:
  ProgramBuilder(const std::string& name, const TaskGraph& tasks, const Grid& grid,
                 const ScheduleOptions& options)
      : tasks_(tasks), grid_(grid), options_(options) {
    program_.set_name(name);
    program_.set_micro_batches(static_cast<int32_t>(grid.micro_batches()));
  }

  absl::StatusOr<Schedule> Build() {
    AddPorts(tasks_.feeds, program_.mutable_feeds());
    AddPorts(tasks_.fetches, program_.mutable_fetches());
    AssignActors();
    CollectUses();
    RETURN_IF_ERROR(CheckStop(options_.stop));
    AssignStorage();
    RETURN_IF_ERROR(FillScripts());
    AddControl();
    return Schedule{std::move(program_), std::move(actor_of_)};
  }

 private:
  // What is known of the bytes that a root value stands for.
  struct Use {
    std::vector<TaskId> readers;
    TaskId updater = -1;
    int32_t reg = -1, local = -1;
  };

  static void AddPorts(const std::vector<std::pair<std::string, TensorType>>& from,
                       google::protobuf::RepeatedPtrField<plan::Port>* to);
  void AssignActors();
  void CollectUses();
  void AssignStorage();
  int64_t Quota(const Value& value, const Use& use) const;
  bool CrossesStages(const Value& value, const Use& use) const;
  absl::Status FillScripts();
  void FillOperand(ValueId value, bool updates, plan::Operand* operand) const;
  void AddControl();
  int32_t Stream(int32_t device, plan::StreamKind kind);
  int32_t NewRegister(const std::string& name, int32_t producer, int32_t device);

  const TaskGraph& tasks_;
  const Grid& grid_;
  const ScheduleOptions& options_;
  plan::Program program_;
  std::vector<int32_t> actor_of_;  // by task
  std::vector<Use> uses_;          // by root value
  std::map<std::pair<int32_t, plan::StreamKind>, int32_t> streams_;
};

void ProgramBuilder::AddPorts(const std::vector<std::pair<std::string, TensorType>>& from,
                              google::protobuf::RepeatedPtrField<plan::Port>* to) {
  for (const auto& port : from) {
    plan::Port* added = to->Add();
    added->set_name(port.first);
    added->set_dtype(static_cast<int32_t>(port.second.dtype));
    for (int64_t extent : port.second.shape) added->add_shape(extent);
  }
}

int32_t ProgramBuilder::Stream(int32_t device, plan::StreamKind kind) {
  const auto found = streams_.find({device, kind});
  if (found != streams_.end()) return found->second;
  const int32_t index = program_.streams_size();
  plan::Stream* stream = program_.add_streams();
  stream->set_device(device);
  stream->set_kind(kind);
  streams_[{device, kind}] = index;
  return index;
}

void ProgramBuilder::AssignActors() {
  // (device, phase, firings, round, piece of at most script_length tasks) of a compute stream.
  std::map<std::tuple<int32_t, Phase, int64_t, int64_t, int64_t>, int32_t> scripts;
  std::map<std::tuple<int32_t, Phase, int64_t, int64_t>, int64_t> counts;
  int32_t fetch = -1;
  actor_of_.resize(tasks_.tasks.size());
  for (size_t t = 0; t < tasks_.tasks.size(); ++t) {
    const Task& task = tasks_.tasks[t];
    // Of what fires once as well: a script that begins before the first micro-batch and goes on
    // behind the last would hold up what the micro-batches in between read of its beginning.
    const int64_t round = task.round;
    int64_t piece = 0;
    int32_t* slot = nullptr;
    if (task.stream == plan::STREAM_COMPUTE) {
      const Phase phase = task.ScriptPhase();
      const int64_t count = counts[{task.device, phase, task.firings, round}]++;
      if (options_.script_length > 0) piece = count / options_.script_length;
      slot = &scripts.emplace(std::make_tuple(task.device, phase, task.firings, round, piece), -1)
                  .first->second;
    } else if (task.kind == plan::INSTRUCTION_FETCH) {
      slot = &fetch;
    }
    int32_t actor = slot == nullptr ? -1 : *slot;
    if (actor < 0) {
      actor = program_.actors_size();
      plan::Actor* added = program_.add_actors();
      added->set_stream(Stream(task.device, task.stream));
      added->set_firings_per_step(static_cast<int32_t>(task.firings));
      added->set_priority(actor);
      std::string name = absl::StrCat("d", task.device, ".");
      if (task.stream == plan::STREAM_COMPUTE) {
        absl::StrAppend(&name, PhaseName(task.ScriptPhase()), task.firings > 1 ? "" : ".once");
        if (round > 0) absl::StrAppend(&name, ".round", round);
        if (options_.script_length > 0) absl::StrAppend(&name, ".", piece);
      } else {
        absl::StrAppend(&name, InstructionKindName(task.kind));
        if (task.kind != plan::INSTRUCTION_FETCH) absl::StrAppend(&name, "(", task.scope, ")");
      }
      added->set_name(name);
      if (slot != nullptr) *slot = actor;
    }
    actor_of_[t] = actor;
  }
}

void ProgramBuilder::CollectUses() {
  uses_.resize(tasks_.values.size());
  for (size_t t = 0; t < tasks_.tasks.size(); ++t) {
    for (const TaskInput& input : tasks_.tasks[t].inputs) {
      Use& use = uses_[tasks_.values[input.value].root];
      if (input.updates) {
        use.updater = static_cast<TaskId>(t);
      } else {
        use.readers.push_back(static_cast<TaskId>(t));
      }
    }
  }
}

bool ProgramBuilder::CrossesStages(const Value& value, const Use& use) const {
  for (TaskId reader : use.readers) {
    if (tasks_.tasks[reader].stage != value.stage) return true;
  }
  if (value.producer < 0) return false;
  for (const TaskInput& input : tasks_.tasks[value.producer].inputs) {
    if (tasks_.values[input.value].stage != value.stage) return true;
  }
  return false;
}

int64_t ProgramBuilder::Quota(const Value& value, const Use& use) const {
  const Task& producer = tasks_.tasks[value.producer];
  const bool feed = producer.kind == plan::INSTRUCTION_FEED;
  if (value.tokens == 1) return feed ? options_.steps_ahead : 1;
  const bool saved = producer.phase == Phase::kForward &&
                     std::any_of(use.readers.begin(), use.readers.end(), [&](TaskId reader) {
                       return tasks_.tasks[reader].phase == Phase::kBackward;
                     });
  const bool joins = std::any_of(use.readers.begin(), use.readers.end(), [&](TaskId reader) {
    return tasks_.tasks[reader].round != tasks_.tasks[value.producer].round;
  });
  if (joins) return value.tokens;  // all firings are behind a join before the first is read
  const bool crosses = CrossesStages(value, use);
  const bool copied = producer.kind == plan::INSTRUCTION_COPY;  // while the last one is in use
  int64_t quota = crosses || feed || copied ? 2 : 1;
  if (saved) {
    quota = std::max(
        quota, std::min(grid_.micro_batches(), grid_.num_stages() - value.stage) + (feed ? 1 : 0));
  }
  return std::min(quota, value.tokens);
}

int32_t ProgramBuilder::NewRegister(const std::string& name, int32_t producer, int32_t device) {
  plan::Register* reg = program_.add_registers();
  reg->set_name(name);
  reg->set_producer(producer);
  reg->set_device(device);
  reg->set_quota(1);
  reg->set_emit_every(1);
  return program_.registers_size() - 1;
}

void ProgramBuilder::AssignStorage() {
  for (size_t v = 0; v < tasks_.values.size(); ++v) {
    const Value& value = tasks_.values[v];
    Use& use = uses_[v];
    if (value.root != static_cast<ValueId>(v)) continue;
    if (!value.variable.empty()) {
      if (use.readers.empty() && use.updater < 0 && !value.leaves_script) continue;
      use.reg =
          NewRegister(value.variable, use.updater < 0 ? -1 : actor_of_[use.updater], value.device);
      plan::Register* reg = program_.mutable_registers(use.reg);
      if (!value.cache) reg->set_variable(value.variable);
      if (options_.numbers) reg->set_number(value.number);
      reg->set_bytes(value.shard.NumBytes());
      reg->set_initial_tokens(use.updater < 0 ? 0 : 1);
      continue;
    }
    if (value.producer < 0) continue;  // a view target that nothing made
    const int32_t producer = actor_of_[value.producer];
    const Task& task = tasks_.tasks[value.producer];
    bool outside = task.every > 1 || value.leaves_script;
    for (TaskId reader : use.readers) outside |= actor_of_[reader] != producer;
    if (!outside) {
      use.local = program_.temporaries_size();
      plan::Temporary* local = program_.add_temporaries();
      local->set_actor(producer);
      local->set_bytes(value.shard.NumBytes());
      continue;
    }
    use.reg = NewRegister(value.name, producer, value.device);
    plan::Register* reg = program_.mutable_registers(use.reg);
    if (options_.numbers) reg->set_number(value.number);
    // Of another rank's, only what it holds comes here, and by a pull.
    const bool remote = task.kind == plan::INSTRUCTION_REMOTE;
    reg->set_bytes(remote ? 0 : std::max(value.shard.NumBytes(), value.reserved_bytes));
    reg->set_emit_every(static_cast<int32_t>(task.every));
    reg->set_quota(static_cast<int32_t>(Quota(value, use)));
  }
}

void ProgramBuilder::FillOperand(ValueId id, bool updates, plan::Operand* operand) const {
  const Value& value = tasks_.values[id];
  const Use& use = uses_[value.root];
  *operand->mutable_shard() = ShardToProto(value.shard);
  operand->set_offset(value.offset);
  operand->set_updates(updates);
  SLUICE_CHECK(use.reg >= 0 || use.local >= 0) << value.name << " has no storage";
  if (use.reg >= 0) {
    operand->set_register_(use.reg);
  } else {
    operand->set_temporary(use.local);
  }
}

absl::Status ProgramBuilder::FillScripts() {
  for (size_t t = 0; t < tasks_.tasks.size(); ++t) {
    RETURN_IF_ERROR(CheckStop(options_.stop));
    const Task& task = tasks_.tasks[t];
    plan::Instruction* instruction = program_.mutable_actors(actor_of_[t])->add_script();
    instruction->set_kind(task.kind);
    instruction->set_op(task.op);
    instruction->set_attributes(task.attributes);
    instruction->set_scope(task.scope);
    for (const TaskInput& input : task.inputs) {
      FillOperand(input.value, input.updates, instruction->add_inputs());
    }
    for (ValueId output : task.outputs) FillOperand(output, false, instruction->add_outputs());
    instruction->set_flops(task.flops);
    instruction->set_bytes(task.bytes);
    instruction->set_scratch(task.scratch);
    // A worker has scratch of the host's for what it runs itself; a card's is packed.
    if (task.scratch > 0 && grid_.mesh().devices()[task.device].kind == DeviceKind::kCuda) {
      instruction->set_scratch_offset(0);
    }
    instruction->set_nanoseconds(task.nanoseconds);
    instruction->set_cold_nanoseconds(task.cold_nanoseconds);
    instruction->set_wire_bytes(task.wire_bytes);
    instruction->set_reduction(static_cast<int32_t>(task.reduction));
    instruction->set_fill_identity(task.fill_identity);
    instruction->set_collective(task.collective);
    instruction->set_port(std::max(task.port, 0));
    if (options_.numbers) instruction->set_number(task.number);
    if (!task.calls.empty()) instruction->set_calls(static_cast<int32_t>(task.calls.size()));
    if (options_.outline) OutlineBoxing(instruction);
    for (const TaskRegion& region : task.regions) {
      if (options_.outline) break;
      plan::Region* added = instruction->add_regions();
      for (const Range& range : region.box) {
        added->add_begin(range.begin);
        added->add_end(range.end);
      }
      for (int source : region.sources) added->add_sources(source);
      for (int f : region.fold) added->add_fold(f);
      for (int64_t offset : region.source_offsets) added->add_source_offsets(offset);
      for (const Shape& strides : region.source_strides) {
        plan::Strides* values = added->add_source_strides();
        for (int64_t stride : strides) values->add_values(stride);
      }
      added->set_offset(region.offset);
      for (int64_t stride : region.strides) added->add_strides(stride);
      added->set_micro(region.micro);
    }
  }
  return absl::OkStatus();
}

// The session's token a step gates every actor that takes nothing else; a credit from fetch to
// feeds keeps the loop at most steps_ahead steps before the results.
void ProgramBuilder::AddControl() {
  const auto empty = [](int32_t reg) {
    plan::Operand operand;
    *operand.mutable_shard() = ShardToProto(Shard::Whole(DType::kF32, Shape{0}));
    operand.set_register_(reg);
    return operand;
  };
  int32_t credit = -1, step = -1;
  for (int a = 0; a < program_.actors_size(); ++a) {
    plan::Actor* actor = program_.mutable_actors(a);
    if (actor->script(0).kind() == plan::INSTRUCTION_FETCH) {
      credit = NewRegister("credit", a, program_.streams(actor->stream()).device());
      program_.mutable_registers(credit)->set_quota(static_cast<int32_t>(options_.steps_ahead));
      program_.mutable_registers(credit)->set_initial_tokens(
          static_cast<int32_t>(options_.steps_ahead));
      *actor->mutable_script(actor->script_size() - 1)->add_outputs() = empty(credit);
    }
  }
  for (int a = 0; a < program_.actors_size(); ++a) {
    plan::Actor* actor = program_.mutable_actors(a);
    if (credit >= 0 && actor->script(0).kind() == plan::INSTRUCTION_FEED) {
      *actor->mutable_script(0)->add_inputs() = empty(credit);
    }
    bool takes = actor->script(0).kind() == plan::INSTRUCTION_REMOTE;
    for (const plan::Instruction& instruction : actor->script()) {
      for (const plan::Operand& input : instruction.inputs()) {
        if (input.storage_case() != plan::Operand::kRegister) continue;
        const plan::Register& reg = program_.registers(input.register_());
        takes |= reg.producer() != a && input.register_() != credit;
      }
    }
    if (takes) continue;
    if (step < 0) {
      step = NewRegister("step", -1, program_.streams(actor->stream()).device());
      program_.mutable_registers(step)->set_quota(static_cast<int32_t>(options_.steps_ahead));
    }
    plan::Instruction begin;
    begin.set_kind(plan::INSTRUCTION_BEGIN);
    begin.set_scope("begin of a step");
    *begin.add_inputs() = empty(step);
    // First in the script.
    *actor->add_script() = begin;
    for (int i = actor->script_size() - 1; i > 0; --i)
      actor->mutable_script()->SwapElements(i, i - 1);
  }
}

}  // namespace

absl::StatusOr<Schedule> BuildSchedule(const std::string& name, const TaskGraph& tasks,
                                       const Grid& grid, const ScheduleOptions& options) {
  return ProgramBuilder(name, tasks, grid, options).Build();
}

}  // namespace sluice
