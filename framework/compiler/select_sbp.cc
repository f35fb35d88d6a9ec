#include "framework/compiler/select_sbp.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/compiler/layout_constraints.h"
#include "framework/compiler/selection_cost.h"

namespace sluice {
namespace {

// How one operand stands on one axis before its reader is chosen.
struct OperandLayout {
  std::optional<Sbp> arrives;  // empty: a variable that nothing has settled yet
  std::optional<Sbp> bound;    // what a word, a stored layout or a rule demands
  bool scalar = false;
};

// Which rules still hold; they give way one after another where nothing legal is left.
struct Rules {
  bool preserve_space = true, new_split = true, preserve_time = true;
};

class Selector {
 public:
  Selector(const Graph& graph, const Grid& grid, BoxingPlanner* planner, const Machine& machine,
           VariableLayouts* fixed)
      : graph_(graph),
        grid_(grid),
        cost_(grid, planner, machine),
        constraints_(LayoutConstraints(graph)),
        fixed_(*fixed) {}

  absl::StatusOr<SbpAssignment> Run();

 private:
  absl::Status CheckAxisNames() const;
  absl::Status SettleSources();
  void SettleVariables();
  NdSbp WithAnnotation(const NdSbp& sbp, const SbpAnnotation& annotation) const;
  absl::Status SelectNode(const Node& node);
  std::vector<OperandLayout> OperandLayoutsOf(const Node& node, size_t axis) const;
  std::optional<std::string> ForwardFactor(const Node& node, size_t axis) const;
  std::vector<Signature> Legal(const Node& node, size_t axis, const std::vector<Signature>& all,
                               const Rules& rules) const;
  bool Requested(const Signature& signature, const std::vector<OperandLayout>& layouts,
                 const std::optional<std::string>& inherited) const;
  bool AnnotationRequests(const Node& node, size_t axis, const Signature& signature) const;
  bool TakesPartial(const Signature& signature, const std::vector<OperandLayout>& layouts) const;
  absl::Status Enumerate(const Node& node, const Rules& rules, std::vector<Shape> inputs,
                         std::vector<Shape> outputs, std::vector<Signature>* prefix,
                         std::vector<std::vector<Signature>>* found) const;
  int64_t Price(const Node& node, const Choice& choice) const;
  absl::Status NoSignature(const Node& node) const;
  void Take(const Node& node, Choice choice);
  void WarnIdleAxes();

