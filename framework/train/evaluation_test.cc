#include "framework/train/evaluation.h"

#include <deque>
#include <string>
#include <vector>

#include "framework/data/text_dataset.h"
#include "framework/testing/fake_session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// The loss of a batch is the first token of its first row.
class FirstTokenSession : public FakeSession {
 public:
  absl::Status Step(absl::string_view program, const Feeds& feeds) override {
    EXPECT_EQ(program, "eval");
    EXPECT_EQ(feeds[0].first, "tokens");
    EXPECT_EQ(feeds[1].first, "labels");
    EXPECT_LT(waiting_.size(), 2u) << "a third step in flight";
    int32_t token = 0;
    EXPECT_TRUE(
        FillRows(feeds[0].second.rows, {{0, 1}, {0, 1}}, reinterpret_cast<std::byte*>(&token))
            .ok());
    waiting_.push_back(static_cast<float>(token));
    return absl::OkStatus();
  }
  absl::Status Next(Fetches* fetches) override {
    EXPECT_FALSE(waiting_.empty());
    HostTensor loss(DType::kF32, {}), twice(DType::kF32, {});
    *loss.data<float>() = waiting_.front();
    *twice.data<float>() = 2 * waiting_.front();
    waiting_.pop_front();
    *fetches = {{"loss", loss}, {"twice", twice}};
    return absl::OkStatus();
  }

  std::deque<float> waiting_;
};

TEST(EvaluationTest, MeanOverBatchesTwoInFlight) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += static_cast<char>(i);
  const TextDataset text = *TextDataset::Create("text", bytes, 4);
  const std::vector<Metric> metrics = {{"loss", ""}, {"twice", ""}};
  FirstTokenSession session;
  // Windows at 0, 47 and 95.
  const double mean = (0 + 47 + 95) / 3.0;
  EXPECT_THAT(*MeanMetrics(&session, text, metrics, 3, 1),
              ::testing::ElementsAre(::testing::DoubleEq(mean), ::testing::DoubleEq(2 * mean)));
  EXPECT_THAT(*MeanMetrics(&session, text, metrics, 1, 1), ::testing::ElementsAre(0, 0));
  EXPECT_TRUE(session.waiting_.empty());
  EXPECT_EQ(MeanMetrics(&session, text, {{"perplexity", ""}}, 1, 1).status().message(),
            "the program has no output \"perplexity\"");
}

TEST(EvaluationTest, StoppedItTakesWhatItHasBegun) {
  const TextDataset text = *TextDataset::Create("text", std::string(100, 'a'), 4);
  const std::vector<Metric> metrics = {{"loss", ""}};
  for (const int last : {1, 2, 3}) {
    FirstTokenSession session;
    int asked = 0;
    const auto stop = [&] { return ++asked >= last; };
    EXPECT_TRUE(absl::IsCancelled(MeanMetrics(&session, text, metrics, 9, 1, stop).status()));
    EXPECT_EQ(asked, last);
    EXPECT_TRUE(session.waiting_.empty());
  }
  // Where the last batch has begun it is a mean like any other.
  FirstTokenSession session;
  int asked = 0;
  EXPECT_THAT(*MeanMetrics(&session, text, metrics, 2, 1, [&] { return ++asked > 1; }),
              ::testing::ElementsAre('a'));
}

}  // namespace
}  // namespace sluice
