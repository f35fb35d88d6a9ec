// The walk. It asks selection_rules.h what is legal and selection_state.h what that costs, and
// never takes back what it has taken. A search that does take back finds a cheaper assignment in
// the model of costs and not a better one: what people expect of a mesh comes of the rules, and a
// walk can say of every choice why it was made.
//
// Forward comes before backward, although backward costs twice as much, because a model's
// annotations stand on what forward reads. Variables without an annotation are settled between the
// two, from all of their forward readers, so that backward and updates find every variable settled.
#include "framework/compiler/select_sbp.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/selection_cost.h"
#include "framework/compiler/selection_state.h"

namespace sluice {
namespace {

void CutLocal(const std::vector<Sbp>& sbps, int64_t shards, std::vector<TensorType>* types) {
  for (size_t i = 0; i < sbps.size(); ++i) {
    if (!sbps[i].is_split()) continue;
    int64_t& extent = (*types)[i].shape[sbps[i].dim];
    extent = (extent + shards - 1) / shards;
  }
}

// All legal combinations of a node's signatures over the axes, outermost first: what the outer axes
// leave to one shard is what a reshape has to know.
class Combinations {
 public:
  struct Combination {
    std::vector<Signature> signatures;  // by axis
    std::vector<size_t> refused;        // which of the lists below were made on the way
  };

  Combinations(const SelectionProblem& problem, const SelectionState& state, const Node& node)
      : node_(node),
        inputs_(InputTypes(problem.graph, node)),
        outputs_(OutputTypes(problem.graph, node)) {
    const std::vector<GridAxis>& axes = problem.grid.axes();
    axes_.resize(axes.size());
    for (size_t a = 0; a < axes.size(); ++a) {
      if (axes[a].shards > 1) axes_[a] = OnAxis(problem, state, node, a);
    }
  }

  absl::StatusOr<std::vector<Combination>> Find(int given_way) {
    given_way_ = given_way;
    refused_.clear();
    found_.clear();
    RETURN_IF_ERROR(Extend(inputs_, outputs_));
    return std::move(found_);
  }

  // What was refused on the way to a combination that the last Find gave. Once: it is moved out.
  std::vector<Refusal> TakeRefused(const Combination& combination) {
    std::vector<Refusal> refused;
    for (const size_t list : combination.refused) {
      std::move(refused_[list].begin(), refused_[list].end(), std::back_inserter(refused));
    }
    return refused;
  }

  const NodeOnAxis& on(size_t axis) const { return axes_[axis]; }  // of several shards

 private:
  // `inputs` and `outputs` are what `path_` leaves to one shard.
  absl::Status Extend(const std::vector<TensorType>& inputs,
                      const std::vector<TensorType>& outputs) {
    const size_t axis = path_.signatures.size();
    if (axis == axes_.size()) {
      found_.push_back(path_);
      return absl::OkStatus();
    }
    const int64_t shards = axes_[axis].shards;
    if (shards == 1) {  // all signatures say the same
      path_.signatures.push_back(
          {"", std::vector<Sbp>(inputs.size()), std::vector<Sbp>(outputs.size())});
      RETURN_IF_ERROR(Extend(inputs, outputs));
      path_.signatures.pop_back();
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(std::vector<Signature> candidates,
                     SignaturesOf(*node_.op, {node_.attributes, inputs, outputs}, shards));
    const std::vector<const LegalityRule*> refused_by =
        Legal(axes_[axis], {path_.signatures, inputs, outputs}, candidates, given_way_);
    path_.refused.push_back(refused_.size());
    refused_.emplace_back();
    for (size_t c = 0; c < candidates.size(); ++c) {
      if (refused_by[c] == nullptr) continue;
      refused_.back().push_back({static_cast<int>(axis), std::move(candidates[c]), refused_by[c]});
    }
    for (size_t c = 0; c < candidates.size(); ++c) {
      if (refused_by[c] != nullptr) continue;
      std::vector<TensorType> inner_inputs = inputs, inner_outputs = outputs;
      CutLocal(candidates[c].inputs, shards, &inner_inputs);
      CutLocal(candidates[c].outputs, shards, &inner_outputs);
      path_.signatures.push_back(std::move(candidates[c]));
      RETURN_IF_ERROR(Extend(inner_inputs, inner_outputs));
      path_.signatures.pop_back();
    }
    path_.refused.pop_back();
    return absl::OkStatus();
  }

  const Node& node_;
  const std::vector<TensorType> inputs_, outputs_;
  std::vector<NodeOnAxis> axes_;
  int given_way_ = 0;
  Combination path_;
  std::vector<std::vector<Refusal>> refused_;
  std::vector<Combination> found_;
};

// `signatures`: by axis of the grid.
Choice ChoiceOf(const Node& node, const Grid& grid, std::vector<Signature> signatures) {
  Choice choice;
  choice.inputs.resize(node.inputs.size(), grid.Broadcast());
  choice.outputs.resize(node.outputs.size(), grid.Broadcast());
  for (size_t a = 0; a < signatures.size(); ++a) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      choice.inputs[i][a] = signatures[a].inputs[i];
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      choice.outputs[i][a] = signatures[a].outputs[i];
    }
  }
  choice.signatures = std::move(signatures);
  return choice;
}

class Walk {
 public:
  Walk(const Graph& graph, const Grid& grid, BoxingPlanner* planner, const Machine& machine,
       VariableLayouts* fixed, const Stop& stop)
      : problem_{graph, grid, LayoutConstraints(graph)},
        cost_(grid, planner, machine),
        fixed_(*fixed),
        stop_(stop),
        state_(graph, grid) {}