  const Graph& graph_;
  const Grid& grid_;
  SelectionCost cost_;
  const std::vector<LayoutConstraint> constraints_;  // by tensor
  VariableLayouts& fixed_;
  SbpAssignment result_;
  std::vector<bool> settled_;                       // by tensor: seen/made are known
  std::map<TensorId, std::vector<NdSbp>> readers_;  // of variables, in the forward phase
  std::map<TensorId, NdSbp> use_;                   // of variables, once settled
  std::set<std::tuple<TensorId, NdSbp, int32_t>> paid_;
};

NdSbp Selector::WithAnnotation(const NdSbp& sbp, const SbpAnnotation& annotation) const {
  NdSbp result = sbp;
  for (size_t a = 0; a < grid_.axes().size(); ++a) {
    if (const Sbp* entry = annotation.Find(grid_.axes()[a].name)) result[a] = *entry;
  }
  return result;
}

absl::Status Selector::SettleSources() {
  for (NodeId id : graph_.inputs()) {
    const Node& node = graph_.node(id);
    const TensorId tensor = node.outputs[0];
    const TensorInfo& info = graph_.tensor(tensor);
    NdSbp sbp = WithAnnotation(grid_.Broadcast(), info.annotation);
    // The batch dimension, the first that the user's words split, is split over time as well, even
    // if the axis of that word is not in the mesh.
    int dim = -1;
    for (const auto& entry : info.annotation.entries) {
      if (dim < 0 && entry.second.is_split()) dim = entry.second.dim;
    }
    int64_t shards = 1;
    for (size_t a = 1; a < sbp.size(); ++a) {
      if (dim >= 0 && sbp[a] == Sbp::S(dim)) shards *= grid_.axes()[a].shards;
    }
    if (dim >= 0) {
      const int64_t extent = info.type.shape[dim], micro = grid_.micro_batches();
      if (extent % micro != 0) {
        return absl::InvalidArgumentError(absl::StrCat(node.name, ": a batch of ", extent,
                                                       " is not divided by micro_batches=", micro));
      }
      if (extent / micro < shards) {
        return absl::InvalidArgumentError(
            absl::StrCat(node.name, ": expected a batch of at least ", micro * shards, " (", micro,
                         " micro-batches on ", shards, " shards of the mesh), got ", extent));
      }
      if (micro > 1) sbp[0] = Sbp::S(dim);
    }
    result_.produced[tensor] = result_.consumed[tensor] = sbp;
    settled_[tensor] = true;
  }
  for (NodeId id : graph_.variables()) {
    const TensorId tensor = graph_.node(id).outputs[0];
    const auto found = fixed_.find(graph_.node(id).name);
    if (found == fixed_.end()) continue;
    const auto whole = [&](const NdSbp& space) {
      NdSbp sbp = grid_.Broadcast();
      std::copy(space.begin(), space.end(), sbp.begin() + 1);
      return sbp;
    };
    use_[tensor] = whole(found->second.use);
    result_.produced[tensor] = result_.consumed[tensor] = whole(found->second.stored);
    settled_[tensor] = true;
  }
  return absl::OkStatus();
}

// After the forward ops: a variable is used as their words or, where they agree, as they read it;
// it is stored so too, or as its constraint says, unless a storage annotation says otherwise.
void Selector::SettleVariables() {
  for (NodeId id : graph_.variables()) {
    const Node& node = graph_.node(id);
    const TensorId tensor = node.outputs[0];
    if (settled_[tensor]) continue;
    const TensorInfo& info = graph_.tensor(tensor);
    const TensorId like = constraints_[tensor].stored_like;
    NdSbp use = grid_.Broadcast(), stored;
    if (like >= 0) {
      use = stored = WithAnnotation(result_.produced[like], info.storage);
    } else {
      const std::vector<NdSbp>& readers = readers_[tensor];
      for (size_t a = 1; a < use.size(); ++a) {
        const bool agree = !readers.empty() &&
                           std::all_of(readers.begin(), readers.end(), [&](const NdSbp& reader) {
                             return reader[a] == readers[0][a];
                           });
        if (agree && !readers[0][a].is_partial()) use[a] = readers[0][a];
      }
      use = WithAnnotation(use, info.annotation);
      stored = WithAnnotation(use, info.storage);
    }
    use_[tensor] = use;
    result_.produced[tensor] = result_.consumed[tensor] = stored;
    settled_[tensor] = true;
    fixed_[node.name] = {grid_.Space(use), grid_.Space(stored), std::max(node.stage, 0)};
  }
}

std::vector<OperandLayout> Selector::OperandLayoutsOf(const Node& node, size_t axis) const {
  const GridAxis& where = grid_.axes()[axis];
  std::vector<OperandLayout> layouts;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorId x = node.inputs[i];
    const TensorInfo& info = graph_.tensor(x);
    OperandLayout s;
    s.scalar = info.type.shape.NumElements() == 1;
    if (graph_.IsVariable(x)) {
      const Sbp* entry = info.annotation.Find(where.name);
      if (where.time) {
        s.bound = Sbp::B();
      } else if (settled_[x]) {
        s.bound = node.phase == Phase::kUpdate ? result_.produced[x][axis] : use_.at(x)[axis];
      } else if (entry != nullptr) {
        s.bound = *entry;
      }
      s.arrives = s.bound;
    } else {
      s.arrives = result_.consumed[x][axis];
      // What is partial over micro-batches is accumulated where it is made, and crosses stages
      // once.
      if (where.time && s.arrives->is_partial() && graph_.node(info.producer).stage != node.stage) {
        s.arrives = Sbp::B();
      }
      const TensorId like = constraints_[x].updated_like;
      if (node.phase == Phase::kUpdate && like >= 0) {
        s.bound = where.time ? Sbp::B() : result_.produced[like][axis];
      }
    }
    layouts.push_back(s);
  }
  return layouts;
}

std::optional<std::string> Selector::ForwardFactor(const Node& node, size_t axis) const {
  if (node.forward < 0 || node.phase != Phase::kBackward) return std::nullopt;
  // A sum of gradients is no op's backward: partial ones are added first and reduced once.
  if (node.op->sum) return std::nullopt;
  return result_.choices[node.forward].signatures[axis].factor;
}

bool Selector::Requested(const Signature& signature, const std::vector<OperandLayout>& layouts,
                         const std::optional<std::string>& inherited) const {
  if (inherited == signature.factor) return true;
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (!signature.inputs[i].is_split()) continue;
    if (layouts[i].arrives == signature.inputs[i]) return true;
    if (layouts[i].bound == signature.inputs[i]) return true;
  }
  return false;
}

