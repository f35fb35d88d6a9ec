#include "framework/compiler/task_graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/plan/kinds.h"

namespace sluice {
namespace {

std::string ValueLine(const TaskGraph& graph, ValueId id) {
  const Value& value = graph.values[id];
  std::string line = absl::StrCat("  v", id, " ", value.name, " : ", value.shard.ToString());
  if (value.tokens != 1) absl::StrAppend(&line, " x ", value.tokens);
  if (!value.variable.empty()) absl::StrAppend(&line, " variable on d", value.device);
  if (value.view_of >= 0) absl::StrAppend(&line, " view of v", value.view_of);
  if (value.offset != 0) absl::StrAppend(&line, " from byte ", value.offset, " of v", value.root);
  if (value.round != 0) absl::StrAppend(&line, " round ", value.round);
  if (value.reserved_bytes != 0) absl::StrAppend(&line, " reserves ", value.reserved_bytes);
  return line + "\n";
}

std::string TaskLine(const TaskGraph& graph, const Task& task) {
  const std::string outputs = absl::StrJoin(
      task.outputs, ", ", [](std::string* out, ValueId v) { absl::StrAppend(out, "v", v); });
  const std::string inputs =
      absl::StrJoin(task.inputs, ", ", [](std::string* out, const TaskInput& input) {
        absl::StrAppend(out, input.updates ? "&v" : "v", input.value);
      });
  std::string line =
      absl::StrCat("d", task.device, ".", StreamKindName(task.stream), " ", PhaseName(task.phase),
                   " ", outputs.empty() ? "" : outputs + " = ",
                   HasOp(task.kind) ? task.op : InstructionKindName(task.kind), "(", inputs, ")");
  if (!task.attributes.empty()) absl::StrAppend(&line, " {", task.attributes, "}");
  if (task.firings != 1) absl::StrAppend(&line, " x ", task.firings);
  if (task.every != 1) absl::StrAppend(&line, " every ", task.every);
  if (task.script.has_value()) absl::StrAppend(&line, " in ", PhaseName(*task.script));
  if (!task.calls.empty()) absl::StrAppend(&line, " of ", task.calls.size(), " calls");
  if (task.boxing >= 0) absl::StrAppend(&line, " ", graph.boxings[task.boxing].recipe);
  if (task.reduction != Reduction::kNone) {
    absl::StrAppend(&line, " reduction ", ReductionName(task.reduction));
  }
  if (task.collective > 0) absl::StrAppend(&line, " collective ", task.collective);
  if (!task.regions.empty()) absl::StrAppend(&line, ", ", task.regions.size(), " regions");
  return absl::StrCat(line, ", ", task.nanoseconds, " ns, of ", task.scope, "\n");
}

template <typename... Args>
absl::Status Wrong(const Args&... what) {
  return absl::InternalError(absl::StrCat(what...));
}

class Verifier {
 public:
  explicit Verifier(const TaskGraph& graph) : graph_(graph), maker_(graph.values.size(), -1) {}

  absl::Status Run() {
    for (size_t t = 0; t < graph_.tasks.size(); ++t) {
      RETURN_IF_ERROR(VerifyTask(static_cast<TaskId>(t)));
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      RETURN_IF_ERROR(VerifyValue(static_cast<ValueId>(v)));
    }
    return absl::OkStatus();
  }

 private:
  std::string Name(ValueId v) const { return absl::StrCat("value ", graph_.values[v].name); }
  bool Has(ValueId v) const { return v >= 0 && v < static_cast<ValueId>(maker_.size()); }

