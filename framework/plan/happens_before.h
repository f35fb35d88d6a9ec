// Which instances of a program are over before which others begin, by its waits alone, within one
// step and into the next.
#ifndef SLUICE_FRAMEWORK_PLAN_HAPPENS_BEFORE_H_
#define SLUICE_FRAMEWORK_PLAN_HAPPENS_BEFORE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "framework/plan/program_index.h"

namespace sluice {

// Answers need scratch memory: one thread at a time.
class HappensBefore {
 public:
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

  // `rank`: of each instance of a step, rising along every wait (a certificate, or a clock's run).
  // Both outlive this.
  HappensBefore(const ProgramIndex& index, absl::Span<const int32_t> rank);

  // Has `first` ended before `second` (of the next step, if `wraps`) begins? Follows the waits of
  // `most` instances: with fewer than all it may say no where the truth is yes.
  bool Ordered(int32_t first, int32_t second, bool wraps, int64_t most = kAll);

 private:
  // A place in the list of a stream; those of a second step follow those of the first.
  struct Place {
    int32_t stream = -1, place = -1;  // -1: of a stream without a list
  };

  void FindPlaces();
  void FindFirstListed();
  // Calls fn(instance of the two steps) for what an instance of the two steps waits for.
  template <typename F>
  void ForEachBefore(int32_t instance, F&& fn) const;
  Place PlaceOf(int32_t instance) const;
  bool IsInCollective(int32_t instance) const;
  // Whether an instance of the two steps begins after `first` has ended, as a list or the script of
  // one actor tells.
  bool BeginsAfter(int32_t instance, int32_t first) const;
  // Notes what has ended before `second` begins. Whether that says that `first` has.
  bool Visit(int32_t instance, int32_t first);

  const ProgramIndex& index_;
  absl::Span<const int32_t> rank_;
  int32_t instances_;            // of a step; those of the second step follow those of the first
  std::vector<Place> place_;     // by instance of the first step
  std::vector<int32_t> length_;  // of each stream's list
  std::vector<int32_t> begin_;   // by instance: of its part of first_listed_
  std::vector<Place> first_listed_;  // the first place of a list that waits for the instance
  std::vector<uint32_t> seen_;       // by instance of the two steps: the question that last met it
  uint32_t question_ = 0;
  std::vector<int32_t> todo_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_HAPPENS_BEFORE_H_
