#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/compiler/box_time.h"
#include "framework/compiler/boxing_writes.h"
#include "framework/compiler/lower.h"
#include "framework/plan/kinds.h"

namespace sluice {
namespace {

// What firing `micro` copies: `box`, out of a source that holds one box to `place` in a target that
// holds another.
TaskRegion PieceAt(int64_t micro, const Box& box, const Box& source, const Box& place,
                   const Box& target) {
  TaskRegion region;
  region.box = box;
  region.sources = region.fold = {0};
  region.source_offsets = {FlatOffset(source, box)};
  region.source_strides = {ShapeOf(source).Strides()};
  region.offset = FlatOffset(target, place);
  region.strides = ShapeOf(target).Strides();
  region.micro = static_cast<int32_t>(micro + 1);
  return region;
}

}  // namespace

ValueId Boxer::Add(Value value) {
  const ValueId id = static_cast<ValueId>(tasks_->values.size());
  if (value.root < 0) value.root = id;
  tasks_->values.push_back(std::move(value));
  return id;
}

TaskId Boxer::Add(Task task) {
  const TaskId id = static_cast<TaskId>(tasks_->tasks.size());
  for (const TaskInput& input : task.inputs) {
    task.round = std::max(task.round, tasks_->values[input.value].round);
  }
  for (ValueId v : task.outputs) {
    tasks_->values[v].producer = id;
    tasks_->values[v].round = task.round + (task.every > 1 ? 1 : 0);
  }
  tasks_->tasks.push_back(std::move(task));
  return id;
}

Boxer::Values Boxer::Make(TensorId tensor, const GridSbp& sbp, int32_t stage, int64_t tokens) {
  const TensorInfo& info = graph_.tensor(tensor);
  const Node& node = graph_.node(info.producer);
  Values values;
  const int32_t number = NextNumber(stage);
  for (int32_t d : classes_.members(stage)) {
    Value value;
    value.number = number;
    value.name = node.outputs.size() == 1 ? node.name : absl::StrCat(node.name, ":", info.output);
    value.stage = stage;
    value.device = grid_.DeviceIndex(stage, d);
    value.shard = grid_.ShardAt(sbp, info.type, stage, d);
    value.tokens = tokens;
    values.push_back(Add(std::move(value)));
  }
  return values;
}

void Boxer::Put(TensorId tensor, const GridSbp& sbp, int32_t stage, Values values) {
  values_[{tensor, sbp, stage}] = std::move(values);
}

void Boxer::Note(const At& at, const std::string& recipe, const GridSbp& to, Phase phase,
                 int64_t firings, int64_t bytes, int64_t between_hosts) {
  tasks_->boxings.push_back({tasks_->values[at.values[0]].name, recipe, grid_.ToString(at.sbp),
                             grid_.ToString(to), reader_, phase, firings, bytes, between_hosts});
}

// A task that moves what `at` holds; it stands right behind the op that made that. A variable is
// there from the start, and what the host feeds soon after: what these are brought to where they
// stand is made right before its first reader, so that it takes bytes no sooner.
Task Boxer::FoldTask(const At& at, ValueId output, Phase phase) const {
  const Value& source = tasks_->values[at.values[0]];
  const Value& target = tasks_->values[output];
  Task task;
  task.kind = plan::INSTRUCTION_FOLD;
  task.scope = source.name;
  task.boxing = static_cast<int32_t>(tasks_->boxings.size());  // its note follows its tasks
  task.phase = phase;
  task.device = target.device;
  task.stage = target.stage;
  task.outputs = {output};
  const bool made =
      source.producer >= 0 && tasks_->tasks[source.producer].kind != plan::INSTRUCTION_FEED;
  if (made) {
    task.position = {tasks_->tasks[source.producer].position.first, 0};
  } else if (source.stage == target.stage) {
    task.position = {position_, 0};
  }
  return task;
}

absl::StatusOr<Boxer::Values> Boxer::Get(TensorId tensor, const GridSbp& wanted, int32_t stage,
                                         Phase phase) {
  const Node& node = graph_.node(graph_.tensor(tensor).producer);
  ForgetGathered(tensor, wanted, stage, phase);
  const auto found = values_.find({tensor, wanted, stage});
  if (found != values_.end()) return found->second;
  if (wanted.packed.is_split()) {
    // Each device packs what it has of every micro-batch, where it reads it.
    const GridSbp pieces = wanted.Pieces();
    ASSIGN_OR_RETURN(Values values, Get(tensor, pieces, stage, phase));
    At at{tensor, pieces, stage, std::move(values)};
    Pack(&at, wanted, phase);
    return at.values;
  }
  if (node.op == &InputOp()) {
    RETURN_IF_ERROR(Feed(tensor, wanted, stage));
    return values_.at({tensor, wanted, stage});
  }
  const int32_t home = std::max(node.stage, 0);
  At at{tensor, assignment_.produced[tensor], home,
        values_.at({tensor, assignment_.produced[tensor], home})};
  const GridSbp& seen = assignment_.consumed[tensor];
  if (seen != at.sbp && !graph_.IsVariable(tensor)) {
    // What an annotation asks for is done when the tensor is made, whoever reads it: a gradient
    // that is scattered for each micro-batch shall not wait for the update.
    RETURN_IF_ERROR(OverSpace(&at, seen, home, node.phase));
  }
  RETURN_IF_ERROR(OverTime(&at, wanted.time, phase));
  RETURN_IF_ERROR(OverSpace(&at, wanted, stage, phase));
  return at.values;
}

// What forward gathered of a variable, backward gathers again: so it takes bytes for as long as a
// few ops of one phase read it, and not until backward has come back to them. With micro-batches
// one gathered copy serves all of them, and lives through the step whoever makes it.
void Boxer::ForgetGathered(TensorId tensor, const GridSbp& wanted, int32_t stage, Phase phase) {
  const GridSbp& stored = assignment_.produced[tensor];
  if (!graph_.IsVariable(tensor) || wanted == stored || grid_.micro_batches() > 1) return;
  if (stage != std::max(graph_.node(graph_.tensor(tensor).producer).stage, 0)) return;
  const auto [made, fresh] = gathered_in_.emplace(Key(tensor, wanted, stage), phase);
  if (fresh || made->second == phase) return;
  made->second = phase;
  values_.erase({tensor, wanted, stage});
}

// The host holds the whole tensor, so an input comes in any layout without boxing.
absl::Status Boxer::Feed(TensorId tensor, const GridSbp& sbp, int32_t stage) {
  const TensorInfo& info = graph_.tensor(tensor);
  const Node& node = graph_.node(info.producer);
  if (sbp.reduction() != Reduction::kNone) {
    return absl::InternalError(absl::StrCat(node.name, " is wanted as ", grid_.ToString(sbp)));
  }
  const auto port =
      std::find(graph_.inputs().begin(), graph_.inputs().end(), node.id) - graph_.inputs().begin();
  Values values = Make(tensor, sbp, stage, grid_.Firings(sbp));
  const Values fed = HostsOf(values);
  for (ValueId v : fed) {
    Task task;
    task.kind = plan::INSTRUCTION_FEED;
    task.scope = node.name;
    task.stream = plan::STREAM_HOST;
    task.device = tasks_->values[v].device;
    task.stage = stage;
    task.firings = grid_.Firings(sbp);
    task.outputs = {v};
    task.port = static_cast<int32_t>(port);
    task.bytes = 2 * tasks_->values[v].shard.NumBytes();
    task.nanoseconds = machine_.ComputeNanoseconds(0, task.bytes, false);
    Add(std::move(task));
  }
  CopyTo(fed, values, Phase::kForward, /*boxing=*/-1);
  Put(tensor, sbp, stage, std::move(values));
  return absl::OkStatus();
}

absl::Status Boxer::OverTime(At* at, Sbp wanted, Phase phase) {
  if (at->sbp.time == wanted) return absl::OkStatus();
  if (wanted.is_partial()) {
    return absl::InternalError("a tensor is wanted partial over micro-batches");
  }
  if (at->sbp.time.is_partial()) {
    Accumulate(at);
  } else if (at->sbp.time.is_split()) {
    // Successive firings of one device are one box only if no space axis splits the same dimension.
    GridSbp whole = at->sbp;
    for (size_t a = 1; a < whole.size(); ++a) {
      if (whole[a] == at->sbp.time) whole[a] = Sbp::B();
    }
    RETURN_IF_ERROR(OverSpace(at, whole, at->stage, phase));
    Pack(at, {Sbp::B(), at->sbp.space}, phase);
  }
  if (!wanted.is_split()) return absl::OkStatus();
  GridSbp whole = at->sbp;
  for (size_t a = 1; a < whole.size(); ++a) {
    if (whole[a] == wanted) whole[a] = Sbp::B();
  }
  RETURN_IF_ERROR(OverSpace(at, whole, at->stage, phase));
  SliceTime(at, wanted, phase);
  return absl::OkStatus();
}

// One boxing over time, where the tensor is: a task a device, or what an earlier reader had made.
void Boxer::Retime(
    At* at, const GridSbp& to, absl::string_view recipe, int64_t tokens, Phase phase,
    absl::FunctionRef<void(const Shard& source, const Shard& target, Task* task)> fill) {
  auto found = values_.find({at->tensor, to, at->stage});
  if (found == values_.end()) {
    Values made = Make(at->tensor, to, at->stage, tokens);
    for (size_t d = 0; d < made.size(); ++d) {
      const Shard source = tasks_->values[at->values[d]].shard;
      const Shard target = tasks_->values[made[d]].shard;
      Task task = FoldTask(*at, made[d], phase);
      task.position.second = ++sequence_;
      task.firings = grid_.micro_batches();
      task.every = task.firings / tokens;
      task.inputs = {{at->values[d], false}};
      fill(source, target, &task);
      SetOwnTime(machine_, SizeOf(target.dtype), &task);
      Add(std::move(task));
    }
    Note(*at, std::string(recipe), to, phase, grid_.micro_batches(), 0, 0);
    found = values_.emplace(Key(at->tensor, to, at->stage), std::move(made)).first;
  }
  at->values = found->second;
  at->sbp = to;
}

// P -> B over time, where it is made: reset by the first firing of a step, emitted by the last.
void Boxer::Accumulate(At* at) {
  const Reduction reduction = at->sbp.time.reduction;
  const TaskId producer = tasks_->values[at->values[0]].producer;
  const Phase phase = producer < 0 ? Phase::kForward : tasks_->tasks[producer].phase;
  Retime(at, {Sbp::B(), at->sbp.space}, "accumulate[micro]", 1, phase,
         [&](const Shard& source, const Shard&, Task* task) {
           task->kind = plan::INSTRUCTION_ACCUMULATE;
           task->reduction = reduction;
           task->bytes = 3 * source.NumBytes();
         });
}

// S -> B over time: one buffer written piece by piece, emitted by the last firing of a step. By
// position, pieces stand one behind the other, wherever in the tensor they come from.
//
// Example: eight rows, two micro-batches of them on two devices. Device 0 has rows 0, 1 and then
// 4, 5; device 1 has 2, 3 and then 6, 7. That is what they pack by position. Rows 0 to 3 on device
// 0 and 4 to 7 on device 1, which is data:S0 in the tensor's order, would take half of all from the
// other device.
void Boxer::Pack(At* at, const GridSbp& to, Phase phase) {
  const bool by_position = to.packed.is_split();
  Retime(at, to, by_position ? "pack_by_position[micro]" : "pack[micro]", 1, phase,
         [&](const Shard& source, const Shard& target, Task* task) {
           const Box all = target.BoxAt(0);
           for (int64_t m = 0; m < grid_.micro_batches(); ++m) {
             const Box piece = source.BoxAt(m);
             Box place = piece;
             if (by_position) {
               const int64_t extent = piece[to.packed.dim].size();
               const int64_t begin = all[to.packed.dim].begin + m * extent;
               place[to.packed.dim] = {begin, begin + extent};
             }
             task->regions.push_back(PieceAt(m, piece, piece, place, all));
           }
           task->bytes = 2 * source.NumBytes();
         });
}

// B -> S over time: each firing copies its piece.
void Boxer::SliceTime(At* at, Sbp wanted, Phase phase) {
  GridSbp to = at->sbp;
  to.time = wanted;
  Retime(at, to, "slice[micro]", grid_.micro_batches(), phase,
         [&](const Shard& source, const Shard& target, Task* task) {
           for (int64_t m = 0; m < grid_.micro_batches(); ++m) {
             const Box piece = target.BoxAt(m);
             task->regions.push_back(PieceAt(m, piece, source.BoxAt(0), piece, piece));
           }
           task->bytes = 2 * target.NumBytes();
         });
}

absl::Status Boxer::OverSpace(At* at, const GridSbp& wanted, int32_t stage, Phase phase) {
  if (at->sbp == wanted && at->stage == stage) return absl::OkStatus();
  const auto found = values_.find({at->tensor, wanted, stage});
  if (found != values_.end()) {
    at->values = found->second;
  } else {
    const TensorType& type = graph_.tensor(at->tensor).type;
    const Layout from{grid_.stage(at->stage), at->sbp.space};
    const Layout to{grid_.stage(stage), wanted.space};
    const Shape shape = grid_.FiringShape(at->sbp, type.shape);
    const auto boxing = planner_->Find(from, to, shape, type.dtype);
    RETURN_IF_ERROR(AddContext(boxing.status(), tasks_->values[at->values[0]].name));
    at->values = EmitBoxing(*at, **boxing, wanted, stage, phase);
    Put(at->tensor, wanted, stage, at->values);
  }
  at->sbp = wanted;
  at->stage = stage;
  return absl::OkStatus();
}

}  // namespace sluice
