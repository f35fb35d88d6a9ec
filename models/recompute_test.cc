// --recompute=blocks, of every model: the same losses, gradients and norms, bit by bit, and for all
// but Wide & Deep for fewer bytes of memory.
#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/status.h"
#include "framework/passes/pass.h"
#include "framework/passes/recompute.h"
#include "framework/testing/training_parity.h"
#include "gtest/gtest.h"
#include "models/bert/parity.h"
#include "models/gpt/parity.h"
#include "models/insightface/parity.h"
#include "models/resnet/parity.h"
#include "models/wide_and_deep/parity.h"

namespace sluice {
namespace {

struct Model {
  std::string name;
  ParityCase kept;
  bool saves = true;  // where a block is a single layer, its input is all that backward reads
};

std::vector<Model> Models() {
  return {{"gpt", GptParity({.mesh = "data=2 pipe=2", .micro_batches = 2})},
          {"bert", BertParity({.mesh = "data=2", .micro_batches = 2})},
          {"resnet", ResNetParity({.mesh = "data=2"})},
          {"insightface", FaceParity({.mesh = "data=2"})},
          {"wide_and_deep", ClickParity({.mesh = "data=2"}), /*saves=*/false}};
}

class RecomputeTest : public ::testing::TestWithParam<Model> {};

TEST_P(RecomputeTest, ChangesNoBitAndNeedsLessMemory) {
  const ParityCase& kept = GetParam().kept;
  ParityCase again = kept;
  again.build = [build = kept.build](const OptimizerOptions& optimizer,
                                     Graph* graph) -> absl::Status {
    RETURN_IF_ERROR(build(optimizer, graph));
    return ApplyPasses({Recompute(RecomputedRegions::kBlocks)}, graph);
  };
  const TrainingSetting setting = SgdWithMomentum();
  const auto kept_run = ParityRun::Start(kept, setting), run = ParityRun::Start(again, setting);
  ASSERT_TRUE(kept_run.ok() && run.ok()) << kept_run.status() << run.status();
  for (int64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE((*kept_run)->Step(step).ok());
    ASSERT_TRUE((*run)->Step(step).ok());
    const Fetches &expected = (*kept_run)->fetches(), &got = (*run)->fetches();
    ASSERT_EQ(got.size(), expected.size());
    ASSERT_GT(got.size(), 4u);  // the gradients of all parameters among them
    for (const auto& [name, value] : expected) {
      EXPECT_EQ(got.at(name).bytes, value.bytes) << name << ", step " << step;
    }
  }
  const auto kept_plan = CompileParityPlan(kept, setting), plan = CompileParityPlan(again, setting);
  ASSERT_TRUE(kept_plan.ok() && plan.ok()) << kept_plan.status() << plan.status();
  const int64_t bytes = plan->devices(0).memory_bytes();
  if (GetParam().saves) {
    EXPECT_LT(bytes, kept_plan->devices(0).memory_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RecomputeTest, ::testing::ValuesIn(Models()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace sluice
