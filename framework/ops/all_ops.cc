#include "framework/ops/all_ops.h"

#include "framework/ops/op_defs.h"

namespace sluice {

absl::Span<const OpDef* const> AllOps() {
  static const OpDef* const ops[] = {
#define SLUICE_OP(Name) &Name##Op(),
#include "framework/ops/op_list.inc"
#undef SLUICE_OP
  };
  return ops;
}

const OpDef* FindOp(absl::string_view name) {
  for (const OpDef* op : AllOps()) {
    if (op->name == name) return op;
  }
  return nullptr;
}

}  // namespace sluice
