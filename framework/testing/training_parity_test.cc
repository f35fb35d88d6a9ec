// A model that is no GPT, through the same checks.
#include "framework/testing/training_parity.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "framework/tensor/random.h"
#include "framework/testing/models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kWidth = 6;

// Points of which the label is the largest of some coordinates.
class Points : public Dataset {
 public:
  int64_t num_samples() const override { return 1000; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return {1000, 1}; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, const Box&,
                    std::byte* to) const override {
    for (size_t i = 0; i < samples.size(); ++i) {
      float point[kWidth];
      for (int64_t d = 0; d < kWidth; ++d) point[d] = Coordinate(samples[i], d);
      if (field == 0) {
        std::copy_n(point, kWidth, reinterpret_cast<float*>(to) + i * kWidth);
      } else {
        reinterpret_cast<int32_t*>(to)[i] =
            static_cast<int32_t>(std::max_element(point, point + kWidth) - point);
      }
    }
    return absl::OkStatus();
  }

 private:
  static float Coordinate(int64_t sample, int64_t d) {
    return static_cast<float>(RandomWord(1, 2, 3, sample * kWidth + d) % 1000) / 500 - 1;
  }
  const std::vector<SampleField> fields_ = {{"x", DType::kF32, {kWidth}},
                                            {"label", DType::kI32, {}}};
};

ParityCase Mlp(const std::string& mesh, int64_t micro_batches = 1, double scale = 1) {
  ParityCase mlp;
  mlp.name = mesh;
  mlp.mesh = mesh;
  mlp.micro_batches = micro_batches;
  mlp.batch = 8;
  mlp.build = [scale](const OptimizerOptions& optimizer, Graph* graph) {
    MlpOptions options;
    options.batch = 8;
    options.annotation = MegatronAnnotations(3);
    options.optimizer = optimizer;
    options.optimizer.epsilon *= scale;
    return BuildMlp(graph, options);
  };
  mlp.open_data = [] { return std::make_shared<const Points>(); };
  return mlp;
}

TrainingSetting Setting() {
  TrainingSetting setting;
  setting.name = "AdamW";
  setting.optimizer.epsilon = 1e-3;
  setting.optimizer.clip = 1;
  setting.schedule.peak = 1e-3;
  return setting;
}

TEST(TrainingParityTest, LayoutsOfAnotherModelEqualOneDevice) {
  const auto reference = RunReference(Mlp("data=1"), Setting());
  ASSERT_TRUE(reference.ok()) << reference.status();
  EXPECT_LT(reference->records.back().loss, reference->records.front().loss);
  for (const ParityCase& of : {Mlp("data=2"), Mlp("data=3"), Mlp("model=2"),
                               Mlp("data=2 pipe=2", 2), Mlp("data=2 model=2", 4)}) {
    ParityFigures figures;
    const absl::Status status = CheckCase(*reference, of, &figures);
    EXPECT_TRUE(status.ok()) << status << "\n" << figures.ToString();
  }
}

TEST(TrainingParityTest, AnotherUpdateIsFound) {
  const auto reference = RunReference(Mlp("data=1"), Setting());
  ASSERT_TRUE(reference.ok()) << reference.status();
  ParityFigures figures;
  const absl::Status status = CheckCase(*reference, Mlp("data=2", 1, 1.01), &figures);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << figures.ToString();
}

}  // namespace
}  // namespace sluice
