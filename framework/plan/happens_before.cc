#include "framework/plan/happens_before.h"

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

constexpr int32_t kNever = std::numeric_limits<int32_t>::max();
// Instead of a listed stream that has clocks here.
constexpr int32_t kUnlisted = -1, kElsewhere = -2;

}  // namespace

int32_t HappensBefore::NumListed(const ProgramIndex& index) {
  int32_t listed = 0;
  for (int s = 0; s < index.num_streams(); ++s) listed += index.listed(s) ? 1 : 0;
  return listed;
}

int32_t HappensBefore::StreamsIn(int64_t bytes, const ProgramIndex& index) {
  const int64_t of_a_stream = int64_t{2} * 2 * sizeof(int32_t) * index.num_instances();
  return static_cast<int32_t>(std::max<int64_t>(1, bytes / std::max<int64_t>(1, of_a_stream)));
}

HappensBefore::HappensBefore(const ProgramIndex& index, absl::Span<const int32_t> rank)
    : HappensBefore(index, rank, 0, NumListed(index)) {}

HappensBefore::HappensBefore(const ProgramIndex& index, absl::Span<const int32_t> rank,
                             int32_t begin, int32_t end)
    : index_(index), instances_(index.num_instances()), width_(end - begin) {
  chain_.assign(2 * instances_, kUnlisted);
  place_.assign(2 * instances_, -1);
  int32_t listed_streams = 0;
  for (int s = 0; s < index.num_streams(); ++s) {
    if (!index.listed(s)) continue;
    const int32_t number = listed_streams++;
    const int32_t chain = number < begin || number >= end ? kElsewhere : number - begin;
    std::vector<int32_t> listed;
    for (const plan::ScheduleEntry& entry : index.program().streams(s).order()) {
      for (int i = entry.from(); i < entry.to(); ++i) {
        listed.push_back(index.InstanceOf(entry.actor(), entry.firing(), i));
      }
    }
    const int32_t n = static_cast<int32_t>(listed.size());
    for (int32_t p = 0; p < n; ++p) {
      chain_[listed[p]] = chain_[instances_ + listed[p]] = chain;
      place_[listed[p]] = p;
      place_[instances_ + listed[p]] = n + p;
    }
  }
  std::vector<int32_t> order(instances_);
  for (int32_t e = 0; e < instances_; ++e) order[e] = e;
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return rank[a] < rank[b]; });
  for (int32_t n = 0; n < instances_; ++n) order.push_back(instances_ + order[n]);
  FillPast(order);
  FillNext(order);
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

// The instance and those of its collective, of the same step.
HappensBefore::Peers HappensBefore::PeersOf(int32_t instance) const {
  const int32_t base = instance >= instances_ ? instances_ : 0;
  const ProgramIndex::Instance e = index_.InstanceAt(instance - base);
  const int32_t collective = index_.CollectiveOf(e.actor, e.instruction);
  if (collective < 0) return {instance};
  Peers peers;
  for (const ProgramIndex::Member& m : index_.Members(collective)) {
    peers.push_back(base + index_.InstanceOf(m.actor, e.firing, m.instruction));
  }
  return peers;
}

// What is over when an instance begins.
void HappensBefore::StartClock(int32_t instance, int32_t* clock) const {
  std::fill(clock, clock + width_, -1);
  ForEachBefore(instance, [&](int32_t before) {
    const int32_t* past = Past(before);
    for (size_t s = 0; s < width_; ++s) clock[s] = std::max(clock[s], past[s]);
  });
}

void HappensBefore::FillPast(absl::Span<const int32_t> order) {
  past_.assign(order.size() * width_, -1);
  std::vector<bool> done(order.size(), false);
  std::vector<int32_t> clock(width_), ended(width_);
  for (int32_t instance : order) {
    if (done[instance]) continue;
    // A member of a collective ends after all of them have begun, not after all have ended.
    const Peers peers = PeersOf(instance);
    std::fill(ended.begin(), ended.end(), -1);
    for (int32_t peer : peers) {
      StartClock(peer, clock.data());
      for (size_t s = 0; s < width_; ++s) ended[s] = std::max(ended[s], clock[s]);
    }
    for (int32_t peer : peers) {
      done[peer] = true;
      std::copy(ended.begin(), ended.end(), Past(peer));
      if (chain_[peer] < 0) continue;
      int32_t& own = Past(peer)[chain_[peer]];
      own = std::max(own, place_[peer]);
    }
  }
}

void HappensBefore::FillNext(absl::Span<const int32_t> order) {
  next_.assign(order.size() * width_, kNever);
  std::vector<bool> done(order.size(), false);
  std::vector<int32_t> after(width_);
  for (size_t n = order.size(); n-- > 0;) {
    if (done[order[n]]) continue;
    const Peers peers = PeersOf(order[n]);
    std::fill(after.begin(), after.end(), kNever);
    for (int32_t peer : peers) {
      done[peer] = true;
      for (size_t s = 0; s < width_; ++s) after[s] = std::min(after[s], Next(peer)[s]);
    }
    // What one member waited for is over before any of them ends.
    for (int32_t peer : peers) {
      ForEachBefore(peer, [&](int32_t before) {
        int32_t* next = Next(before);
        for (size_t s = 0; s < width_; ++s) next[s] = std::min(next[s], after[s]);
        if (chain_[peer] >= 0) next[chain_[peer]] = std::min(next[chain_[peer]], place_[peer]);
      });
    }
  }
}

bool HappensBefore::Ordered(int32_t first, int32_t second, bool wraps) const {
  const int32_t to = second + (wraps ? instances_ : 0);
  if (chain_[to] == kElsewhere) return false;
  if (chain_[to] >= 0) return Next(first)[chain_[to]] <= place_[to];
  if (index_.InstanceAt(first).actor == index_.InstanceAt(second).actor) return first < to;
  if (chain_[first] == kElsewhere) return false;
  std::vector<int32_t> clock(width_);
  StartClock(to, clock.data());
  if (chain_[first] >= 0) return clock[chain_[first]] >= place_[first];
  for (size_t s = 0; s < width_; ++s) {
    if (Next(first)[s] <= clock[s]) return true;
  }
  return false;
}

bool HappensBefore::OrderedExactly(int32_t first, int32_t second, bool wraps) const {
  if (Ordered(first, second, wraps)) return true;
  std::vector<bool> seen(2 * instances_, false);
  std::vector<int32_t> todo;
  bool found = false;
  auto visit = [&](int32_t instance) {
    found = found || instance == first;
    if (seen[instance]) return;
    seen[instance] = true;
    todo.push_back(instance);
  };
  ForEachBefore(second + (wraps ? instances_ : 0), visit);
  while (!todo.empty() && !found) {
    const int32_t instance = todo.back();
    todo.pop_back();
    for (int32_t peer : PeersOf(instance)) ForEachBefore(peer, visit);
  }
  return found;
}

}  // namespace sluice
