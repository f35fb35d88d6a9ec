// The physical graph: a task per op and device, boxing between. Values are what tasks hand to each
// other. Of a rank: what its devices exchange with those of others stands as values and tasks on
// those devices, of kind INSTRUCTION_REMOTE. Tasks stand in an order that respects their data.
#ifndef SLUICE_FRAMEWORK_COMPILER_TASK_GRAPH_H_
#define SLUICE_FRAMEWORK_COMPILER_TASK_GRAPH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/plan/plan.pb.h"
#include "framework/tensor/shard.h"

namespace sluice {

using ValueId = int32_t;
using TaskId = int32_t;

// One tensor in one layout on one device.
struct Value {
  std::string name;
  int32_t device = 0;  // index into the mesh's devices
  int32_t stage = 0;
  Shard shard;
  int64_t tokens = 1;    // times a step that it is made
  TaskId producer = -1;  // -1: a variable
  ValueId root = -1;     // whose bytes it is; itself unless it is a view
  ValueId view_of = -1;  // what it is a view of, which may be one itself
  int64_t offset = 0;    // bytes into the root
  std::string variable;  // not empty: this variable's storage
  bool cache = false;    // of a variable: of role kCache
  // Of a root: leaves its script on every device, though not every one is read: one alone is
  // fetched, and nobody reads a shard without elements.
  bool leaves_script = false;
  int64_t reserved_bytes = 0;  // the most that any device of the stage has for it, if not 0
  // Joins over time (packs, accumulators) on the longest way to it. What fires per micro-batch
  // behind a join waits for all firings before it, so it cannot be in one script with them.
  int64_t round = 0;
  int32_t number = 0;  // alike on all devices of a group of stages, and there no other value's
};

struct TaskInput {
  ValueId value = -1;
  bool updates = false;
};

// plan.proto Region, before it is one.
struct TaskRegion {
  Box box;
  std::vector<int> sources, fold;
  std::vector<int64_t> source_offsets;
  std::vector<Shape> source_strides;
  int64_t offset = 0;
  Shape strides;
  int32_t micro = 0;
};

struct Task {
  plan::InstructionKind kind = plan::INSTRUCTION_KERNEL;
  std::string op, attributes;  // op: of a kernel or collective alone
  std::string scope;           // of the node, or of the tensor that is boxed
  NodeId node = -1;            // that it is part of
  int32_t boxing = -1;         // index into TaskGraph.boxings: that it is a step of
  Phase phase = Phase::kForward;
  std::optional<Phase> script;  // whose script it is in, if not its own phase's (order_tasks.h)
  int64_t round = 0;            // of its outputs, but for the join that it may be itself
  int32_t number = 0;           // of a fetch or remote: plan.proto Instruction.number
  plan::StreamKind stream = plan::STREAM_COMPUTE;
  int32_t device = 0, stage = 0;
  int64_t firings = 1;  // a step
  int64_t every = 1;    // firings per token of its outputs
  // Place among all tasks: of the op that it is or, for boxing, of the op whose result it moves.
  std::pair<int64_t, int64_t> position;
  std::vector<TaskInput> inputs;
  std::vector<ValueId> outputs;
  int64_t flops = 0, bytes = 0, scratch = 0, nanoseconds = 0, wire_bytes = 0;
  int64_t cold_nanoseconds = 0;  // more, if no operand is in a cache
  std::vector<TaskRegion> regions;
  Reduction reduction = Reduction::kNone;
  bool fill_identity = false;
  int32_t collective = 0;  // of a collective: its number, which all members share
  int32_t port = -1;
  // Of many calls of its op, one behind the other in inputs and outputs: the node of each.
  std::vector<NodeId> calls;

  Phase ScriptPhase() const { return script.value_or(phase); }
};

// What one boxing of a tensor costs, for people and for goldens.
struct BoxingNote {
  std::string tensor, recipe, from, to;
  std::string reader;  // the node that first asked for it
  Phase phase = Phase::kForward;
  int64_t firings = 1, bytes = 0;  // bytes of one firing, over all devices
  int64_t between_hosts = 0;       // of them, at most
};

struct TaskGraph {
  std::vector<Task> tasks;
  std::vector<Value> values;
  std::vector<std::pair<std::string, TensorType>> feeds, fetches;
  std::vector<BoxingNote> boxings;
  int32_t collectives = 0;  // the last number of one
};

// A line for each value and task, in order of tasks: `v7 = fold(v3, v5)` and what else is known.
std::string PrintTaskGraph(const TaskGraph& graph);

// Tasks read what earlier ones made or a variable holds, a whole number of firings a token; values
// know who made them; views lie inside what they view; regions fold inputs. Internal names the task
// or value, what was expected and got.
absl::Status VerifyTaskGraph(const TaskGraph& graph);

// A line for each boxing, without times and reasons: stable across machines, for goldens.
std::string BoxingSummary(absl::Span<const BoxingNote> boxings);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_TASK_GRAPH_H_
