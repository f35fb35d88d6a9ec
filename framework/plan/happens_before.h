// Which instances of a program are over before which others begin, by its waits alone, within one
// step and into the next. Quick answers come from clocks over the streams that have an order; paths
// that touch no such stream are found only by the exact search. Immutable; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_HAPPENS_BEFORE_H_
#define SLUICE_FRAMEWORK_PLAN_HAPPENS_BEFORE_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "framework/plan/program_index.h"

namespace sluice {

class HappensBefore {
 public:
  // `rank`: of each instance of a step, rising along every wait (a certificate, or a clock's run).
  HappensBefore(const ProgramIndex& index, absl::Span<const int32_t> rank);
  // With the clocks of the listed streams [begin, end) alone. What such parts say yes to, one or
  // the other, is what the whole says yes to.
  HappensBefore(const ProgramIndex& index, absl::Span<const int32_t> rank, int32_t begin,
                int32_t end);
  static int32_t NumListed(const ProgramIndex& index);
  // How many listed streams have their clocks in so many bytes; at least one.
  static int32_t StreamsIn(int64_t bytes, const ProgramIndex& index);

  // Has `first` ended before `second` (of the next step, if `wraps`) begins? May say no where the
  // truth is yes, if neither is on a listed stream.
  bool Ordered(int32_t first, int32_t second, bool wraps) const;
  // Never says no where the truth is yes; slow.
  bool OrderedExactly(int32_t first, int32_t second, bool wraps) const;

 private:
  // Calls fn(instance of the two steps) for what an instance of the two steps waits for.
  template <typename F>
  void ForEachBefore(int32_t instance, F&& fn) const;
  void StartClock(int32_t instance, int32_t* clock) const;
  int32_t* Past(int32_t instance) { return past_.data() + instance * width_; }
  const int32_t* Past(int32_t instance) const { return past_.data() + instance * width_; }
  int32_t* Next(int32_t instance) { return next_.data() + instance * width_; }
  const int32_t* Next(int32_t instance) const { return next_.data() + instance * width_; }
  using Peers = absl::InlinedVector<int32_t, 1>;  // mostly none but itself
  Peers PeersOf(int32_t instance) const;
  void FillPast(absl::Span<const int32_t> order);
  void FillNext(absl::Span<const int32_t> order);

  const ProgramIndex& index_;
  int32_t instances_;  // of a step; those of the second step follow those of the first
  size_t width_;       // listed streams that have clocks here
  // By instance of the two steps: its listed stream, as one of those here, or what it has instead.
  std::vector<int32_t> chain_;
  std::vector<int32_t> place_;  // by instance of the two steps: its place there
  std::vector<int32_t> past_;   // by instance and listed stream: last place over when it ends
  std::vector<int32_t> next_;   // by instance and listed stream: first place that begins after it
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_HAPPENS_BEFORE_H_