  absl::Status VerifyTask(TaskId t) {
    const Task& task = graph_.tasks[t];
    const std::string who = absl::StrCat("task ", t, " of ", task.scope);
    if (task.firings < 1 || task.every < 1 || task.firings % task.every != 0) {
      return Wrong(who, ": expected firings in groups of one token, got ", task.firings,
                   " a step, ", task.every, " a token");
    }
    for (const TaskInput& input : task.inputs) RETURN_IF_ERROR(VerifyInput(who, t, input));
    for (ValueId v : task.outputs) {
      if (!Has(v)) return Wrong(who, ": expected one of ", maker_.size(), " values, got ", v);
      const Value& value = graph_.values[v];
      if (maker_[v] >= 0) return Wrong(who, " makes ", Name(v), ", as task ", maker_[v], " does");
      maker_[v] = t;
      if (value.tokens * task.every == task.firings) continue;
      return Wrong(who, ": expected ", task.firings / task.every, " tokens of ", Name(v), ", got ",
                   value.tokens);
    }
    for (const TaskRegion& region : task.regions) {
      for (int source : region.sources) {
        if (source >= 0 && source < static_cast<int>(task.inputs.size())) continue;
        return Wrong(who, ": expected regions of its ", task.inputs.size(), " inputs, got ",
                     source);
      }
    }
    return absl::OkStatus();
  }

  absl::Status VerifyInput(const std::string& who, TaskId t, const TaskInput& input) const {
    if (!Has(input.value)) {
      return Wrong(who, ": expected one of ", maker_.size(), " values, got ", input.value);
    }
    const Value& value = graph_.values[input.value];
    if (!Has(value.root)) return Wrong(Name(input.value), ": expected a root, got ", value.root);
    const Value& root = graph_.values[value.root];
    if (value.producer < 0 && root.variable.empty()) {
      return Wrong(who, " reads ", Name(input.value), ", which nobody makes");
    }
    if (value.producer >= t) {
      return Wrong(who, " reads ", Name(input.value), ", which the later task ", value.producer,
                   " makes");
    }
    if (input.updates && root.variable.empty()) {
      return Wrong(who, ": expected to update a variable, got ", Name(input.value));
    }
    if (value.tokens >= 1 && graph_.tasks[t].firings % value.tokens == 0) return absl::OkStatus();
    return Wrong(who, " fires ", graph_.tasks[t].firings, " times, of ", Name(input.value),
                 " there are ", value.tokens, " tokens");
  }

  absl::Status VerifyValue(ValueId v) const {
    const Value& value = graph_.values[v];
    if (!Has(value.root) || graph_.values[value.root].root != value.root) {
      return Wrong(Name(v), ": expected a root that is no view, got ", value.root);
    }
    const Value& root = graph_.values[value.root];
    if (root.device != value.device) {
      return Wrong(Name(v), " on device ", value.device, " views bytes of device ", root.device);
    }
    if (v == value.root && maker_[v] != value.producer) {
      return Wrong(Name(v), ": expected task ", maker_[v], " as its producer, got ",
                   value.producer);
    }
    const int64_t bytes = std::max(root.shard.NumBytes(), root.reserved_bytes);
    if (value.offset < 0 || value.offset + value.shard.NumBytes() > bytes) {
      return Wrong(Name(v), ": expected bytes within the ", bytes, " of ", root.name, ", got [",
                   value.offset, ", ", value.offset + value.shard.NumBytes(), ")");
    }
    return absl::OkStatus();
  }

  const TaskGraph& graph_;
  std::vector<TaskId> maker_;  // by value; -1: no task
};

}  // namespace

std::string PrintTaskGraph(const TaskGraph& graph) {
  std::string text;
  // A view stands behind the task that made its bytes; variables stand first.
  std::vector<std::vector<ValueId>> made_by(graph.tasks.size() + 1);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    made_by[graph.values[v].producer + 1].push_back(static_cast<ValueId>(v));
  }
  for (size_t t = 0; t <= graph.tasks.size(); ++t) {
    if (t > 0) absl::StrAppend(&text, TaskLine(graph, graph.tasks[t - 1]));
    for (ValueId v : made_by[t]) absl::StrAppend(&text, ValueLine(graph, v));
  }
  return text;
}

absl::Status VerifyTaskGraph(const TaskGraph& graph) { return Verifier(graph).Run(); }

std::string BoxingSummary(absl::Span<const BoxingNote> boxings) {
  std::string text;
  for (const BoxingNote& note : boxings) {
    absl::StrAppend(&text, PhaseName(note.phase), " ", note.tensor, ": ", note.recipe, " ",
                    note.from, " -> ", note.to, ", ", note.firings, " x ", note.bytes, " bytes\n");
  }
  return text;
}

}  // namespace sluice