// An annotation on what the node makes asks for the split, too: so a sum of partial values that is
// wanted split is scattered as it is reduced, instead of reduced and then cut.
bool Selector::AnnotationRequests(const Node& node, size_t axis, const Signature& signature) const {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Sbp* entry = graph_.tensor(node.outputs[i]).annotation.Find(grid_.axes()[axis].name);
    if (entry != nullptr && entry->is_split() && signature.outputs[i] == *entry) return true;
  }
  return false;
}

// P is taken only as it comes; a scalar may be padded beside another operand that comes in P.
bool Selector::TakesPartial(const Signature& signature,
                            const std::vector<OperandLayout>& layouts) const {
  bool any = false;
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (!signature.inputs[i].is_partial()) continue;
    const bool comes = layouts[i].arrives == signature.inputs[i];
    if (!comes && !(layouts[i].scalar && layouts[i].arrives == Sbp::B())) return false;
    any |= comes;
  }
  return any;
}

std::vector<Signature> Selector::Legal(const Node& node, size_t axis,
                                       const std::vector<Signature>& all,
                                       const Rules& rules) const {
  const std::vector<OperandLayout> layouts = OperandLayoutsOf(node, axis);
  const std::optional<std::string> inherited = ForwardFactor(node, axis);
  const bool time = grid_.axes()[axis].time;
  const auto fits = [&](const Signature& signature) {
    bool partial = false;
    for (size_t i = 0; i < layouts.size(); ++i) {
      if (layouts[i].bound && *layouts[i].bound != signature.inputs[i]) return false;
      partial |= signature.inputs[i].is_partial();
    }
    return !partial || TakesPartial(signature, layouts);
  };
  // Where readers of a variable disagree, what bound it may rule the forward op's factor out.
  const bool has_inherited = inherited && *inherited != "P" &&
                             std::any_of(all.begin(), all.end(), [&](const Signature& s) {
                               return s.factor == *inherited && fits(s);
                             });
  std::vector<Signature> found;
  for (const Signature& signature : all) {
    if (!fits(signature)) continue;
    const bool splits = !signature.factor.empty() && signature.factor != "P";
    const bool requested =
        Requested(signature, layouts, inherited) || AnnotationRequests(node, axis, signature);
    if (splits && rules.new_split && !requested) continue;
    if (has_inherited && signature.factor != *inherited) continue;
    found.push_back(signature);
  }
  if (!(time ? rules.preserve_time : rules.preserve_space)) return found;
  std::vector<Signature> preserved;  // an S that the op can take is not gathered
  for (const Signature& signature : found) {
    bool drops = false;
    for (size_t i = 0; i < layouts.size() && !drops; ++i) {
      const std::optional<Sbp>& arrives = layouts[i].arrives;
      if (!arrives || !arrives->is_split() || signature.inputs[i] == *arrives) continue;
      for (const Signature& other : found) drops |= other.inputs[i] == *arrives;
    }
    if (!drops) preserved.push_back(signature);
  }
  return preserved.empty() ? found : preserved;
}

void CutLocal(const std::vector<Sbp>& sbps, int64_t shards, std::vector<Shape>* shapes) {
  for (size_t i = 0; i < sbps.size(); ++i) {
    if (!sbps[i].is_split()) continue;
    int64_t& extent = (*shapes)[i][sbps[i].dim];
    extent = (extent + shards - 1) / shards;
  }
}

