#include "framework/plan/happens_before.h"

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

}  // namespace

HappensBefore::HappensBefore(const ProgramIndex& index, absl::Span<const int32_t> rank)
    : index_(index), events_(index.num_events()) {
  chain_.assign(2 * events_, -1);
  place_.assign(2 * events_, -1);
  for (int s = 0; s < index.num_streams(); ++s) {
    if (!index.listed(s)) continue;
    const int32_t chain = static_cast<int32_t>(width_++);
    std::vector<int32_t> listed;
    for (const plan::Turn& turn : index.program().streams(s).order()) {
      for (int i = turn.from(); i < turn.to(); ++i) {
        listed.push_back(index.EventOf(turn.actor(), turn.fire(), i));
      }
    }
    const int32_t n = static_cast<int32_t>(listed.size());
    for (int32_t p = 0; p < n; ++p) {
      chain_[listed[p]] = chain_[events_ + listed[p]] = chain;
      place_[listed[p]] = p;
      place_[events_ + listed[p]] = n + p;
    }
  }
  std::vector<int32_t> order(events_);
  for (int32_t e = 0; e < events_; ++e) order[e] = e;
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return rank[a] < rank[b]; });
  for (int32_t n = 0; n < events_; ++n) order.push_back(events_ + order[n]);
  FillPast(order);
  FillNext(order);
}

template <typename F>
void HappensBefore::ForEachBefore(int32_t event, F&& fn) const {
  const int step = event >= events_ ? 1 : 0;
  const ProgramIndex::Event e = index_.EventAt(event - step * events_);
  const int64_t fire = e.fire + step * index_.actor(e.actor).fires;
  index_.ForEachWait(e.actor, fire, e.instruction, [&](const ProgramIndex::Wait& wait) {
    const int fires = index_.actor(wait.actor).fires;
    const int32_t of = static_cast<int32_t>(wait.fire / fires);
    fn(of * events_ + index_.EventOf(wait.actor, wait.fire % fires, wait.instruction));
  });
}

// The event and those of its collective, of the same step.
std::vector<int32_t> HappensBefore::PeersOf(int32_t event) const {
  const int32_t base = event >= events_ ? events_ : 0;
  const ProgramIndex::Event e = index_.EventAt(event - base);
  const int32_t collective = index_.CollectiveOf(e.actor, e.instruction);
  if (collective < 0) return {event};
  std::vector<int32_t> peers;
  for (const ProgramIndex::Member& m : index_.Members(collective)) {
    peers.push_back(base + index_.EventOf(m.actor, e.fire, m.instruction));
  }
  return peers;
}

// What is over when an event begins.
void HappensBefore::StartClock(int32_t event, int32_t* clock) const {
  std::fill(clock, clock + width_, -1);
  ForEachBefore(event, [&](int32_t before) {
    const int32_t* past = Past(before);
    for (size_t s = 0; s < width_; ++s) clock[s] = std::max(clock[s], past[s]);
  });
}

void HappensBefore::FillPast(absl::Span<const int32_t> order) {
  past_.assign(order.size() * width_, -1);
  std::vector<bool> done(order.size(), false);
  std::vector<int32_t> clock(width_);
  for (int32_t event : order) {
    if (done[event]) continue;
    // A member of a collective ends after all of them have begun, not after all have ended.
    const std::vector<int32_t> peers = PeersOf(event);
    std::vector<int32_t> ended(width_, -1);
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
  for (size_t n = order.size(); n-- > 0;) {
    if (done[order[n]]) continue;
    const std::vector<int32_t> peers = PeersOf(order[n]);
    std::vector<int32_t> after(width_, kNever);
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
  const int32_t to = second + (wraps ? events_ : 0);
  if (chain_[to] >= 0) return Next(first)[chain_[to]] <= place_[to];
  if (index_.EventAt(first).actor == index_.EventAt(second).actor) return first < to;
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
  std::vector<bool> seen(2 * events_, false);
  std::vector<int32_t> todo;
  bool found = false;
  auto visit = [&](int32_t event) {
    found = found || event == first;
    if (seen[event]) return;
    seen[event] = true;
    todo.push_back(event);
  };
  ForEachBefore(second + (wraps ? events_ : 0), visit);
  while (!todo.empty() && !found) {
    const int32_t event = todo.back();
    todo.pop_back();
    for (int32_t peer : PeersOf(event)) ForEachBefore(peer, visit);
  }
  return found;
}

}  // namespace sluice
