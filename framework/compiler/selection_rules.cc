// Why rules, and why these. Least cost alone finds layouts that are cheap in the model of costs and
// that nobody wants: a second reduction for every parameter, micro-batches packed into one firing,
// activations gathered in order to split a weight. The rules leave only layouts that somebody asked
// for, and cost breaks ties among them.
//
// Why this order. A preference looks at what the rules before it have left, so whatever cannot be
// taken at all has to be gone before: a backward op follows its forward op's factor only where its
// operands allow that, and a split counts as preserved only if a legal signature takes it.
//
// Worked example: y = x w, "mk,kn->mn", on an axis of two devices where x arrives as S0 and nothing
// has been said of w. The candidates are
//   B,B->B     m: S0,B->S0     k: S1,S0->P     n: B,S1->S1     P,B->P     B,P->P
// "partial as it comes" refuses the last two, for neither operand arrives partial. "no new split"
// refuses k and n, as no operand arrives split there. "preserve sharding" refuses B,B->B, which
// would gather x although m takes it as it is. What is left is m: data parallelism, and w is read
// whole. With the annotation S1 on w, "bound operands" leaves n alone: x is gathered.
#include "framework/compiler/selection_rules.h"

#include <algorithm>

namespace sluice {
namespace {

using Left = absl::Span<const Signature* const>;

bool ReadsABoundOperandOtherwise(const NodeOnAxis& node, const OuterAxes&,
                                 const Signature& candidate, Left) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const std::optional<Sbp>& bound = node.inputs[i].bound;
    if (bound && *bound != candidate.inputs[i]) return true;
  }
  return false;
}

// A scalar may be padded beside another operand that does arrive partial: that moves no bytes worth
// counting, and without it a sum of partial scalars and a constant would be reduced term by term.
bool MakesAnOperandPartial(const NodeOnAxis& node, const OuterAxes&, const Signature& candidate,
                           Left) {
  bool any = false, any_arrives = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!candidate.inputs[i].is_partial()) continue;
    any = true;
    const OperandLayout& operand = node.inputs[i];
    const bool arrives = operand.arrives == candidate.inputs[i];
    if (!arrives && !(operand.scalar && operand.arrives == Sbp::B())) return true;
    any_arrives |= arrives;
  }
  return any && !any_arrives;
}

bool SplitsWhatNobodyAskedFor(const NodeOnAxis& node, const OuterAxes&, const Signature& candidate,
                              Left) {
  if (!SplitsFactor(candidate) || node.forward_factor == candidate.factor) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!candidate.inputs[i].is_split()) continue;
    if (node.inputs[i].arrives == candidate.inputs[i]) return false;
    if (node.inputs[i].bound == candidate.inputs[i]) return false;
  }
  // An annotation on what the node makes asks as well. So a sum of partial values that is wanted
  // split is scattered as it is reduced, instead of being reduced and then cut.
  for (size_t i = 0; i < node.requested_outputs.size(); ++i) {
    const std::optional<Sbp>& requested = node.requested_outputs[i];
    if (requested && requested->is_split() && candidate.outputs[i] == *requested) return false;
  }
  return true;
}

// A linear set in P is no factor that could be followed: which operands of the backward op may be
// partial depends on which of them arrive so.
bool LeavesTheForwardFactor(const NodeOnAxis& node, const OuterAxes&, const Signature& candidate,
                            Left) {
  return node.forward_factor && *node.forward_factor != "P" &&
         candidate.factor != *node.forward_factor;
}

bool Gathers(const NodeOnAxis& node, const Signature& candidate, Left left) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const std::optional<Sbp>& arrives = node.inputs[i].arrives;
    if (!arrives || !arrives->is_split() || candidate.inputs[i] == *arrives) continue;
    for (const Signature* other : left) {
      if (other->inputs[i] == *arrives) return true;
    }
  }
  return false;
}

bool GathersOverSpace(const NodeOnAxis& node, const OuterAxes&, const Signature& candidate,
                      Left left) {
  return !node.time && Gathers(node, candidate, left);
}

bool GathersOverTime(const NodeOnAxis& node, const OuterAxes&, const Signature& candidate,
                     Left left) {
  return node.time && Gathers(node, candidate, left);
}

