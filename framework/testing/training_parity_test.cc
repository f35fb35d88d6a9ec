// A model that is no GPT, through the same checks.
#include "framework/testing/training_parity.h"

#include <memory>
#include <string>

#include "framework/testing/models.h"
#include "framework/testing/points.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

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
