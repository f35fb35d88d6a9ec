// The rules that say which signatures a node may take, as a table: `Legal` walks it, explain prints
// it, and docs/sbp.md tells it. Everything here is a pure function of its arguments; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_SELECTION_RULES_H_
#define SLUICE_FRAMEWORK_COMPILER_SELECTION_RULES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/op_def.h"
#include "framework/sbp/index_rule.h"
#include "framework/sbp/nd_sbp.h"

namespace sluice {

// How one operand stands on one axis before its reader is chosen.
struct OperandLayout {
  std::optional<Sbp> arrives;  // empty: a variable that nothing has settled yet
  std::optional<Sbp> bound;    // what an annotation, a stored layout or a role demands
  bool scalar = false;
};

// All that the rules know of a node on one axis: what the assignment so far says of its neighbours.
struct NodeOnAxis {
  bool time = false;  // the axis of micro-batches
  int64_t shards = 1;
  std::vector<OperandLayout> inputs;
  std::vector<std::optional<Sbp>> requested_outputs;  // by the annotations on what the node makes
  std::optional<std::string> forward_factor;          // of a backward node: its forward node's
};

// What the signatures that were taken on the outer axes leave to one shard.
struct OuterAxes {
  absl::Span<const Signature> signatures;
  absl::Span<const TensorType> inputs, outputs;
};

struct LegalityRule {
  absl::string_view name;
  absl::string_view reason;
  // Where nothing legal is left, the rules of rank 1 give way first, then those of 2, then of 3;
  // those of rank 0 never do.
  int gives_way = 0;
  // A preference refuses nothing where it would refuse all that the rules before it have left.
  bool preference = false;
  // `left`: the candidates that the rules before this one have left, `candidate` among them.
  bool (*refuses)(const NodeOnAxis& node, const OuterAxes& outer, const Signature& candidate,
                  absl::Span<const Signature* const> left) = nullptr;
};

// In the order in which they are asked.
absl::Span<const LegalityRule> SelectionRules();
// Ranks of `gives_way` run from 0 to this.
inline constexpr int kLastToGiveWay = 3;

// By candidate: the first rule that refuses it, nullptr where it is legal. Rules whose rank is
// above 0 and at most `given_way` are not asked.
std::vector<const LegalityRule*> Legal(const NodeOnAxis& node, const OuterAxes& outer,
                                       absl::Span<const Signature> candidates, int given_way);

// Whether the signature splits a factor, rather than being B throughout or a linear set in P.
bool SplitsFactor(const Signature& signature);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_SELECTION_RULES_H_
