// Time and bytes of a program, for its explanation. Internal to the package. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_EXPLAIN_PLACEMENT_H_
#define SLUICE_FRAMEWORK_EXPLAIN_PLACEMENT_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/compiler/device_classes.h"
#include "framework/compiler/memory.h"
#include "framework/explain/explanation.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Of a program that has its order and its offsets; it holds all devices, or the representatives
// alone. `packed` is by device; the variables are the plan's.
absl::Status ExplainPlacement(const plan::Plan& plan, const plan::Program& program,
                              absl::Span<const PackedDevice> packed, const DeviceClasses& classes,
                              absl::Span<const ExplainedVariable> variables,
                              ExplainedProgram* explained);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_EXPLAIN_PLACEMENT_H_
