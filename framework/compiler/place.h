// The last phases of a program: order, bytes and proof, found on one device of each class, and then
// taken over by all. From here on nothing changes its registers, rates or scripts. Pure.
#ifndef SLUICE_FRAMEWORK_COMPILER_PLACE_H_
#define SLUICE_FRAMEWORK_COMPILER_PLACE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/compiler/memory.h"
#include "framework/compiler/schedule.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Called as each phase of a program ends: "select", "lower", "schedule", "order", ...
using PhaseEnd = std::function<void(absl::string_view phase)>;

// A program that has the order of every compute stream.
struct Ordered {
  plan::Program program;
};

// A program that has its bytes too, is proven live and knows the time of a step.
struct Placed {
  plan::Program program;
  std::vector<int64_t> base;  // by device: where its bytes begin, above its variables
  std::vector<PackedDevice> devices;
  std::vector<int32_t> begin_rank, end_rank;  // of instances, in the run that was predicted
};

// Errors: a cycle that would deadlock, in the user's words.
absl::StatusOr<Ordered> OrderProgram(Schedule schedule, const PhaseEnd& phase_end = {},
                                     const Stop& stop = {});

absl::StatusOr<Placed> PlaceProgram(Ordered ordered, const PackingOptions& options,
                                    const PhaseEnd& phase_end = {});

// What a rank runs of a program.
struct RankProgram {
  plan::Program program;
  std::vector<int64_t> staging;  // bytes, by device
};

// Gives what was found on the representatives to `schedule`, that of a rank or, of a single one, of
// all devices; `representatives`: by device. Staging lies above what is packed.
absl::StatusOr<RankProgram> ExpandPlaced(const Placed& placed,
                                         absl::Span<const int32_t> representatives,
                                         Schedule schedule, const PhaseEnd& phase_end = {},
                                         const Stop& stop = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_PLACE_H_
