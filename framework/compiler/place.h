// The last phases of a program: order, bytes and proof, found on one device of each class, and then
// taken over by all. Nothing after this may change its registers, rates or scripts. Pure.
#ifndef SLUICE_FRAMEWORK_COMPILER_PLACE_H_
#define SLUICE_FRAMEWORK_COMPILER_PLACE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/compiler/memory.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Called as each phase of a program ends: "select", "lower", "schedule", "order", ...
using PhaseEnd = std::function<void(absl::string_view phase)>;

struct Placed {
  std::vector<PackedDevice> devices;
  std::vector<int32_t> begin_rank, end_rank;  // of instances, in the run that was predicted
};

// Order, offsets, reuse edges and predicted time of a program that is whole, or a representative
// program. `base`: by device, where the program's bytes may begin, above its variables. Errors: a
// cycle that would deadlock, in the user's words.
absl::StatusOr<Placed> PlaceProgram(plan::Program* program, absl::Span<const int64_t> base,
                                    const PhaseEnd& phase_end = {});

// Gives what was found on the representative program to the program of all devices.
// `representatives`: by device.
absl::Status ExpandPlaced(const plan::Program& representative_program, const Placed& placed,
                          absl::Span<const int32_t> representatives, plan::Program* program,
                          const PhaseEnd& phase_end = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_PLACE_H_