bool CutsMicroBatchesUnevenly(const NodeOnAxis& node, const OuterAxes& outer,
                              const Signature& candidate, Left) {
  if (!node.time) return false;
  const auto uneven = [&](const std::vector<Sbp>& sbps, absl::Span<const TensorType> types) {
    for (size_t i = 0; i < sbps.size(); ++i) {
      if (sbps[i].is_split() && types[i].shape[sbps[i].dim] % node.shards != 0) return true;
    }
    return false;
  };
  return uneven(candidate.inputs, outer.inputs) || uneven(candidate.outputs, outer.outputs);
}

bool MixesReductions(const NodeOnAxis&, const OuterAxes& outer, const Signature& candidate, Left) {
  const auto mixes = [&](std::vector<Sbp> Signature::*side) {
    for (size_t i = 0; i < (candidate.*side).size(); ++i) {
      const Sbp& inner = (candidate.*side)[i];
      if (!inner.is_partial()) continue;
      for (const Signature& signature : outer.signatures) {
        const Sbp& taken = (signature.*side)[i];
        if (taken.is_partial() && taken.reduction != inner.reduction) return true;
      }
    }
    return false;
  };
  return mixes(&Signature::inputs) || mixes(&Signature::outputs);
}

// What gives way first does the least harm. To gather over space costs a boxing and nothing else. A
// new split is handed on to everything behind it, which then counts it as asked for. To pack
// micro-batches ends the pipelining of all that follows, and keeps every micro-batch alive.
constexpr LegalityRule kRules[] = {
    {"bound operands",
     "An annotation, a stored layout or the role of a tensor says how this operand is read. It is "
     "never dropped in silence, however cheap another layout would be.",
     0, false, ReadsABoundOperandOtherwise},
    {"partial as it comes",
     "A tensor is read as partial only if it arrives so. To make one partial on purpose saves a "
     "reduction here and costs many smaller ones behind it.",
     0, false, MakesAnOperandPartial},
    {"no new split",
     "A factor is split only if an operand arrives or is bound split along it, the forward op "
     "split it, or an annotation asks the result to be split there. Otherwise cost would split "
     "weights that nobody meant to split, and move activations for it.",
     2, false, SplitsWhatNobodyAskedFor},
    {"equal micro-batches",
     "A device runs the same instructions for every micro-batch, so a split over time has to "
     "divide.",
     0, false, CutsMicroBatchesUnevenly},
    {"one reduction",
     "A tensor is partial by one kind of reduction on all axes, because sums and maxima do not "
     "commute.",
     0, false, MixesReductions},
    {"backward follows forward",
     "A backward op splits the factor that its forward op split, so that both read activations in "
     "the same layout and nothing that was saved has to move.",
     0, true, LeavesTheForwardFactor},
    {"preserve sharding over space",
     "What arrives split and can be read split is not gathered. Otherwise a slow network would "
     "undo data parallelism by gathering the input, which is small.",
     1, true, GathersOverSpace},
    {"preserve sharding over time",
     "Micro-batches that can be read one by one are not packed into one firing, which would wait "
     "for the last of them and need the memory of all.",
     3, true, GathersOverTime},
};

}  // namespace

absl::Span<const LegalityRule> SelectionRules() { return kRules; }

bool SplitsFactor(const Signature& signature) {
  return !signature.factor.empty() && signature.factor != "P";
}

std::vector<const LegalityRule*> Legal(const NodeOnAxis& node, const OuterAxes& outer,
                                       absl::Span<const Signature> candidates, int given_way) {
  std::vector<const LegalityRule*> refused_by(candidates.size(), nullptr);
  std::vector<const Signature*> left, kept;
  left.reserve(candidates.size());
  kept.reserve(candidates.size());
  for (const Signature& candidate : candidates) left.push_back(&candidate);
  for (const LegalityRule& rule : kRules) {
    if (rule.gives_way > 0 && rule.gives_way <= given_way) continue;
    kept.clear();
    for (const Signature* candidate : left) {
      if (!rule.refuses(node, outer, *candidate, left)) kept.push_back(candidate);
    }
    if (kept.size() == left.size() || (rule.preference && kept.empty())) continue;
    for (const Signature* candidate : left) {
      if (std::find(kept.begin(), kept.end(), candidate) == kept.end()) {
        refused_by[candidate - candidates.data()] = &rule;
      }
    }
    left.swap(kept);
  }
  return refused_by;
}

}  // namespace sluice
