// Gives every register slot, every temporary and the scratch of a card's kernels their bytes. All
// of a device's are packed together by lifetime over the recorded order; where bytes change hands,
// the program gets a reuse edge, unless its waits order the two buffers anyway. Slots that live
// across steps (an initial token, or tokens of a step that their number does not divide) have bytes
// of their own. Those with an initial token are caches, which programs share: they come first, by
// name, so that programs of the same caches have them at the same place. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_MEMORY_H_
#define SLUICE_FRAMEWORK_COMPILER_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/compiler/take_inputs.h"
#include "framework/plan/plan.pb.h"
#include "framework/plan/program_index.h"

namespace sluice {

struct PackingOptions {
  std::vector<int64_t> base;  // by device: where its bytes begin, above its variables; default: 0
  int64_t alignment = 64;     // of every offset
  TakeOptions take = {};
  Stop stop;  // no more retries, and Cancelled; may be empty
};

// Of offsets in the memory of a plan's devices: a cache line, or where there are cards what their
// scratch needs.
int64_t AlignmentOf(const plan::Plan& plan);

// The least multiple of `alignment` that holds `bytes`.
inline int64_t AlignUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

struct PackedDevice {
  int64_t packed = 0;    // bytes above base
  int64_t live = 0;      // the most that is live at one time: no packing can be smaller
  int64_t unshared = 0;  // what it would be if nothing shared bytes
};

struct Packing {
  std::vector<PackedDevice> devices;
  ProgramIndex index;  // of the program, with its reuse edges
};

// Sets which outputs take their inputs' bytes, slot_offsets of registers and rings (not of
// variables), offsets of temporaries and of what scratch has one, and replaces the program's reuse
// edges. The order must have been recorded;
// nothing may change a quota, rate or order afterwards. FailedPrecondition if the program is not
// live.
absl::StatusOr<Packing> PackMemory(plan::Program* program, const PackingOptions& options = {});

struct RankPacking {
  std::vector<int64_t> staging;  // bytes above its base, by device
  ProgramIndex index;            // of the program, with its reuse edges
};

// Completes a program that has the offsets of another, which it maps to: gives the registers that
// pulls fill their bytes, packed by lifetime above `base`, by device, and replaces the reuse edges.
// The ranks are those of instances of a step in the run of that other program.
absl::StatusOr<RankPacking> PackRank(absl::Span<const int64_t> base,
                                     absl::Span<const int32_t> begin_rank,
                                     absl::Span<const int32_t> end_rank, plan::Program* program,
                                     const Stop& stop = {});

// Proves a program by itself: that it is live, and then its bytes (plan/bytes.h), above its base.
absl::Status CheckPacking(const plan::Program& program, const PackingOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_MEMORY_H_
