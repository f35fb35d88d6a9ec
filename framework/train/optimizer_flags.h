// The flags that say how parameters are updated. They are global: only programs that train link
// them.
#ifndef SLUICE_FRAMEWORK_TRAIN_OPTIMIZER_FLAGS_H_
#define SLUICE_FRAMEWORK_TRAIN_OPTIMIZER_FLAGS_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "framework/passes/optimizer.h"

namespace sluice {

// Clears a preset's --nesterov where the user asks for a rule that has no such form. `given` are
// the flags that stood on the command line or that a run recorded.
void DropUnusedNesterov(const std::set<std::string>& given);

// Reads the flags. InvalidArgument names one that is out of range, or that does not go with the
// rule.
absl::Status ReadOptimizerFlags(OptimizerOptions* optimizer);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_OPTIMIZER_FLAGS_H_
