#include "framework/compiler/selection_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

// `sbp`, and where the annotation says something, that. One element is not split any further, as no
// op has a signature for that (IndexRule::Signatures): where the axes outside of one have left a
// single element of a dimension, all devices along it hold that. So [3,1] as model:S1 is whole, and
// [2] as data:S0 model:S0 is split over data alone.
GridSbp WithAnnotation(const Grid& grid, Shape local, const GridSbp& sbp,
                       const SbpAnnotation& annotation) {
  if (annotation.empty()) return sbp;
  GridSbp result = sbp;
  for (size_t a = 0; a < grid.axes().size(); ++a) {
    const int64_t shards = grid.axes()[a].shards;
    if (const Sbp* entry = annotation.Find(grid.axes()[a].name)) result[a] = *entry;
    if (!result[a].is_split() || shards == 1) continue;
    int64_t& extent = local[result[a].dim];
    if (extent == 1) result[a] = Sbp::B();
    extent = (extent + shards - 1) / shards;
  }
  return result;
}

// Of an annotation on a variable of which `use` came: the entries that one element was too few for.
void WarnOfOneElement(const Grid& grid, const std::string& name, const TensorInfo& info,
                      const GridSbp& use, std::vector<std::string>* warnings) {
  for (size_t a = 0; a < grid.axes().size(); ++a) {
    const GridAxis& axis = grid.axes()[a];
    const Sbp* entry = info.annotation.Find(axis.name);
    if (axis.shards == 1 || entry == nullptr || *entry == use[a]) continue;
    warnings->push_back(absl::StrCat("the annotation ", axis.name, ":", ToString(*entry), " of ",
                                     name, " ", info.type.shape.ToString(),
                                     " has no effect: one element is not split over ", axis.shards,
                                     " devices"));
  }
}

// Over time a variable is read whole. Before it is settled only its annotation says anything;
// afterwards forward and backward read it as `use` says, and an op that updates it where it is
// stored. An update that gives its new value reads it where its state lies, which the operands that
// are state demand.
OperandLayout VariableOnAxis(const SelectionProblem& problem, const SelectionState& state,
                             const Node& node, size_t input, size_t axis) {
  const TensorId x = node.inputs[input];
  const GridAxis& where = problem.grid.axes()[axis];
  OperandLayout operand;
  if (where.time) {
    operand.bound = Sbp::B();
  } else if (state.settled[x] && node.phase == Phase::kUpdate) {
    operand.arrives = state.assignment.produced[x][axis];
    if (InputPort(*node.op, input).updates) operand.bound = operand.arrives;
    return operand;
  } else if (state.settled[x]) {
    operand.bound = state.use.at(x)[axis];
  } else if (const TensorInfo& info = problem.graph.tensor(x);
             info.annotation.Find(where.name) != nullptr) {
    operand.bound = WithAnnotation(problem.grid, info.type.shape, problem.grid.Broadcast(),
                                   info.annotation)[axis];
  }
  operand.arrives = operand.bound;
  return operand;
}

OperandLayout TensorOnAxis(const SelectionProblem& problem, const SelectionState& state,
                           const Node& node, TensorId x, size_t axis) {
  const bool time = problem.grid.axes()[axis].time;
  const NodeId producer = problem.graph.tensor(x).producer;
  OperandLayout operand;
  operand.arrives = state.assignment.consumed[x][axis];
  // What is partial over micro-batches is accumulated where it is made, and crosses stages once.
  if (time && operand.arrives->is_partial() && problem.graph.node(producer).stage != node.stage) {
    operand.arrives = Sbp::B();
  }
  const TensorId like = problem.constraints[x].updated_like;
  if (node.phase == Phase::kUpdate && like >= 0) {
    operand.bound = time ? Sbp::B() : state.assignment.produced[like][axis];
  }
  return operand;
}

void Settle(TensorId tensor, const GridSbp& sbp, SelectionState* state) {
  state->assignment.produced[tensor] = state->assignment.consumed[tensor] = sbp;
  state->settled[tensor] = true;
}

// The layout on all axes of something that is whole over time.
GridSbp WholeOverTime(const NdSbp& space) { return {Sbp::B(), space}; }

