#include "models/wide_and_deep/evaluate.h"

#include <memory>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/wide_and_deep/click_data.h"
#include "models/wide_and_deep/wide_and_deep.h"

namespace sluice {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

WideAndDeepConfig Config(int64_t batch) {
  WideAndDeepConfig config;
  config.wide = {"wide", 20, 1, 2};
  config.tables = {{"t", 30, 4, 3}};
  config.numbers = 2;
  config.hidden = {8};
  config.batch = batch;
  return config;
}

absl::StatusOr<Judged> Judge(int64_t batch, int64_t samples, int64_t most, const Stop& stop = {}) {
  Graph graph;
  EXPECT_EQ(BuildWideAndDeepEval(Config(batch), &graph), absl::OkStatus());
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Start({{"eval", &graph}}, {});
  EXPECT_TRUE(session.ok()) << session.status();
  const std::unique_ptr<Dataset> data = DrawnClicks(Config(batch), samples, /*seed=*/1);
  return LogitsOf(session->get(), *data, {.most_samples = most, .batch = batch, .stop = stop});
}

// Whatever the batch, which need not divide the samples, nor be as small as they are few.
TEST(EvaluateTest, EverySampleCountsOnce) {
  std::vector<int64_t> all(50);
  std::iota(all.begin(), all.end(), 0);
  const absl::StatusOr<Judged> whole = Judge(50, 50, 500);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->samples, all);
  for (const int64_t batch : {1, 7, 36, 64}) {
    const absl::StatusOr<Judged> judged = Judge(batch, 50, 1000);
    ASSERT_TRUE(judged.ok()) << judged.status();
    EXPECT_EQ(judged->samples, all) << batch;
    EXPECT_THAT(judged->logits, Pointwise(FloatNear(1e-6f), whole->logits)) << batch;
  }
}

TEST(EvaluateTest, AFewSamplesAreSpread) {
  const absl::StatusOr<Judged> judged = Judge(5, 1000, 10);
  ASSERT_TRUE(judged.ok()) << judged.status();
  ASSERT_EQ(judged->samples.size(), 10u);
  EXPECT_GT(judged->samples.back(), 800);
  EXPECT_TRUE(absl::IsCancelled(Judge(5, 1000, 10, [] { return true; }).status()));
}

}  // namespace
}  // namespace sluice