// All legal combinations over the axes, outermost first; `inputs` and `outputs` are what the outer
// axes leave to one shard, which is what a reshape has to know.
absl::Status Selector::Enumerate(const Node& node, const Rules& rules, std::vector<Shape> inputs,
                                 std::vector<Shape> outputs, std::vector<Signature>* prefix,
                                 std::vector<std::vector<Signature>>* found) const {
  const size_t axis = prefix->size();
  if (axis == grid_.axes().size()) {
    found->push_back(*prefix);
    return absl::OkStatus();
  }
  std::vector<TensorType> input_types, output_types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    input_types.push_back({graph_.tensor(node.inputs[i]).type.dtype, inputs[i]});
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    output_types.push_back({graph_.tensor(node.outputs[i]).type.dtype, outputs[i]});
  }
  const int64_t shards = grid_.axes()[axis].shards;
  std::vector<Signature> legal;
  if (shards == 1) {
    legal.push_back({"", std::vector<Sbp>(inputs.size()), std::vector<Sbp>(outputs.size())});
  } else {
    ASSIGN_OR_RETURN(const std::vector<Signature> all,
                     SignaturesOf(*node.op, {node.attributes, input_types, output_types}, shards));
    legal = Legal(node, axis, all, rules);
  }
  for (const Signature& signature : legal) {
    std::vector<Shape> in = inputs, out = outputs;
    if (grid_.axes()[axis].time) {
      bool divides = true;
      const auto check = [&](const std::vector<Sbp>& sbps, const std::vector<Shape>& shapes) {
        for (size_t i = 0; i < sbps.size(); ++i) {
          divides &= !sbps[i].is_split() || shapes[i][sbps[i].dim] % shards == 0;
        }
      };
      check(signature.inputs, in), check(signature.outputs, out);
      if (!divides) continue;
    }
    CutLocal(signature.inputs, shards, &in);
    CutLocal(signature.outputs, shards, &out);
    prefix->push_back(signature);
    RETURN_IF_ERROR(Enumerate(node, rules, std::move(in), std::move(out), prefix, found));
    prefix->pop_back();
  }
  return absl::OkStatus();
}

Choice ChoiceOf(const Node& node, std::vector<Signature> signatures) {
  Choice choice;
  choice.inputs.resize(node.inputs.size());
  choice.outputs.resize(node.outputs.size());
  for (const Signature& signature : signatures) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      choice.inputs[i].push_back(signature.inputs[i]);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      choice.outputs[i].push_back(signature.outputs[i]);
    }
  }
  choice.signatures = std::move(signatures);
  return choice;
}

bool OneKindOfPartial(const Choice& choice) {
  for (const auto* side : {&choice.inputs, &choice.outputs}) {
    for (const NdSbp& sbp : *side) {
      Reduction kind = Reduction::kNone;
      for (const Sbp& s : sbp) {
        if (!s.is_partial()) continue;
        if (kind != Reduction::kNone && kind != s.reduction) return false;
        kind = s.reduction;
      }
    }
  }
  return true;
}

int64_t Selector::Price(const Node& node, const Choice& choice) const {
  int64_t nanoseconds = cost_.Compute(graph_, node, choice.inputs, choice.outputs);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorId x = node.inputs[i];
    if (!settled_[x] || paid_.count({x, choice.inputs[i], node.stage}) != 0) continue;
    const TensorInfo& info = graph_.tensor(x);
    const int64_t boxing =
        cost_.Boxing(info.type, result_.consumed[x], std::max(graph_.node(info.producer).stage, 0),
                     choice.inputs[i], std::max(node.stage, 0));
    if (boxing < 0) return -1;
    nanoseconds += boxing;
  }
  return nanoseconds;
}

absl::Status Selector::NoSignature(const Node& node) const {
  std::string text = absl::StrCat(node.name, ": no signature of ", node.op->name, " registers");
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorInfo& info = graph_.tensor(node.inputs[i]);
    absl::StrAppend(&text, i == 0 ? " " : ", ", graph_.node(info.producer).name, " ",
                    info.type.shape.ToString());
    if (!info.annotation.empty()) absl::StrAppend(&text, " as ", info.annotation.ToString());
    for (size_t a = 0; a < grid_.axes().size(); ++a) {
      const OperandLayout s = OperandLayoutsOf(node, a)[i];
      if (grid_.axes()[a].shards == 1 || !s.arrives) continue;
      absl::StrAppend(&text, " ", grid_.axes()[a].name, ":", ToString(*s.arrives));
    }
  }
  return absl::InvalidArgumentError(text);
}

void Selector::Take(const Node& node, Choice choice) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorId x = node.inputs[i];
    if (graph_.IsVariable(x) && node.phase == Phase::kForward) {
      readers_[x].push_back(choice.inputs[i]);
    }
    paid_.insert({x, choice.inputs[i], node.stage});
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorId y = node.outputs[i];
    result_.produced[y] = choice.outputs[i];
    result_.consumed[y] = WithAnnotation(choice.outputs[i], graph_.tensor(y).annotation);
    settled_[y] = true;
  }
  result_.choices[node.id] = std::move(choice);
}

