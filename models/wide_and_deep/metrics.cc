#include "models/wide_and_deep/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace sluice {

double AreaUnderCurve(absl::Span<const float> logits, absl::Span<const float> labels) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int64_t a, int64_t b) { return logits[a] < logits[b]; });
  // Twice the pairs that are right, which is a whole number with halves for equal ones.
  int64_t ones = 0, zeros = 0, twice_right = 0;
  for (size_t i = 0; i < order.size();) {
    int64_t equal_ones = 0, equal_zeros = 0;
    for (const float logit = logits[order[i]]; i < order.size() && logits[order[i]] == logit; ++i) {
      (labels[order[i]] == 1 ? equal_ones : equal_zeros) += 1;
    }
    twice_right += equal_ones * (2 * zeros + equal_zeros);
    ones += equal_ones, zeros += equal_zeros;
  }
  return static_cast<double>(twice_right) /
         (2.0 * static_cast<double>(ones) * static_cast<double>(zeros));
}

double LogLoss(absl::Span<const float> logits, absl::Span<const float> labels) {
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double x = logits[i];
    sum += std::max(x, 0.0) - x * labels[i] + std::log1p(std::exp(-std::abs(x)));
  }
  return sum / static_cast<double>(logits.size());
}

}  // namespace sluice
