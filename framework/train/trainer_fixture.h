// The training loop over a session that is played: one variable, which adds up what it is fed. For
// tests.
#ifndef SLUICE_FRAMEWORK_TRAIN_TRAINER_FIXTURE_H_
#define SLUICE_FRAMEWORK_TRAIN_TRAINER_FIXTURE_H_

#include <cstdio>
#include <deque>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/status.h"
#include "framework/testing/fake_session.h"
#include "framework/train/trainer.h"
#include "gtest/gtest.h"

namespace sluice {

inline HostTensor Scalar(float value) {
  HostTensor tensor(DType::kF32, {});
  *tensor.data<float>() = value;
  return tensor;
}

// A session with one variable w: a step adds learning rate times its input x; the loss is w.
class ScriptedSession : public FakeSession {
 public:
  absl::Status Step(absl::string_view program, const Feeds& feeds) override {
    EXPECT_EQ(program, "train");
    EXPECT_LT(results_.size(), 2u) << "a third step in flight";
    most_in_flight_ = std::max(most_in_flight_, results_.size() + 1);
    ++step_;
    std::map<std::string, double> inputs;
    for (const auto& feed : feeds) {
      inputs[feed.first] =
          LoadElement(feed.second.tensor->dtype, feed.second.tensor->bytes.data(), 0);
    }
    EXPECT_EQ(inputs["step"], step_);
    w_ += static_cast<float>(inputs["learning_rate"] * inputs["x"]);
    if (step_ == nan_at_) w_ = std::numeric_limits<float>::quiet_NaN();
    results_.push_back({{"loss", Scalar(w_)}, {"grad_norm", Scalar(1)}});
    return absl::OkStatus();
  }
  absl::Status Next(Fetches* fetches) override {
    EXPECT_FALSE(results_.empty());
    if (step_ >= fail_at_) return absl::InternalError("h0/up: token 300 of 256");
    *fetches = std::move(results_.front());
    results_.pop_front();
    return absl::OkStatus();
  }
  std::vector<VariableInfo> variables() const override { return {{"w", DType::kF32, shape_, ""}}; }
  absl::StatusOr<HostTensor> Read(absl::string_view name) override {
    EXPECT_EQ(name, "w");
    EXPECT_TRUE(results_.empty()) << "read with steps in flight";
    return Scalar(w_);
  }
  absl::Status Write(absl::string_view, const HostTensor& value) override {
    w_ = *value.data<float>();
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<VariableBox>> boxes(absl::string_view) const override {
    return std::vector<VariableBox>{{WholeBox(shape_), true}};
  }
  void set_step(int64_t step) override { step_ = step; }

  float w_ = 1;
  int64_t step_ = 0, nan_at_ = -1, fail_at_ = 1 << 20;
  Shape shape_;
  size_t most_in_flight_ = 0;
  std::deque<Fetches> results_;
};

class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    out_ = ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(out_);
    null_ = fopen("/dev/null", "w");
    options_.schedule = {.peak = 0.125, .warmup = 0, .steps = 10, .floor_fraction = 1};
    options_.samples_per_step = 4;
    options_.save_every = 4;
    options_.keep = 2;
    options_.out = out_;
    task_.feed = [this](int64_t samples_seen, Feeds* feeds) {
      x_ = Scalar(static_cast<float>(samples_seen));
      feeds->emplace_back("x", &x_);
      return absl::OkStatus();
    };
  }
  void TearDown() override { fclose(null_); }
  absl::StatusOr<TrainingRecord> Run(ScriptedSession* session, const std::string& resume = "") {
    ProgressPrinter printer(null_, false, 0, 1e9);
    Trainer trainer(session, options_, task_, &printer);
    if (!resume.empty()) {
      ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(resume));
      RETURN_IF_ERROR(trainer.Restore(checkpoint));
    }
    return trainer.Run();
  }
  // The log without the speeds, which differ from run to run.
  std::string Log() {
    std::string text = *ReadText(out_ + "/log.jsonl", 1 << 20), out;
    size_t begin = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\n') continue;
      const std::string line = text.substr(begin, i - begin);
      out += line.substr(0, line.find(",\"samples_per_second")) + "\n";
      begin = i + 1;
    }
    return out;
  }
  std::string out_;
  FILE* null_ = nullptr;
  HostTensor x_;
  TrainerOptions options_;
  TrainerTask task_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_TRAINER_FIXTURE_H_
