// Who owns bytes of a device, and when, in one step: the slots of registers and rings, temporaries,
// and the scratch of instructions. For the packing of memory and the proof of it. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_LIFETIMES_H_
#define SLUICE_FRAMEWORK_PLAN_LIFETIMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/plan/program_index.h"

namespace sluice {

// Of offsets of scratch: what cuBLASLt and cuDNN want of their workspace.
inline constexpr int64_t kScratchAlignment = 256;

struct Buffer {
  // One token in a slot, or one firing of a temporary or of an instruction that has scratch.
  struct Use {
    int32_t begin, end;             // ranks: of the first write's beginning, of the last end
    int32_t first;                  // instance of the first write
    std::vector<int32_t> releases;  // instances that together free it
  };
  int32_t device = 0;
  int64_t bytes = 0;
  // One of three.
  int32_t ring = -1, slot = 0;          // of ProgramIndex
  int32_t local = -1;                   // a temporary
  int32_t actor = -1, instruction = 0;  // whose scratch it is
  bool resident = false;                // lives across steps
  // The buffer whose bytes it takes, at the same place, use by use (plan.proto Operand.takes); -1:
  // none. The end of that one's uses is right before the beginning of its own.
  int32_t takes = -1;
  std::vector<Use> uses;  // by begin; none if resident
};

// All buffers of at least one byte, in the order of rings, slots, temporaries, instructions. The
// ranks are those of instances of a step. InvalidArgument names a temporary that an actor not its
// own uses.
absl::StatusOr<std::vector<Buffer>> FindBuffers(const ProgramIndex& index,
                                                absl::Span<const int32_t> begin_rank,
                                                absl::Span<const int32_t> end_rank);

// Where a buffer lies in its device's memory.
int64_t OffsetOf(const ProgramIndex& index, const Buffer& buffer);
// "slot 1 of register x"; for errors.
std::string Describe(const ProgramIndex& index, const Buffer& buffer);

// `to`, by its use `after`, has bytes directly from `from`, which had them by its use `before`: of
// the step before, if `wraps`. Buffers by their index.
struct Reuse {
  int32_t from, to;
  const Buffer::Use *before, *after;  // of the buffers
  bool wraps;
};
// All between different buffers, in the order of uses; none of what lives across steps. `offsets`:
// by buffer.
std::vector<Reuse> FindReuses(absl::Span<const Buffer> buffers, absl::Span<const int64_t> offsets);
// Whether an instance that frees the bytes for others is the one that takes them for `reuse.after`,
// and so need not have ended before: it writes each element behind its own read.
inline bool Takes(absl::Span<const Buffer> buffers, const Reuse& reuse, int32_t release) {
  return buffers[reuse.to].takes == reuse.from && !reuse.wraps && release == reuse.after->first;
}

// Are the two ever live at the same time?
bool Clash(const Buffer& a, const Buffer& b);

// The most bytes live at one time, where each buffer takes a multiple of `alignment`.
int64_t PeakOfLive(absl::Span<const Buffer* const> buffers, int64_t alignment = 1);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_LIFETIMES_H_