absl::Status Selector::SelectNode(const Node& node) {
  std::vector<Shape> inputs, outputs;
  for (TensorId x : node.inputs) inputs.push_back(graph_.tensor(x).type.shape);
  for (TensorId y : node.outputs) outputs.push_back(graph_.tensor(y).type.shape);
  for (const Rules& rules :
       {Rules{}, Rules{false, true, true}, Rules{false, false, true}, Rules{false, false, false}}) {
    std::vector<Signature> prefix;
    std::vector<std::vector<Signature>> found;
    RETURN_IF_ERROR(Enumerate(node, rules, inputs, outputs, &prefix, &found));
    std::optional<Choice> best;
    std::vector<std::pair<std::string, int64_t>> alternatives;
    for (std::vector<Signature>& signatures : found) {
      Choice choice = ChoiceOf(node, std::move(signatures));
      if (!OneKindOfPartial(choice)) continue;
      choice.nanoseconds = found.size() == 1 ? 0 : Price(node, choice);
      if (choice.nanoseconds < 0) continue;
      alternatives.push_back({DescribeSignatures(choice, grid_), choice.nanoseconds});
      if (!best || choice.nanoseconds < best->nanoseconds) best = std::move(choice);
    }
    if (!best) continue;
    if (alternatives.size() == 1) best->nanoseconds = std::max<int64_t>(0, Price(node, *best));
    best->alternatives = std::move(alternatives);
    Take(node, *std::move(best));
    return absl::OkStatus();
  }
  return NoSignature(node);
}

// An axis that no annotation names splits nothing, which may be meant. But where its name is nearly
// one that annotations do name and the mesh lacks, "dta" for "data", all devices would silently do
// the same work.
absl::Status Selector::CheckAxisNames() const {
  std::set<std::string> named;
  for (TensorId t = 0; t < graph_.num_tensors(); ++t) {
    for (const SbpAnnotation* annotation :
         {&graph_.tensor(t).annotation, &graph_.tensor(t).storage}) {
      for (const auto& entry : annotation->entries) named.insert(entry.first);
    }
  }
  const std::vector<std::string> known(named.begin(), named.end());
  for (const GridAxis& axis : grid_.axes()) {
    if (axis.time || named.count(axis.name) > 0) continue;
    const std::string nearest = NearestName(axis.name, known);
    const bool in_mesh = std::any_of(grid_.axes().begin(), grid_.axes().end(),
                                     [&](const GridAxis& other) { return other.name == nearest; });
    if (nearest.empty() || in_mesh) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "mesh: expected axes that the model's annotations name (", absl::StrJoin(known, ", "),
        "), got \"", axis.name, "\"; did you mean \"", nearest, "\"?"));
  }
  return absl::OkStatus();
}

void Selector::WarnIdleAxes() {
  for (size_t a = 1; a < grid_.axes().size(); ++a) {
    if (grid_.axes()[a].shards == 1) continue;
    const bool splits =
        std::any_of(result_.choices.begin(), result_.choices.end(), [&](const Choice& choice) {
          return a < choice.signatures.size() && !choice.signatures[a].factor.empty() &&
                 choice.signatures[a].factor != "P";
        });
    if (!splits) {
      result_.warnings.push_back(absl::StrCat("the axis ", grid_.axes()[a].name, "=",
                                              grid_.axes()[a].shards,
                                              " splits nothing: all its devices do the same work"));
    }
  }
}

absl::StatusOr<SbpAssignment> Selector::Run() {
  result_.choices.resize(graph_.nodes().size());
  result_.produced.resize(graph_.num_tensors(), grid_.Broadcast());
  result_.consumed.resize(graph_.num_tensors(), grid_.Broadcast());
  settled_.resize(graph_.num_tensors(), false);
  RETURN_IF_ERROR(CheckAxisNames());
  RETURN_IF_ERROR(SettleSources());
  for (Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
    if (phase == Phase::kBackward) SettleVariables();
    for (const Node& node : graph_.nodes()) {
      if (node.phase != phase || node.op == &InputOp() || node.op == &VariableOp()) continue;
      RETURN_IF_ERROR(SelectNode(node));
    }
  }
  WarnIdleAxes();
  return std::move(result_);
}

}  // namespace

std::string DescribeSignatures(const Choice& choice, const Grid& grid) {
  std::string text;
  for (size_t a = 0; a < choice.signatures.size(); ++a) {
    if (grid.axes()[a].shards == 1) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", grid.axes()[a].name, ":",
                    ToString(choice.signatures[a]));
  }
  return text.empty() ? "B" : text;
}

absl::StatusOr<SbpAssignment> SelectSbp(const Graph& graph, const Grid& grid,
                                        BoxingPlanner* planner, const Machine& machine,
                                        VariableLayouts* fixed) {
  return Selector(graph, grid, planner, machine, fixed).Run();
}

}  // namespace sluice
