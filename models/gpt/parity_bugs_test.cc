// Bugs that loose comparisons of loss curves miss under Adam: each planted one must fail the
// checks.
#include "models/gpt/parity_bugs.h"

#include <cstdio>
#include <string>

#include "framework/testing/planted_bugs.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

constexpr int64_t kFreeSteps = 10;
constexpr char kWeight[] = "h2/mlp/up/weight";

const Reference& SharedReference() {
  static const auto* reference = [] {
    auto run = RunReference(GptParity(ReferenceLayout(8)), AdamWWithClip());
    EXPECT_TRUE(run.ok()) << run.status();
    return new Reference(run.ok() ? *std::move(run) : Reference());
  }();
  return *reference;
}

struct Found {
  absl::Status lockstep, free_run, replicas;
};

// What the checks say of a layout whose plan was changed.
absl::StatusOr<Found> Check(const GptLayout& layout, const PlanMutation& mutate,
                            const std::string& stale = "") {
  const Reference& reference = SharedReference();
  auto run = ParityRun::Start(GptParity(layout), reference.setting, mutate);
  if (!run.ok()) return run.status();
  Session* session = (*run)->session();
  if (!stale.empty()) {
    const auto value = session->Read(stale);
    if (!value.ok()) return value.status();
    const absl::Status written = session->Write(stale + ".stale", *value);
    if (!written.ok()) return written;
  }
  Found found;
  ParityFigures figures;
  found.free_run = CheckFreeRun(reference, 0, kFreeSteps, run->get(), &figures);
  found.replicas = session->CheckReplicas();
  found.lockstep = CheckLockstep(reference, run->get(), &figures);
  std::printf("  free run: %s\n  replicas: %s\n  lockstep: %s\n", found.free_run.ToString().c_str(),
              found.replicas.ToString().c_str(), found.lockstep.ToString().c_str());
  return found;
}

void ExpectBothFind(const absl::StatusOr<Found>& found) {
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(absl::IsDataLoss(found->lockstep)) << found->lockstep;
  EXPECT_TRUE(absl::IsDataLoss(found->free_run)) << found->free_run;
}

// The checks pass where nothing is planted, on the layouts below.
TEST(ParityBugsTest, NothingPlanted) {
  for (const GptLayout& layout : {GptLayout{"data=2"}, GptLayout{"data=3"}, GptLayout{"model=2"}}) {
    const auto found = Check(layout, [](plan::Plan*) { return absl::OkStatus(); });
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(found->lockstep.ok()) << found->lockstep;
    EXPECT_TRUE(found->free_run.ok()) << found->free_run;
    EXPECT_TRUE(found->replicas.ok()) << found->replicas;
  }
}

TEST(ParityBugsTest, OneReductionDropped) {
  for (const char* gradient :
       {"h1/mlp/up/add/backward", "h1/norm1/backward/layer_norm_parameter_gradient:0",
        "h1/mlp/up/backward/matmul_weight_gradient"}) {
    const auto found =
        Check({"data=2"}, [&](plan::Plan* plan) { return DropReduction(gradient, plan); });
    ExpectBothFind(found);
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(absl::IsDataLoss(found->replicas)) << gradient;
  }
}

TEST(ParityBugsTest, AnActivationsReductionDropped) {
  ExpectBothFind(
      Check({"model=2"}, [](plan::Plan* plan) { return DropReduction("h2/attn/out", plan); }));
}

TEST(ParityBugsTest, TheSameDropoutMaskOnBothShards) {
  ExpectBothFind(Check({"data=2"}, ShareDropoutMask));
}

TEST(ParityBugsTest, AMissingDivisionByN) {
  ExpectBothFind(Check({"data=2"}, [](plan::Plan* plan) { return DivideByLocalBatch(1, plan); }));
}

TEST(ParityBugsTest, AMeanOfMeansOverUnevenShards) {
  ExpectBothFind(Check({"data=3"}, [](plan::Plan* plan) { return DivideByLocalBatch(3, plan); }));
}

TEST(ParityBugsTest, AStaleWeight) {
  ExpectBothFind(Check(
      {"data=2"}, [](plan::Plan* plan) { return UseStaleWeight(kWeight, plan); }, kWeight));
}

TEST(ParityBugsTest, AGradientCountedTwice) {
  ExpectBothFind(Check({"data=2"}, [](plan::Plan* plan) {
    return CountTwice("h1/norm1/backward/layer_norm_parameter_gradient:0", plan);
  }));
}

TEST(ParityBugsTest, ClipByALocalNorm) {
  ExpectBothFind(
      Check({"model=2"}, [](plan::Plan* plan) { return DropReduction("clip/sum", plan); }));
}

// What is planted must be there to be planted in.
TEST(ParityBugsTest, ABugThatHasNoPlaceIsAnError) {
  const auto found =
      Check({"data=2"}, [](plan::Plan* plan) { return DropReduction("no/such/tensor", plan); });
  EXPECT_TRUE(absl::IsNotFound(found.status())) << found.status();
}

}  // namespace
}  // namespace sluice
