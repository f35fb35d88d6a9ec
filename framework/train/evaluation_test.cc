#include "framework/train/evaluation.h"

#include <deque>
#include <string>
#include <vector>

#include "framework/testing/fake_session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

// Sample n is its number.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t count) : count_(count) {}
  int64_t num_samples() const override { return count_; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return {}; }
  absl::Status Fill(int, absl::Span<const int64_t> samples, int64_t, const Box&,
                    std::byte* to) const override {
    for (size_t i = 0; i < samples.size(); ++i) {
      reinterpret_cast<int32_t*>(to)[i] = static_cast<int32_t>(samples[i]);
    }
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const std::vector<SampleField> fields_ = {{"number", DType::kI32, {}}};
};

// Of each row: "number"; "square" of it; "weight", 1 of even numbers and 3 of others. And "mean",
// one for all rows.
class NumberSession : public FakeSession {
 public:
  explicit NumberSession(int64_t rows) : rows_(rows) {}
  absl::Status Step(absl::string_view program, const Feeds& feeds) override {
    EXPECT_EQ(program, "eval");
    EXPECT_EQ(feeds[0].first, "number");
    EXPECT_LT(waiting_.size(), 2u) << "a third step in flight";
    std::vector<int32_t>& rows = waiting_.emplace_back(rows_);
    return FillRows(feeds[0].second.rows, {{0, rows_}}, reinterpret_cast<std::byte*>(rows.data()));
  }
  absl::Status Next(Fetches* fetches) override {
    HostTensor number(DType::kF32, {rows_}), square(DType::kF32, {rows_}),
        weight(DType::kF32, {rows_}), mean(DType::kF32, {});
    for (int64_t i = 0; i < rows_; ++i) {
      const auto value = static_cast<float>(waiting_.front()[i]);
      number.data<float>()[i] = value;
      square.data<float>()[i] = value * value;
      weight.data<float>()[i] = waiting_.front()[i] % 2 == 0 ? 1 : 3;
    }
    waiting_.pop_front();
    *fetches = {{"number", number}, {"square", square}, {"weight", weight}, {"mean", mean}};
    return absl::OkStatus();
  }

  const int64_t rows_;
  std::deque<std::vector<int32_t>> waiting_;
};

const std::vector<Metric> kMetrics = {{"number", ""}, {"square", "", "weight"}};

// 0 + 1 + .. + 9 of 10; the squares' sum is 285, and the weights' 5 + 15.
TEST(EvaluationTest, EachSampleCountsOnceWhateverTheBatch) {
  for (const int64_t batch : {1, 2, 3, 4, 7, 10, 16, 64}) {
    SCOPED_TRACE(batch);
    NumberSession session(batch);
    const auto evaluation = EvaluateMetrics(&session, Numbers(10), kMetrics, {.batch = batch});
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    EXPECT_THAT(evaluation->values, ElementsAre(DoubleEq(4.5), DoubleEq(285.0 / 20)));
    EXPECT_EQ(evaluation->samples, 10);
    EXPECT_TRUE(evaluation->is_whole());
    EXPECT_TRUE(session.waiting_.empty());
  }
}

TEST(EvaluationTest, ASubsetIsSpreadEvenly) {
  NumberSession session(2);
  std::vector<std::pair<int64_t, int64_t>> progress;
  const auto evaluation =
      EvaluateMetrics(&session, Numbers(100), kMetrics,
                      {.most_samples = 4, .batch = 2, .progress = [&](int64_t done, int64_t all) {
                         progress.emplace_back(done, all);
                       }});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_DOUBLE_EQ(evaluation->values[0], (0 + 33 + 66 + 99) / 4.0);
  EXPECT_EQ(evaluation->samples, 4);
  EXPECT_EQ(evaluation->all_samples, 100);
  EXPECT_FALSE(evaluation->is_whole());
  EXPECT_THAT(progress, ElementsAre(std::pair(2, 4), std::pair(4, 4)));
}

TEST(EvaluationTest, AnOutputThatIsNotThereOrHasNoValueARowIsNamed) {
  NumberSession session(2);
  EXPECT_EQ(
      EvaluateMetrics(&session, Numbers(2), {{"perplexity", ""}}, {.batch = 2}).status().message(),
      "the program has no output \"perplexity\"");
  EXPECT_EQ(EvaluateMetrics(&session, Numbers(2), {{"mean", ""}}, {.batch = 2}).status().message(),
            "output \"mean\": expected a value for each of 2 rows, got []");
}

TEST(EvaluationTest, StoppedItTakesWhatItHasBegun) {
  for (const int last : {1, 2, 3}) {
    NumberSession session(1);
    int asked = 0;
    const auto stop = [&] { return ++asked >= last; };
    EXPECT_TRUE(absl::IsCancelled(
        EvaluateMetrics(&session, Numbers(9), kMetrics, {.stop = stop}).status()));
    EXPECT_EQ(asked, last);
    EXPECT_TRUE(session.waiting_.empty());
  }
  // Where the last batch has begun it is an evaluation like any other.
  NumberSession session(1);
  int asked = 0;
  EXPECT_TRUE(
      EvaluateMetrics(&session, Numbers(2), kMetrics, {.stop = [&] { return ++asked > 1; }}).ok());
}

TEST(EvaluationTest, IsDescribedWithWhatItCounts) {
  const std::vector<Metric> metrics = {{"loss", ""}, {"accuracy", ""}};
  EXPECT_EQ(EvaluationText(metrics, {{2.5, 0.75}, 128, 300}),
            "loss 2.5000, accuracy 0.7500 on 128 of 300 samples");
  EXPECT_EQ(EvaluationText(metrics, {{2.5, 0.75}, 300, 300}),
            "loss 2.5000, accuracy 0.7500 on all 300 samples");
}

}  // namespace
}  // namespace sluice
