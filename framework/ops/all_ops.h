// The list of all ops, in the order of op_list.inc. Whatever walks ops walks this: conformance
// tests, the parsers of graphs, the coverage counts of random graphs.
#ifndef SLUICE_FRAMEWORK_OPS_ALL_OPS_H_
#define SLUICE_FRAMEWORK_OPS_ALL_OPS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/op_def.h"

namespace sluice {

absl::Span<const OpDef* const> AllOps();
// Those that stand for several of them on CUDA devices, which alone have kernels (card_ops.h).
absl::Span<const OpDef* const> CardOps();
// Of both lists. Null if there is none of that name.
const OpDef* FindOp(absl::string_view name);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_ALL_OPS_H_
