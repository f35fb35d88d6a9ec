// The OpDef of every op of op_list.inc, for those who need one op rather than the list (all_ops.h):
// GeluOp() and so on. Each is made on first use and lives forever; any thread.
#ifndef SLUICE_FRAMEWORK_OPS_OP_DEFS_H_
#define SLUICE_FRAMEWORK_OPS_OP_DEFS_H_

#include "framework/graph/op_def.h"

namespace sluice {

#define SLUICE_OP(Name) const OpDef& Name##Op();
#include "framework/ops/op_list.inc"
#undef SLUICE_OP

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_OP_DEFS_H_
