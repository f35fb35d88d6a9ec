// A plan around its programs: the devices and their classes at the beginning; at the end what was
// found on one device of each class becomes the programs of one rank's devices, and is checked
// against the memory of each. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_EMIT_H_
#define SLUICE_FRAMEWORK_COMPILER_EMIT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/compiler/compile.h"
#include "framework/compiler/schedule.h"
#include "framework/sbp/boxing.h"

namespace sluice {

// InvalidArgument names the option that no program can be compiled with.
// Of micro-batches or chunks.
absl::Status CheckCount(absl::string_view what, int64_t count);
absl::Status CheckOptions(const CompileOptions& options);
// Of the first rank; they share its cores.
int64_t DevicesOfARank(const Mesh& mesh);
// Without programs: the devices of the mesh, and those that the host needs where none of them is
// its own; nothing lies on them yet, and it says of itself that it holds representatives alone,
// until it gets more. One class a stage; where bytes have to cross between memory spaces each
// device is a class of its own, as transfers differ from device to device.
Compilation EmptyCompilation(const CompileOptions& options);
// For the tasks of the representatives.
ScheduleOptions ScheduleOptionsOf(const CompileOptions& options, const DeviceClasses& classes);
// By device, as its class's representative has it.
std::vector<int64_t> BytesOfVariables(const plan::Plan& plan, const DeviceClasses& classes);

// Calls options.observe, if there is one.
absl::Status Observe(const CompileOptions& options, absl::string_view program,
                     const Station& station);

// Adds each program to the plan: as it was placed, where the plan holds representatives alone or
// each device of a single rank is a class of its own; else lowered and scheduled anew for the
// rank's devices, with the order and the bytes of their representatives. Then the compiled program
// gets the tasks of these. `placed`: by program.
absl::Status EmitPrograms(std::vector<Placed> placed, const Machine& machine,
                          const CompileOptions& options, BoxingPlanner* planner,
                          Compilation* compilation);

// Sets the bytes of each device of the plan. What is pulled counts once the programs are emitted.
void CountMemory(absl::Span<const int64_t> base, Compilation* compilation);

// Of the plan as it is serialized, without a digest.
absl::Status SetDigest(const Stop& stop, plan::Plan* plan);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_EMIT_H_
