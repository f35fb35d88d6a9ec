// Boxing over space: each step of a phase is one item of the stage that writes, a task on each of
// its devices. What must be alike on all devices of a stage is decided here once for all of them: a
// buffer is there even where it has no elements, a view is one everywhere or nowhere, and a task
// waits for the buffer before it, its own or the one that stands for its place on another stage,
// whether or not it takes bytes of it.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/compiler/box_time.h"
#include "framework/compiler/boxing_writes.h"
#include "framework/compiler/lower.h"

namespace sluice {
namespace {

// Of a slice that is one run: elements from the start of the whole to a device's shard.
int64_t SliceOffset(const BoxingPhase& phase, const Shape& shape, int64_t place) {
  const std::vector<Box> mine = PhasePieces(phase, shape, 1, place);
  return mine.empty() ? 0 : FlatOffset(PhasePieces(phase, shape, 0, place)[0], mine[0]);
}

}  // namespace

bool Boxer::PhaseStep::last() const {
  return phase_index + 1 == boxing.phases.size() && step + 1 == PhaseStepCount(symbolic());
}

Boxer::Values Boxer::EmitBoxing(const At& at, const SymbolicBoxing& boxing, const GridSbp& wanted,
                                int32_t stage, Phase phase) {
  const int64_t tokens = grid_.Firings(wanted);
  const Values made = Make(at.tensor, wanted, stage, tokens);
  Values held = at.values;
  const Shape shape = grid_.FiringShape(at.sbp, graph_.tensor(at.tensor).type.shape);
  PhaseStep step = {at, boxing, 0, 0, shape, at.stage, at.stage, tokens, phase};
  const auto note = static_cast<int32_t>(tasks_->boxings.size());  // behind its tasks
  std::string recipe;
  for (; step.phase_index < boxing.phases.size(); ++step.phase_index) {
    const BoxingPhase& symbolic = step.symbolic();
    const int steps = PhaseStepCount(symbolic);
    absl::StrAppend(&recipe, recipe.empty() ? "" : "+");
    if (!(symbolic.from.mesh == symbolic.to.mesh)) step.to_stage = stage;
    if (const auto collective = FindCollective(step); collective.has_value()) {
      step.step = steps - 1;
      held = EmitCollective(step, *collective, held, made);
      absl::StrAppend(&recipe, CollectiveName(*collective, symbolic.axis));
      continue;
    }
    absl::StrAppend(&recipe, PhaseName(symbolic));
    for (step.step = 0; step.step < steps; ++step.step) {
      if (classes_.through_hosts() && !step.on_hosts && step.reads_others() &&
          !CopiesInRanks(step)) {
        held = OnHosts(held, phase, note);
        step.on_hosts = true;
      }
      held = EmitStep(step, held, made);
      step.from_stage = step.to_stage;
    }
  }
  if (step.on_hosts) CopyTo(held, made, phase, note);
  if (boxing.phases.empty()) {
    for (size_t m = 0; m < made.size(); ++m) View(made[m], held[m], 0);
    return made;
  }
  if (at.stage != stage) absl::StrAppend(&recipe, " stage ", at.stage, "->", stage);
  Note(at, recipe, wanted, phase, tokens, boxing.bytes, boxing.between_hosts);
  return made;
}

void Boxer::View(ValueId view, ValueId source, int64_t offset) {
  Value& made = tasks_->values[view];
  const Value& from = tasks_->values[source];
  made.root = from.root;
  made.view_of = source;
  made.offset = from.offset + offset;
  made.producer = from.producer;
  made.round = from.round;
}

Boxer::Values Boxer::OutputsOf(const PhaseStep& step, const Values& made) {
  if (step.last()) return step.on_hosts ? HostsOf(made) : made;
  Values outputs;
  const int32_t number = NextNumber(step.to_stage);
  for (int32_t place : classes_.members(step.to_stage)) {
    outputs.push_back(BufferValue(step, place, number));
  }
  return outputs;
}

Boxer::Values Boxer::EmitStep(const PhaseStep& step, const Values& held, const Values& made) {
  ++sequence_;
  const Values outputs = OutputsOf(step, made);
  if (step.load().in_place) {
    ReadInPlace(step, held, outputs);
    return outputs;
  }
  const bool follows = FollowsCompute(step, held);
  const bool reads_others = step.reads_others();
  for (ValueId v : held) {
    if (!follows || reads_others) tasks_->values[tasks_->values[v].root].leaves_script = true;
  }
  // A rank knows a reader on another one by the register that this writes.
  for (ValueId v : outputs) tasks_->values[v].leaves_script |= follows && reads_others;
  for (size_t m = 0; m < outputs.size(); ++m) {
    EmitWrite(step, held, classes_.members(step.to_stage)[m], outputs[m],
              follows ? plan::STREAM_COMPUTE : StreamOf(outputs[m]));
  }
  const bool read_elsewhere = (!follows || reads_others) && !CopiesInRanks(step);
  if (read_elsewhere) AddRemoteReaders(step, held, tasks_->values[outputs[0]].number);
  return outputs;
}

// The value behind a buffer between two steps; its pieces become one here.
ValueId Boxer::BufferValue(const PhaseStep& step, int32_t place, int32_t number) {
  const BoxingPhase& phase = step.symbolic();
  const DType dtype = graph_.tensor(step.at.tensor).type.dtype;
  Value value;
  value.name = tasks_->values[step.at.values[0]].name;
  value.number = number;
  value.stage = step.to_stage;
  value.device = grid_.DeviceIndex(step.to_stage, place);
  if (step.on_hosts) value.device = classes_.host(value.device);
  value.shard =
      Shard::Whole(dtype, Shape{Elements(PhasePieces(phase, step.shape, step.step + 1, place))});
  value.reserved_bytes = LargestBuffer(phase, step.shape, step.step + 1) * SizeOf(dtype);
  value.tokens = step.tokens;
  return Add(std::move(value));
}

// A slice that is one contiguous run is read in place: no task and no bytes.
void Boxer::ReadInPlace(const PhaseStep& step, const Values& held, const Values& outputs) {
  const BoxingPhase& phase = step.symbolic();
  const int64_t element = SizeOf(graph_.tensor(step.at.tensor).type.dtype);
  for (size_t m = 0; m < outputs.size(); ++m) {
    const int32_t place = classes_.members(step.to_stage)[m];
    View(outputs[m], held[m], SliceOffset(phase, step.shape, place) * element);
    sliced_[outputs[m]] = {phase, step.shape, element};
  }
}

// Bytes from the start of the root's slot to what another device of the stage has for a value.
int64_t Boxer::OffsetAt(ValueId value, int64_t place) const {
  int64_t offset = 0;
  for (; tasks_->values[value].view_of >= 0; value = tasks_->values[value].view_of) {
    const auto sliced = sliced_.find(value);
    if (sliced == sliced_.end()) continue;
    const SlicedView& view = sliced->second;
    offset += SliceOffset(view.phase, view.shape, place) * view.element_bytes;
  }
  return offset;
}

ValueId Boxer::Foreign(const Values& values, int32_t stage, int64_t place, const Shard& shard,
                       int32_t reader) {
  const Value& held = tasks_->values[values[0]];
  Value value;
  value.name = held.name;
  value.number = tasks_->values[held.root].number;
  value.device = classes_.host(grid_.DeviceIndex(stage, place));
  value.stage = stage;
  value.shard = shard;
  value.tokens = held.tokens;
  value.offset = OffsetAt(values[0], place);
  Task task;
  task.kind = plan::INSTRUCTION_REMOTE;
  task.scope = value.name;
  task.stream = plan::STREAM_NET;
  task.device = value.device;
  task.stage = stage;
  task.firings = value.tokens;
  if (held.producer >= 0) task.position = tasks_->tasks[held.producer].position;
  task.number = reader;
  const int64_t round = held.round;
  const ValueId id = Add(std::move(value));
  task.outputs = {id};
  Add(std::move(task));
  tasks_->values[id].round = round;
  return id;
}

void Boxer::AddRemoteReader(ValueId value, int32_t device, int32_t stage, int32_t reader,
                            const Task& like) {
  Task task;
  task.kind = plan::INSTRUCTION_REMOTE;
  task.scope = like.scope;
  task.phase = like.phase;
  task.stream = plan::STREAM_NET;
  task.device = classes_.host(device);
  task.stage = stage;
  task.firings = like.firings;
  task.position = like.position;
  task.inputs = {{value, false}};
  task.number = reader;
  Add(std::move(task));
}

// Whoever reads what a device of this rank holds, on other ranks: for bytes, or because it waits
// for the one that stands for it.
void Boxer::AddRemoteReaders(const PhaseStep& step, const Values& held, int32_t reader) {
  const BoxingPhase& phase = step.symbolic();
  const bool between = phase.axis < 0 && step.step == 0;
  const int64_t sources = static_cast<int64_t>(classes_.slots(step.from_stage).size());
  const int64_t targets = static_cast<int64_t>(classes_.slots(step.to_stage).size());
  Task like = FoldTask(step.at, held[0], step.phase);
  like.position.second = sequence_;
  like.firings = step.tokens;
  for (int32_t place : classes_.members(step.from_stage)) {
    const int32_t slot = classes_.slot(step.from_stage, place);
    if (slot < 0 || !classes_.any_foreign()) continue;
    const std::vector<int64_t>& found = planner_->Readers(phase, step.shape, place)[step.step];
    std::set<int64_t> readers(found.begin(), found.end());
    for (int64_t to = place; between && to < targets; to += sources) {
      if (WaitedFor(phase, step.step, to) == place) readers.insert(to);
    }
    for (int64_t to : readers) {
      if (classes_.slot(step.to_stage, to) >= 0) continue;
      AddRemoteReader(held[slot], grid_.DeviceIndex(step.to_stage, to), step.to_stage, reader,
                      like);
    }
  }
}

// Whether the step is one more instruction of a script of its device: it reads what that has just
// made, or parts of a variable, which are at hand everywhere and are brought together when the
// script comes to their reader. Behind anything else it would make the script wait; and where there
// are micro-batches, a script of one firing may wait for all of them before it comes to this.
bool Boxer::FollowsCompute(const PhaseStep& step, const Values& held) const {
  const PhaseStepLoad& load = step.load();
  const Value& value = tasks_->values[held[0]];
  const TaskId made_by = value.producer;
  const bool local = load.near + load.far + load.messages == 0;
  if (made_by < 0) {
    const bool once = grid_.micro_batches() == 1;
    return value.stage == step.to_stage && (once || (local && step.phase == Phase::kUpdate));
  }
  if (!local) return false;
  const Task& producer = tasks_->tasks[made_by];
  return producer.stream == plan::STREAM_COMPUTE && producer.stage == step.to_stage &&
         producer.phase == step.phase && producer.firings == step.tokens;
}

void Boxer::EmitWrite(const PhaseStep& step, const Values& held, int32_t place, ValueId output,
                      plan::StreamKind stream) {
  const BoxingPhase& phase = step.symbolic();
  const TensorType& type = graph_.tensor(step.at.tensor).type;
  if (!classes_.Wanted(step.to_stage, place)) return EmitShadow(step, held, output, stream);
  const PhaseWrite& write = planner_->Steps(phase, step.shape, place)[step.step];
  Task task = FoldTask(step.at, output, step.phase);
  if (CopiesInRanks(step)) task.kind = plan::INSTRUCTION_COPY;
  task.stream = stream;
  task.position.second = sequence_;
  task.firings = step.tokens;
  task.reduction = ReductionOf(phase.from.sbp);
  if (task.reduction == Reduction::kNone) task.reduction = ReductionOf(phase.to.sbp);
  task.fill_identity = write.fill_identity;
  AddRegions(step, held, place, write, &task);
  SetStepTime(machine_, type.dtype, step.load(), &task);
  Add(std::move(task));
}

// What stands for the stage where a rank has no device of it: what it makes is looked at, for the
// round and the stream, and dropped in the end.
void Boxer::EmitShadow(const PhaseStep& step, const Values& held, ValueId output,
                       plan::StreamKind stream) {
  Task task = FoldTask(step.at, output, step.phase);
  if (CopiesInRanks(step)) task.kind = plan::INSTRUCTION_COPY;
  task.stream = stream;
  task.position.second = sequence_;
  task.firings = step.tokens;
  task.inputs = {{held[0], false}};
  Add(std::move(task));
}

void Boxer::AddRegions(const PhaseStep& step, const Values& held, int32_t place,
                       const PhaseWrite& write, Task* task) {
  const BoxingPhase& phase = step.symbolic();
  const bool between = step.from_stage != step.to_stage;
  const int64_t element = SizeOf(graph_.tensor(step.at.tensor).type.dtype);
  const int32_t reader = tasks_->values[task->outputs[0]].number;
  std::map<int64_t, int> input_at;  // by place
  std::map<ValueId, int> inputs;
  const auto input_of = [&](int64_t source) {
    const auto known = input_at.find(source);
    if (known != input_at.end()) return known->second;
    const ValueId value = SourceOf(step, held, source, reader);
    const auto [input, fresh] = inputs.emplace(value, static_cast<int>(task->inputs.size()));
    if (fresh) task->inputs.push_back({value, false});
    return input_at[source] = input->second;
  };
  for (const PhaseRegion& region : write.regions) {
    TaskRegion made;
    made.box = region.box;
    made.fold = region.fold;
    const int64_t bytes = Volume(region.box) * element;
    task->bytes += bytes * static_cast<int64_t>(region.sources.size() + 1);
    for (const PhaseSource& source : region.sources) {
      made.sources.push_back(input_of(source.device));
      auto at_source = Locate(PhasePieces(phase, step.shape, step.step, source.device), region.box);
      made.source_offsets.push_back(at_source.first);
      made.source_strides.push_back(std::move(at_source.second));
      if (between || source.device != place) task->wire_bytes += bytes;
    }
    std::tie(made.offset, made.strides) = Locate(write.pieces, region.box);
    task->regions.push_back(std::move(made));
  }
  input_of(WaitedFor(phase, step.step, place));
}

// The value that a device of the stage that is read holds, wherever that is.
ValueId Boxer::SourceOf(const PhaseStep& step, const Values& held, int64_t place, int32_t reader) {
  const int32_t slot = classes_.slot(step.from_stage, place);
  if (slot >= 0) return held[slot];
  const DType dtype = graph_.tensor(step.at.tensor).type.dtype;
  const int64_t elements = Elements(PhasePieces(step.symbolic(), step.shape, step.step, place));
  return Foreign(held, step.from_stage, place, Shard::Whole(dtype, Shape{elements}), reader);
}

}  // namespace sluice
