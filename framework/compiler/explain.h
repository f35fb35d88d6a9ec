// Fills an Explanation from what the phases of Compile leave, and prints it for people.
#ifndef SLUICE_FRAMEWORK_COMPILER_EXPLAIN_H_
#define SLUICE_FRAMEWORK_COMPILER_EXPLAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/compiler/device_classes.h"
#include "framework/compiler/explanation.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/memory.h"
#include "framework/compiler/select_sbp.h"
#include "framework/compiler/task_graph.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// What selection and lowering decided. `actor_of` is by task (BuildProgram).
ExplainedProgram ExplainChoices(const Graph& graph, const Grid& grid,
                                const SbpAssignment& assignment, const TaskGraph& tasks,
                                absl::Span<const int32_t> actor_of, const plan::Program& program);
// Time and bytes of a program that has its order and its offsets; it holds all devices, or the
// representatives alone. `packed` is by device; the variables are the plan's.
absl::Status ExplainPlacement(const plan::Plan& plan, const plan::Program& program,
                              absl::Span<const PackedDevice> packed, const DeviceClasses& classes,
                              absl::Span<const ExplainedVariable> variables,
                              ExplainedProgram* explained);
// The axes of each device, and its stage.
void ExplainDevices(const Mesh& mesh, Explanation* explanation);

// For each program: a line per node with what its signature cost against the others, a line per
// boxing, and memory and time.
std::string ExplanationText(const Explanation& explanation);
// What a plan is too large by: the ten largest tensors, variables among them, that are alive at the
// peak of the program and device that need the most bytes, a line each.
std::string LargestAtPeak(const Explanation& explanation);
// Boxings alone, one line each, without times and reasons: stable across machines, for goldens.
std::string BoxingSummary(const TaskGraph& tasks);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_EXPLAIN_H_
