#include "framework/compiler/taken_bytes.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace sluice {
namespace {

// Where a use begins or ends.
struct Edge {
  int32_t rank;
  bool ends;
  int32_t buffer;
  int32_t use;
  // What begins at a rank comes before what ends there: the two are live at one time.
  bool operator<(const Edge& other) const {
    return std::tie(rank, ends, buffer, use) <
           std::tie(other.rank, other.ends, other.buffer, other.use);
  }
};

}  // namespace

TakenBytes::TakenBytes(absl::Span<const Buffer* const> buffers) {
  const std::vector<Life> lives = CutLives(buffers);
  nodes_.resize(2 * leaves_);
  std::vector<int32_t> seen(nodes_.size(), -1);
  own_begin_ = above_begin_ = {0};
  for (size_t n = 0; n < lives.size(); ++n) {
    if (buffers[n]->resident) {
      own_.push_back(1);
    } else {
      AddNodes(lives[n], &seen, static_cast<int32_t>(n));
    }
    own_begin_.push_back(static_cast<int32_t>(own_.size()));
    above_begin_.push_back(static_cast<int32_t>(above_.size()));
  }
}

std::vector<TakenBytes::Life> TakenBytes::CutLives(absl::Span<const Buffer* const> buffers) {
  std::vector<Edge> edges;
  std::vector<Life> lives(buffers.size());
  int64_t residents = 0;
  for (size_t n = 0; n < buffers.size(); ++n) {
    residents += buffers[n]->resident ? 1 : 0;
    const auto& uses = buffers[n]->uses;
    lives[n].resize(uses.size());
    for (size_t use = 0; use < uses.size(); ++use) {
      const auto edge = [&](int32_t rank, bool ends) {
        edges.push_back({rank, ends, static_cast<int32_t>(n), static_cast<int32_t>(use)});
      };
      edge(uses[use].begin, false);
      edge(uses[use].end, true);
    }
  }
  std::sort(edges.begin(), edges.end());
  int32_t moment = 0;
  int64_t live = 0;
  bool ended = false;
  for (const Edge& edge : edges) {
    auto& [first, last] = lives[edge.buffer][edge.use];
    if (edge.ends) {
      last = moment;
      ended = true;
      --live;
      continue;
    }
    if (ended) ++moment;
    ended = false;
    first = moment;
    num_clashes_ += live++;
  }
  const int64_t others = static_cast<int64_t>(buffers.size()) - residents;
  num_clashes_ += residents * others + residents * (residents - 1) / 2;
  while (leaves_ <= moment) leaves_ *= 2;
  return lives;
}

// `seen`: by node, the last buffer that has it among those above.
void TakenBytes::AddNodes(const Life& life, std::vector<int32_t>* seen, int32_t buffer) {
  const size_t first_own = own_.size();
  for (const auto& [first, last] : life) {
    int32_t from = leaves_ + first, to = leaves_ + last + 1;
    for (; from < to; from /= 2, to /= 2) {
      if (from % 2 == 1) own_.push_back(from++);
      if (to % 2 == 1) own_.push_back(--to);
    }
  }
  for (size_t n = first_own; n < own_.size(); ++n) {
    for (int32_t node = own_[n] / 2; node > 0 && (*seen)[node] != buffer; node /= 2) {
      (*seen)[node] = buffer;
      above_.push_back(node);
    }
  }
}

// False if all of it is there already.
bool TakenBytes::Add(int64_t begin, int64_t end, Ranges* ranges) {
  const auto first = std::lower_bound(ranges->begin(), ranges->end(), begin,
                                      [](const Range& x, int64_t at) { return x.end < at; });
  if (first == ranges->end() || end < first->begin) {
    ranges->insert(first, {begin, end});
    return true;
  }
  if (first->begin <= begin && end <= first->end) return false;
  first->begin = std::min(first->begin, begin);
  auto next = first + 1;
  for (; next != ranges->end() && next->begin <= end; ++next) end = std::max(end, next->end);
  first->end = std::max(first->end, end);
  ranges->erase(first + 1, next);
  return true;
}

// What a node has at some time all nodes above it have, too.
void TakenBytes::Take(int buffer, int64_t begin, int64_t end) {
  for (int32_t n = own_begin_[buffer]; n < own_begin_[buffer + 1]; ++n) {
    Add(begin, end, &nodes_[own_[n]].always);
    for (int32_t node = own_[n]; node > 0; node /= 2) {
      if (!Add(begin, end, &nodes_[node].sometimes)) break;
    }
  }
}

void TakenBytes::Clear() {
  for (Node& node : nodes_) {
    node.always.clear();
    node.sometimes.clear();
  }
}

// The first place from `at` on where the cursors' ranges leave `size` bytes free. The cursors that
// are left then stand behind it.
int64_t TakenBytes::SkipTaken(int64_t at, int64_t size) {
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t n = 0; n < cursors_.size();) {
      Cursor& cursor = cursors_[n];
      const int64_t before = at;
      for (; cursor.at != cursor.end && cursor.at->begin < at + size; ++cursor.at) {
        at = std::max(at, cursor.at->end);
      }
      moved = moved || at != before;
      if (cursor.at != cursor.end) {
        ++n;
      } else {
        cursor = cursors_.back();
        cursors_.pop_back();
      }
    }
  }
  return at;
}

int64_t TakenBytes::Find(int buffer, int64_t size, bool best_fit) {
  cursors_.clear();
  const auto add = [&](const Ranges& ranges) {
    if (!ranges.empty()) cursors_.push_back({ranges.data(), ranges.data() + ranges.size()});
  };
  for (int32_t n = own_begin_[buffer]; n < own_begin_[buffer + 1]; ++n) {
    add(nodes_[own_[n]].sometimes);
  }
  for (int32_t n = above_begin_[buffer]; n < above_begin_[buffer + 1]; ++n) {
    add(nodes_[above_[n]].always);
  }
  int64_t chosen = -1, least = std::numeric_limits<int64_t>::max();
  for (int64_t at = 0;;) {
    at = SkipTaken(at, size);
    if (!best_fit) return at;
    if (cursors_.empty()) return chosen >= 0 ? chosen : at;
    int64_t next = cursors_[0].at->begin;
    for (const Cursor& cursor : cursors_) next = std::min(next, cursor.at->begin);
    if (next - at < least) {
      least = next - at;
      chosen = at;
      if (least == size) return at;  // no gap is smaller
    }
    at = next;
  }
}

}  // namespace sluice
