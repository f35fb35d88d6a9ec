#include "framework/train/evaluation.h"

#include <deque>
#include <string>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// The loss of a batch is the first token of its first row.
class FirstTokenSession : public Session {
 public:
  absl::Status Step(absl::string_view program, const Feeds& feeds) override {
    EXPECT_EQ(program, "eval");
    EXPECT_EQ(feeds[0].first, "tokens");
    EXPECT_EQ(feeds[1].first, "labels");
    EXPECT_LT(waiting_.size(), 2u) << "a third step in flight";
    waiting_.push_back(static_cast<float>(feeds[0].second->data<int32_t>()[0]));
    return absl::OkStatus();
  }
  absl::Status Next(Fetches* fetches) override {
    EXPECT_FALSE(waiting_.empty());
    HostTensor loss(DType::kF32, {});
    *loss.data<float>() = waiting_.front();
    waiting_.pop_front();
    *fetches = {{name_, loss}};
    return absl::OkStatus();
  }
  absl::Status status() const override { return absl::OkStatus(); }
  std::vector<VariableInfo> variables() const override { return {}; }
  absl::StatusOr<HostTensor> Read(absl::string_view) override { return HostTensor(); }
  absl::Status Write(absl::string_view, const HostTensor&) override { return absl::OkStatus(); }
  absl::Status CheckReplicas() override { return absl::OkStatus(); }
  void set_step(int64_t) override {}

  std::deque<float> waiting_;
  std::string name_ = "loss";
};

TEST(EvaluationTest, MeanOverBatchesTwoInFlight) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i);
  const TextBatches batches = *TextBatches::Create("text", text, 1, 4, 1);
  TokenBatch batch(1, 4);
  FirstTokenSession session;
  // Windows at 0, 47 and 95.
  EXPECT_DOUBLE_EQ(*MeanLoss(&session, batches, 3, &batch), (0 + 47 + 95) / 3.0);
  EXPECT_DOUBLE_EQ(*MeanLoss(&session, batches, 1, &batch), 0);
  EXPECT_TRUE(session.waiting_.empty());
  session.name_ = "perplexity";
  EXPECT_EQ(MeanLoss(&session, batches, 1, &batch).status().message(),
            "the program has no output \"loss\"");
}

}  // namespace
}  // namespace sluice