  absl::StatusOr<SbpAssignment> Run() {
    RETURN_IF_ERROR(SettleInputs(problem_, &state_));
    TakeOverVariables(problem_, fixed_, &state_);
    for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
      if (phase == Phase::kBackward) SettleVariables(problem_, &state_, &fixed_);
      for (const Node& node : problem_.graph.nodes()) {
        if (node.phase != phase || node.op == &InputOp() || node.op == &VariableOp()) continue;
        RETURN_IF_ERROR(CheckStop(stop_));
        RETURN_IF_ERROR(SelectNode(node));
      }
    }
    WarnIdleAxes();
    return std::move(state_.assignment);
  }

 private:
  absl::Status SelectNode(const Node& node);
  absl::Status NoSignature(const Node& node, const Combinations& combinations) const;
  void WarnIdleAxes();

  const SelectionProblem problem_;
  const SelectionCost cost_;
  VariableLayouts& fixed_;
  const Stop& stop_;
  SelectionState state_;
};

// The cheapest of what is legal; of equals the one that stands first, which IndexRule::Signatures
// gives with the plainest first. What is left alone is taken without asking for its price.
absl::Status Walk::SelectNode(const Node& node) {
  Combinations combinations(problem_, state_, node);
  for (int given_way = 0; given_way <= kLastToGiveWay; ++given_way) {
    ASSIGN_OR_RETURN(auto found, combinations.Find(given_way));
    std::optional<Choice> best;
    size_t taken = 0;
    std::vector<std::pair<std::string, int64_t>> alternatives;
    for (size_t i = 0; i < found.size(); ++i) {
      Choice choice = ChoiceOf(node, problem_.grid, std::move(found[i].signatures));
      PackByPosition(problem_, state_, node, &choice);
      choice.nanoseconds = found.size() == 1 ? 0 : Price(problem_, state_, cost_, node, choice);
      if (choice.nanoseconds < 0) continue;
      alternatives.push_back({DescribeSignatures(choice, problem_.grid), choice.nanoseconds});
      if (best && choice.nanoseconds >= best->nanoseconds) continue;
      best = std::move(choice);
      taken = i;
    }
    if (!best) continue;
    if (alternatives.size() == 1) {
      best->nanoseconds = std::max<int64_t>(0, Price(problem_, state_, cost_, node, *best));
    }
    best->alternatives = std::move(alternatives);
    best->refused = combinations.TakeRefused(found[taken]);
    best->given_way = given_way;
    Take(problem_, node, *std::move(best), &state_);
    return absl::OkStatus();
  }
  return NoSignature(node, combinations);
}

absl::Status Walk::NoSignature(const Node& node, const Combinations& combinations) const {
  const Graph& graph = problem_.graph;
  std::string text = absl::StrCat(node.name, ": no signature of ", node.op->name, " takes");
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorInfo& info = graph.tensor(node.inputs[i]);
    absl::StrAppend(&text, i == 0 ? " " : ", ", graph.node(info.producer).name, " ",
                    info.type.shape.ToString());
    if (!info.annotation.empty()) absl::StrAppend(&text, " as ", info.annotation.ToString());
    for (size_t a = 0; a < problem_.grid.axes().size(); ++a) {
      if (problem_.grid.axes()[a].shards == 1) continue;  // of which no layouts are kept
      const OperandLayout& operand = combinations.on(a).inputs[i];
      if (!operand.arrives) continue;
      absl::StrAppend(&text, " ", problem_.grid.axes()[a].name, ":", ToString(*operand.arrives));
    }
  }
  return absl::InvalidArgumentError(text);
}

void Walk::WarnIdleAxes() {
  const std::vector<GridAxis>& axes = problem_.grid.axes();
  for (size_t a = 1; a < axes.size(); ++a) {
    if (axes[a].shards == 1) continue;
    const bool splits =
        std::any_of(state_.assignment.choices.begin(), state_.assignment.choices.end(),
                    [&](const Choice& choice) {
                      return a < choice.signatures.size() && SplitsFactor(choice.signatures[a]);
                    });
    if (splits) continue;
    state_.assignment.warnings.push_back(
        absl::StrCat("the axis ", axes[a].name, "=", axes[a].shards,
                     " splits nothing: all its devices do the same work"));
  }
}

}  // namespace

absl::StatusOr<SbpAssignment> SelectSbp(const Graph& graph, const Grid& grid,
                                        BoxingPlanner* planner, const Machine& machine,
                                        VariableLayouts* fixed, const Stop& stop) {
  return Walk(graph, grid, planner, machine, fixed, stop).Run();
}

}  // namespace sluice
