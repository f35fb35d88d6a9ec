#include "framework/sbp/fold_order.h"

#include "framework/base/log.h"

namespace sluice {

int64_t TreeCut(int64_t low, int64_t high, absl::Span<const int64_t> partial_sizes) {
  // The largest inner subtree that is smaller than this node.
  int64_t unit = 1, inner = 1;
  for (size_t a = partial_sizes.size(); a-- > 1;) {
    inner *= partial_sizes[a];
    if (inner < high - low) unit = inner;
  }
  int64_t power = 1;
  while (power * 2 < (high - low) / unit) power *= 2;
  return low + unit * power;
}

bool IsSubtree(int64_t low, int64_t high, absl::Span<const int64_t> partial_sizes) {
  int64_t node_low = 0, node_high = 1;
  for (int64_t size : partial_sizes) node_high *= size;
  while (node_low != low || node_high != high) {
    if (node_high - node_low < 2) return false;
    const int64_t cut = TreeCut(node_low, node_high, partial_sizes);
    if (high <= cut) {
      node_high = cut;
    } else if (low >= cut) {
      node_low = cut;
    } else {
      return false;
    }
  }
  return true;
}

namespace {

// Folds ranges [first, last), which tile the node [low, high).
void AppendFold(const std::vector<FoldRange>& ranges, int first, int last, int64_t low,
                int64_t high, absl::Span<const int64_t> partial_sizes, std::vector<int>* order) {
  if (last - first == 1) {
    order->push_back(first);
    return;
  }
  SLUICE_CHECK(last - first > 1 && high - low > 1) << "partials that tile no subtree";
  const int64_t cut = TreeCut(low, high, partial_sizes);
  int middle = first;
  while (middle < last && ranges[middle].high <= cut) ++middle;
  SLUICE_CHECK(middle > first && middle < last && ranges[middle].low == cut)
      << "a range across the cut at " << cut;
  AppendFold(ranges, first, middle, low, cut, partial_sizes, order);
  AppendFold(ranges, middle, last, cut, high, partial_sizes, order);
  order->push_back(-1);
}

}  // namespace

std::vector<int> FoldOrder(const std::vector<FoldRange>& ranges, Reduction reduction,
                           absl::Span<const int64_t> partial_sizes) {
  std::vector<int> order;
  if (OrderIsFree(reduction)) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      order.push_back(static_cast<int>(i));
      if (i > 0) order.push_back(-1);
    }
    return order;
  }
  AppendFold(ranges, 0, static_cast<int>(ranges.size()), ranges.front().low, ranges.back().high,
             partial_sizes, &order);
  return order;
}

}  // namespace sluice
