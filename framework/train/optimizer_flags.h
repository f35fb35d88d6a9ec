// The flags that say how parameters are updated. They are global: only programs that train link
// them.
#ifndef SLUICE_FRAMEWORK_TRAIN_OPTIMIZER_FLAGS_H_
#define SLUICE_FRAMEWORK_TRAIN_OPTIMIZER_FLAGS_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "framework/passes/optimizer.h"

namespace sluice {

// Reads them. `given` are the flags that stood on the command line or that a run recorded: what a
// preset says of another optimizer's form is left out, where the user asks for a rule that lacks
// it. InvalidArgument names a flag that is out of range, or that does not go with the rule.
absl::Status ReadOptimizerFlags(const std::set<std::string>& given, OptimizerOptions* optimizer);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_OPTIMIZER_FLAGS_H_