// As its forward readers read it on the axes where they agree; never partial, because what is
// stored has to be the variable's value and not terms of it.
GridSbp UseOf(const Grid& grid, const std::vector<GridSbp>& readers) {
  GridSbp use = grid.Broadcast();
  for (size_t a = 1; a < use.size(); ++a) {
    const bool agree =
        !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](const GridSbp& reader) {
          return reader[a] == readers[0][a];
        });
    if (agree && !readers[0][a].is_partial()) use[a] = readers[0][a];
  }
  return use;
}

}  // namespace

SelectionState::SelectionState(const Graph& graph, const Grid& grid)
    : settled(graph.num_tensors(), false) {
  assignment.choices.resize(graph.nodes().size());
  assignment.produced.resize(graph.num_tensors(), grid.Broadcast());
  assignment.consumed.resize(graph.num_tensors(), grid.Broadcast());
}

NodeOnAxis OnAxis(const SelectionProblem& problem, const SelectionState& state, const Node& node,
                  size_t axis) {
  const Graph& graph = problem.graph;
  const GridAxis& where = problem.grid.axes()[axis];
  NodeOnAxis on;
  on.time = where.time;
  on.shards = where.shards;
  on.inputs.reserve(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorId x = node.inputs[i];
    on.inputs.push_back(graph.IsVariable(x) ? VariableOnAxis(problem, state, node, i, axis)
                                            : TensorOnAxis(problem, state, node, x, axis));
    on.inputs.back().scalar = graph.tensor(x).type.shape.NumElements() == 1;
  }
  for (const TensorId y : node.outputs) {
    const Sbp* entry = graph.tensor(y).annotation.Find(where.name);
    on.requested_outputs.push_back(entry == nullptr ? std::nullopt : std::optional<Sbp>(*entry));
  }
  // A sum of gradients is no op's backward, whatever node it is told to belong to: its partial
  // terms are added up first and reduced once.
  if (node.forward >= 0 && node.phase == Phase::kBackward && !node.op->sum) {
    on.forward_factor = state.assignment.choices[node.forward].signatures[axis].factor;
  }
  return on;
}

int64_t Price(const SelectionProblem& problem, const SelectionState& state,
              const SelectionCost& cost, const Node& node, const Choice& choice) {
  const Graph& graph = problem.graph;
  int64_t nanoseconds = cost.Compute(graph, node, choice.inputs, choice.outputs);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorId x = node.inputs[i];
    if (!state.settled[x] || state.paid.count({x, choice.inputs[i], node.stage}) != 0) continue;
    const TensorInfo& info = graph.tensor(x);
    const int64_t boxing = cost.Boxing(info.type, state.assignment.consumed[x],
                                       std::max(graph.node(info.producer).stage, 0),
                                       choice.inputs[i], std::max(node.stage, 0));
    if (boxing < 0) return -1;
    nanoseconds += boxing;
  }
  return nanoseconds;
}

absl::Status SettleInputs(const SelectionProblem& problem, SelectionState* state) {
  const Grid& grid = problem.grid;
  for (const NodeId id : problem.graph.inputs()) {
    const Node& node = problem.graph.node(id);
    const TensorInfo& info = problem.graph.tensor(node.outputs[0]);
    GridSbp sbp = WithAnnotation(grid, info.type.shape, grid.Broadcast(), info.annotation);
    // The batch dimension, the first that the annotation splits, is split over time as well, even
    // if the axis of that entry is not in the mesh.
    int dim = -1;
    for (const auto& entry : info.annotation.entries) {
      if (dim < 0 && entry.second.is_split()) dim = entry.second.dim;
    }
    int64_t shards = 1;
    for (size_t a = 1; a < sbp.size(); ++a) {
      if (dim >= 0 && sbp[a] == Sbp::S(dim)) shards *= grid.axes()[a].shards;
    }
    if (dim >= 0) {
      const int64_t extent = info.type.shape[dim], micro = grid.micro_batches();
      if (extent % micro != 0) {
        return absl::InvalidArgumentError(absl::StrCat(node.name, ": a batch of ", extent,
                                                       " is not divided by micro_batches=", micro));
      }
      if (extent / micro < shards) {
        return absl::InvalidArgumentError(
            absl::StrCat(node.name, ": expected a batch of at least ", micro * shards, " (", micro,
                         " micro-batches on ", shards, " shards of the mesh), got ", extent));
      }
      if (micro > 1) sbp.time = Sbp::S(dim);
    }
    Settle(node.outputs[0], sbp, state);
  }
  return absl::OkStatus();
}

