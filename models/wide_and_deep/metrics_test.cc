#include "models/wide_and_deep/metrics.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(MetricsTest, AreaCountsPairsAndEqualOnesHalf) {
  EXPECT_EQ(AreaUnderCurve({-1, 2, 3, -5}, {0, 1, 1, 0}), 1);
  EXPECT_EQ(AreaUnderCurve({-1, 2, 3, -5}, {1, 0, 0, 1}), 0);
  EXPECT_EQ(AreaUnderCurve({7, 7, 7, 7, 7}, {1, 0, 0, 1, 0}), 0.5);
  // Of six pairs four are right and one is even.
  EXPECT_EQ(AreaUnderCurve({1, 2, 2, 3, 0}, {0, 1, 0, 1, 1}), 3.5 / 6);
}

TEST(MetricsTest, AreaEqualsThePairsOneByOne) {
  std::vector<float> logits, labels;
  uint32_t state = 1;
  for (int i = 0; i < 300; ++i) {
    state = state * 1664525u + 1013904223u;
    logits.push_back(static_cast<float>(state >> 26));  // of 64 values: many are equal
    labels.push_back(((state >> 10) & 3) == 0 ? 1.0f : 0.0f);
  }
  double right = 0, pairs = 0;
  for (int i = 0; i < 300; ++i) {
    for (int j = 0; j < 300; ++j) {
      if (labels[i] != 1 || labels[j] != 0) continue;
      pairs += 1;
      right += logits[i] > logits[j] ? 1 : logits[i] == logits[j] ? 0.5 : 0;
    }
  }
  EXPECT_DOUBLE_EQ(AreaUnderCurve(logits, labels), right / pairs);
}

TEST(MetricsTest, LogLossIsFiniteWhateverTheLogit) {
  EXPECT_DOUBLE_EQ(LogLoss({0}, {1}), std::log(2.0));
  EXPECT_DOUBLE_EQ(LogLoss({2, 2}, {1, 0}), (std::log1p(std::exp(-2.0)) * 2 + 2) / 2);
  EXPECT_DOUBLE_EQ(LogLoss({1000, -1000}, {0, 0}), 500);
}

}  // namespace
}  // namespace sluice
