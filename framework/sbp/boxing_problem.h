// The heart of boxing, in terms of one closed set of devices, numbered 0..n-1: who holds what, who
// wants what, and which of the held partials make each wanted one. Internal to framework/sbp.
#ifndef SLUICE_FRAMEWORK_SBP_BOXING_PROBLEM_H_
#define SLUICE_FRAMEWORK_SBP_BOXING_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/tensor/shape.h"
#include "framework/tensor/shard.h"

namespace sluice {

struct BoxingShard {
  bool present = false;  // whether the device belongs to this side at all
  Box box;
  int64_t partial = 0;
};

struct BoxingSide {
  std::vector<BoxingShard> shards;  // by device
  Reduction reduction = Reduction::kNone;
  std::vector<int64_t> partial_sizes;  // of the P axes, outermost first
};

struct BoxingProblem {
  std::vector<int64_t> nodes;  // by device
  BoxingSide source, target;
  // By device: whether what it writes is asked for; empty: of all. The others' part is left out.
  // Only for problems in which no device has a choice of whom to read from.
  std::vector<bool> wanted;
  bool Wanted(int device) const { return wanted.empty() || wanted[device]; }
};

// One partial of a box and the devices that hold it, ascending.
struct HeldPartial {
  int64_t partial = 0;
  std::vector<int> devices;
};

// The fold of `held` over `box` is wanted by `wanters`, ascending.
struct BoxingTarget {
  Box box;
  std::vector<HeldPartial> held;  // ascending partials
  std::vector<int> wanters;
  int rotation = 0;  // differs from cell to cell, so that the work is dealt around
};

// Cuts the tensor into the coarsest grid in which every shard is a union of cells, and decides for
// each cell which source partials go into which wanted partial: the fewest transfers win. Elements
// of a wanted partial that no target names are the identity.
std::vector<BoxingTarget> BoxingTargets(const BoxingProblem& problem);

// Piece i of n of a box along its longest dimension; false if that piece is empty.
bool Chop(const Box& box, int64_t n, int64_t i, Box* piece);

// The canonical order of a reduction over partials: innermost P axis first; along an axis the tree
// that cuts at the largest power of two below the count. Every recipe reduces whole subtrees only,
// so all of them give the same bits. Maxima and minima may be taken in any order.
inline bool OrderIsFree(Reduction reduction) { return reduction != Reduction::kSum; }
// Where the tree cuts its node of partials [low, high).
int64_t TreeCut(int64_t low, int64_t high, absl::Span<const int64_t> partial_sizes);
// Whether [low, high) is exactly one node of the tree.
bool IsSubtree(int64_t low, int64_t high, absl::Span<const int64_t> partial_sizes);

// What a source of a fold stands for: the partials [low, high), already reduced.
struct FoldRange {
  int64_t low = 0, high = 0;
};
// Postfix over the indices of `ranges`, -1 to combine; `ranges` ascend and tile whole subtrees.
std::vector<int> FoldOrder(const std::vector<FoldRange>& ranges, Reduction reduction,
                           absl::Span<const int64_t> partial_sizes);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_BOXING_PROBLEM_H_
