// The answer is a search backwards from `second`, along waits, for `first`. Three things keep it
// short. Ranks rise along waits, so what ranks below `first` is not followed. A stream's list is an
// order, and so is an actor's script: to meet what stands behind `first` there is to have found it.
// And what has no list, which is mostly what copies between devices, is found where its first
// listed reader, or what stands behind that, is met.
//
//   actor copy on d1.comm                         first = copy, which no list has;
//   order d1.compute: sum(copy) norm ... store    second = another copy that waits for `store`:
//                                                 `store` stands behind `sum`, which waits for
//                                                 `first`, so one step back says yes.
//
// Clocks of every instance over every list were here before. They answer at once what lists decide,
// but cost instances x lists, which was more than half of compiling for 1,024 devices, and do not
// see a path between two instances that no list has: of 1,349,000 questions of that plan they said
// yes to 16 %, where the truth is yes for 60 % and 256 instances looked at find 50 %.
#include "framework/plan/happens_before.h"

#include <algorithm>
#include <tuple>

namespace sluice {

HappensBefore::HappensBefore(const ProgramIndex& index, absl::Span<const int32_t> rank)
    : index_(index), rank_(rank), instances_(index.num_instances()) {
  FindPlaces();
  FindFirstListed();
  seen_.assign(2 * static_cast<size_t>(instances_), 0);
}

void HappensBefore::FindPlaces() {
  place_.resize(instances_);
  length_.assign(index_.num_streams(), 0);
  for (int s = 0; s < index_.num_streams(); ++s) {
    for (const plan::ScheduleEntry& entry : index_.program().streams(s).order()) {
      for (int i = entry.from(); i < entry.to(); ++i) {
        place_[index_.InstanceOf(entry.actor(), entry.firing(), i)] = {s, length_[s]++};
      }
    }
  }
}

void HappensBefore::FindFirstListed() {
  struct Reader {
    int32_t of;
    Place place;
  };
  std::vector<Reader> readers;
  for (int32_t instance = 0; instance < 2 * instances_; ++instance) {
    const Place place = PlaceOf(instance);
    if (place.stream < 0) continue;
    ForEachBefore(instance, [&](int32_t before) {
      if (before < instances_ && place_[before].stream < 0) readers.push_back({before, place});
    });
  }
  auto key = [](const Reader& x) { return std::tie(x.of, x.place.stream, x.place.place); };
  std::sort(readers.begin(), readers.end(),
            [&](const Reader& a, const Reader& b) { return key(a) < key(b); });
  begin_.assign(instances_ + 1, 0);
  for (size_t n = 0; n < readers.size(); ++n) {
    const bool later = n > 0 && readers[n].of == readers[n - 1].of &&
                       readers[n].place.stream == readers[n - 1].place.stream;
    if (later) continue;
    first_listed_.push_back(readers[n].place);
    ++begin_[readers[n].of + 1];
  }
  for (int32_t n = 0; n < instances_; ++n) begin_[n + 1] += begin_[n];
}

template <typename F>
void HappensBefore::ForEachBefore(int32_t instance, F&& fn) const {
  const int step = instance >= instances_ ? 1 : 0;
  const ProgramIndex::Instance e = index_.InstanceAt(instance - step * instances_);
  const int64_t firing = e.firing + step * index_.actor(e.actor).firings;
  index_.ForEachWait(e.actor, firing, e.instruction, [&](const ProgramIndex::Wait& wait) {
    const int firings = index_.actor(wait.actor).firings;
    const int32_t of = static_cast<int32_t>(wait.firing / firings);
    fn(of * instances_ + index_.InstanceOf(wait.actor, wait.firing % firings, wait.instruction));
  });
}

HappensBefore::Place HappensBefore::PlaceOf(int32_t instance) const {
  if (instance < instances_) return place_[instance];
  const Place place = place_[instance - instances_];
  return place.stream < 0 ? place : Place{place.stream, length_[place.stream] + place.place};
}

bool HappensBefore::IsInCollective(int32_t instance) const {
  const ProgramIndex::Instance e = index_.InstanceAt(instance);
  return index_.CollectiveOf(e.actor, e.instruction) >= 0;
}

bool HappensBefore::BeginsAfter(int32_t instance, int32_t first) const {
  const int32_t of_a_step = instance < instances_ ? instance : instance - instances_;
  if (instance > first && index_.ActorOf(of_a_step) == index_.ActorOf(first)) return true;
  const Place place = PlaceOf(instance);
  if (place.stream < 0) return false;
  const Place of_first = place_[first];
  if (of_first.stream >= 0) {
    return place.stream == of_first.stream && place.place > of_first.place;
  }
  for (int32_t n = begin_[first]; n < begin_[first + 1]; ++n) {
    const Place reader = first_listed_[n];
    if (place.stream == reader.stream && place.place >= reader.place) return true;
  }
  return false;
}

bool HappensBefore::Visit(int32_t instance, int32_t first) {
  if (instance == first) return true;
  // A member of a collective ends after what its peers wait for, which may rank above it.
  if (instance < instances_ && rank_[instance] < rank_[first] && !IsInCollective(instance)) {
    return false;
  }
  if (seen_[instance] == question_) return false;
  seen_[instance] = question_;
  todo_.push_back(instance);
  return BeginsAfter(instance, first);
}

bool HappensBefore::Ordered(int32_t first, int32_t second, bool wraps, int64_t most) {
  const int32_t to = second + (wraps ? instances_ : 0);
  if (BeginsAfter(to, first)) return true;
  if (++question_ == 0) {  // has counted round
    std::fill(seen_.begin(), seen_.end(), 0);
    question_ = 1;
  }
  todo_.clear();
  bool found = false;
  auto visit = [&](int32_t before) { found = found || Visit(before, first); };
  ForEachBefore(to, visit);
  for (int64_t n = 1; n < most && !found && !todo_.empty(); ++n) {
    const int32_t instance = todo_.back();
    todo_.pop_back();
    const int32_t base = instance >= instances_ ? instances_ : 0;
    const ProgramIndex::Instance e = index_.InstanceAt(instance - base);
    const int32_t collective = index_.CollectiveOf(e.actor, e.instruction);
    if (collective < 0) {
      ForEachBefore(instance, visit);
      continue;
    }
    for (const ProgramIndex::Member& m : index_.Members(collective)) {
      ForEachBefore(base + index_.InstanceOf(m.actor, e.firing, m.instruction), visit);
    }
  }
  return found;
}

}  // namespace sluice
