// What is wrong with programs before anything is chosen for them: graphs that are not finished, and
// names of mesh axes that do not fit together. Pure.
#ifndef SLUICE_FRAMEWORK_COMPILER_CHECK_PROGRAMS_H_
#define SLUICE_FRAMEWORK_COMPILER_CHECK_PROGRAMS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/compiler/compile.h"
#include "framework/sbp/mesh.h"

namespace sluice {

// FailedPrecondition names a program whose graph has not been finished. InvalidArgument names an
// axis of several devices that no annotation of any program mentions, with the nearest one that an
// annotation does mention: its devices would all do the same work, which is what a misspelt name
// comes to.
absl::Status CheckPrograms(absl::Span<const ProgramGraph> programs, const Mesh& mesh);

// A line for each annotation on an axis that the mesh lacks and nearly has, "modle:S1" where it has
// "model". An axis that the mesh simply lacks is fine: the same model runs on any mesh.
std::vector<std::string> MisspeltAnnotations(absl::Span<const ProgramGraph> programs,
                                             const Mesh& mesh);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_CHECK_PROGRAMS_H_