void TakeOverVariables(const SelectionProblem& problem, const VariableLayouts& fixed,
                       SelectionState* state) {
  for (const NodeId id : problem.graph.variables()) {
    const TensorId tensor = problem.graph.node(id).outputs[0];
    const auto found = fixed.find(problem.graph.node(id).name);
    if (found == fixed.end()) continue;
    state->use[tensor] = WholeOverTime(found->second.use);
    Settle(tensor, WholeOverTime(found->second.stored), state);
  }
}

// A variable is used as its annotation says or, where that says nothing, as its forward readers
// read it; it is stored so too, or as its constraint says. Storage annotations come last, so that
// what they split (the state of an optimizer, for its memory) lures no reader into splitting.
void SettleVariables(const SelectionProblem& problem, SelectionState* state,
                     VariableLayouts* fixed) {
  const Grid& grid = problem.grid;
  for (const NodeId id : problem.graph.variables()) {
    const Node& node = problem.graph.node(id);
    const TensorId tensor = node.outputs[0];
    if (state->settled[tensor]) continue;
    const TensorInfo& info = problem.graph.tensor(tensor);
    const TensorId like = problem.constraints[tensor].stored_like;
    GridSbp use, stored;
    if (like >= 0) {
      use = stored =
          WithAnnotation(grid, info.type.shape, state->assignment.produced[like], info.storage);
    } else {
      use = WithAnnotation(grid, info.type.shape, UseOf(grid, state->readers[tensor]),
                           info.annotation);
      stored = WithAnnotation(grid, info.type.shape, use, info.storage);
      WarnOfOneElement(grid, node.name, info, use, &state->assignment.warnings);
    }
    state->use[tensor] = use;
    Settle(tensor, stored, state);
    (*fixed)[node.name] = {use.space, stored.space, std::max(node.stage, 0)};
  }
}

// Example: rows of a gradient, values micro:S0 data:S0 and ids alike, are added to a sum that is
// there once a step. In the tensor's order the rows of a device lie in other micro-batches than
// those that came to it, so each micro-batch would have to be gathered. What the sum over all
// devices needs is that each row is added once, on whichever of them, beside its own id.
void PackByPosition(const SelectionProblem& problem, const SelectionState& state, const Node& node,
                    Choice* choice) {
  if (problem.grid.micro_batches() == 1) return;
  for (size_t a = 1; a < choice->signatures.size(); ++a) {
    const Signature& signature = choice->signatures[a];
    if (!signature.any_order) continue;
    bool in_pieces = true, stays = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Sbp& split = signature.inputs[i];
      if (!split.is_split()) continue;
      const GridSbp& arrives = state.assignment.consumed[node.inputs[i]];
      in_pieces &= arrives.time == split && choice->inputs[i].time.is_broadcast();
      stays |= arrives[a] == split;
    }
    if (!in_pieces || !stays) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (signature.inputs[i].is_split()) choice->inputs[i].packed = signature.inputs[i];
    }
  }
}

void Take(const SelectionProblem& problem, const Node& node, Choice choice, SelectionState* state) {
  const Graph& graph = problem.graph;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorId x = node.inputs[i];
    if (graph.IsVariable(x) && node.phase == Phase::kForward) {
      state->readers[x].push_back(choice.inputs[i]);
    }
    state->paid.insert({x, choice.inputs[i], node.stage});
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorId y = node.outputs[i];
    Settle(y, choice.outputs[i], state);
    const TensorInfo& info = graph.tensor(y);
    state->assignment.consumed[y] =
        WithAnnotation(problem.grid, info.type.shape, choice.outputs[i], info.annotation);
  }
  state->assignment.choices[node.id] = std::move(choice);
}

}  // namespace sluice
