// The canonical order of a reduction. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_SBP_FOLD_ORDER_H_
#define SLUICE_FRAMEWORK_SBP_FOLD_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/tensor/shard.h"

namespace sluice {

// The order over partials: innermost P axis first; along an axis the tree
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

#endif  // SLUICE_FRAMEWORK_SBP_FOLD_ORDER_H_
