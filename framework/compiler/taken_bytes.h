// Which bytes of a device are taken, and during whose lives, while a packing of it grows: what the
// placing of buffers asks for the next free bytes, thousands of times for thousands of buffers.
// Pure; one thread.
//
// Lives are cut into *moments* by one sweep over where uses begin and end, such that two buffers
// clash exactly if they have a moment in common: a new moment begins with the first use that begins
// after another has ended. Over the moments stands a binary tree; a node remembers the bytes of the
// buffers that live through all of its moments, and the bytes of those that live in any of them.
// For example, four buffers of 64 bytes, a to d, and the ranks at which they live:
//
//     rank   0 1 2 3 4 5 6 7      moments
//     a      a a a                0
//     b        b b b b b b        0 1 2
//     c            c c            1
//     d                  d d      2
//
// Uses begin at 0 and 1: moment 0. After the end of a begins c: moment 1. After the end of c begins
// d: moment 2. The tree has the leaves {0} to {3}; a lives in the node {0}, b in {0 1} and {2}, c
// in {1}, d in {2}. Where a lies at 0 and b at 64, {0 1} has [64, 128) always and [0, 128)
// sometimes. c has to lie beside what {1} has sometimes, nothing yet, and what the nodes above it
// have always, [64, 128): it gets 0. A buffer asks two nodes a level or fewer, and as packed bytes
// lie side by side, a node has a handful of ranges, however many buffers they are of.
//
// Before, a table of all pairs said who clashes, and a buffer went through all that were placed: as
// fast for fifteen hundred buffers, four times as slow for ten thousand, and the table took longer
// than two placings. Four or eight branches instead of two make no difference that can be measured.
#ifndef SLUICE_FRAMEWORK_COMPILER_TAKEN_BYTES_H_
#define SLUICE_FRAMEWORK_COMPILER_TAKEN_BYTES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "framework/plan/lifetimes.h"

namespace sluice {

class TakenBytes {
 public:
  // Buffers are named by their place in `buffers`, which is not kept. Nothing is taken yet.
  explicit TakenBytes(absl::Span<const Buffer* const> buffers);

  // How many pairs of uses are live at one time.
  int64_t num_clashes() const { return num_clashes_; }

  // Where `size` bytes are free all through the life of a buffer: the first place, or if `best_fit`
  // the first in the smallest gap, or behind all that is taken where there is none.
  int64_t Find(int buffer, int64_t size, bool best_fit);
  // From here on the buffer has the bytes [begin, end).
  void Take(int buffer, int64_t begin, int64_t end);
  // Everything is free again.
  void Clear();

 private:
  struct Range {
    int64_t begin, end;
  };
  using Ranges = std::vector<Range>;  // ascending; they neither overlap nor touch
  struct Node {
    Ranges always, sometimes;  // taken in all of its moments, in at least one
  };
  struct Cursor {
    const Range *at, *end;
  };
  // First and last moment of each use of a buffer, ascending.
  using Life = std::vector<std::pair<int32_t, int32_t>>;

  std::vector<Life> CutLives(absl::Span<const Buffer* const> buffers);
  void AddNodes(const Life& life, std::vector<int32_t>* seen, int32_t buffer);
  static bool Add(int64_t begin, int64_t end, Ranges* ranges);
  int64_t SkipTaken(int64_t at, int64_t size);

  int64_t num_clashes_ = 0;
  int32_t leaves_ = 1;       // a power of two; the node of moment m is leaves_ + m, the root is 1
  std::vector<Node> nodes_;  // the node above n is n / 2
  // By buffer: the fewest nodes that have its moments and no others, and all nodes above those.
  std::vector<int32_t> own_, above_, own_begin_, above_begin_;
  std::vector<Cursor> cursors_;  // of one search
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_TAKEN_BYTES_H_
