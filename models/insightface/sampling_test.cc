// Partial FC as a model has it: all classes sampled are a softmax over all, and what is not sampled
// is left alone.
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "framework/testing/training_parity.h"
#include "gtest/gtest.h"
#include "models/insightface/parity.h"

namespace sluice {
namespace {

constexpr char kClasses[] = "classes/weight", kMomentum[] = "classes/weight.momentum";

FaceLayout Layout(double rate) {
  return {.mesh = "model=2", .sample_rate = rate, .sample_groups = 4};
}

std::unique_ptr<ParityRun> Start(const ParityCase& of) {
  auto run = ParityRun::Start(of, SgdWithMomentum());
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *std::move(run) : nullptr;
}

// The same classes without groups.
ParityCase AllAtOnce() {
  ParityCase all = FaceParity(Layout(1));
  all.build = [](OptimizerOptions optimizer, Graph* graph) {
    FaceConfig config = Layout(1).Config();
    config.sample_groups = 1;
    return BuildFaceTrain(config, optimizer, graph);
  };
  return all;
}

TEST(SamplingTest, AtRateOneItIsASoftmaxOverAllClasses) {
  const auto sampled = Start(FaceParity(Layout(1))), all = Start(AllAtOnce());
  ASSERT_TRUE(sampled && all);
  for (int64_t step = 0; step < 4; ++step) {
    const auto got = sampled->Step(step), expected = all->Step(step);
    ASSERT_TRUE(got.ok() && expected.ok()) << got.status() << expected.status();
    EXPECT_EQ(got->loss, expected->loss) << step;
    EXPECT_NEAR(got->grad_norm, expected->grad_norm, 1e-6 * expected->grad_norm) << step;
  }
  const auto got = sampled->ReadVariables(), expected = all->ReadVariables();
  ASSERT_TRUE(got.ok() && expected.ok());
  ASSERT_EQ(got->size(), expected->size());
  for (const auto& [name, tensor] : *got) {
    EXPECT_TRUE(tensor.bytes == expected->at(name).bytes) << name;
  }
}

// Which classes differ in their bytes.
std::set<int64_t> Changed(const HostTensor& before, const HostTensor& after, int64_t width) {
  std::set<int64_t> changed;
  const int64_t bytes = width * 4, rows = static_cast<int64_t>(before.bytes.size()) / bytes;
  for (int64_t r = 0; r < rows; ++r) {
    if (std::memcmp(before.bytes.data() + r * bytes, after.bytes.data() + r * bytes, bytes) != 0) {
      changed.insert(r);
    }
  }
  return changed;
}

TEST(SamplingTest, ClassesThatAreNotSampledStayAndTheirStateDoesNotDecay) {
  const FaceConfig config = Layout(0.4).Config();
  const int64_t count = config.sample_groups * SampledOfGroup(config);
  ASSERT_EQ(count, 160);
  const auto run = Start(FaceParity(Layout(0.4)));
  ASSERT_TRUE(run);
  std::set<std::set<int64_t>> samples;
  for (int64_t step = 0; step < 3; ++step) {
    const auto before = run->ReadVariables();
    ASSERT_TRUE(run->Step(step).ok());
    const auto after = run->ReadVariables();
    ASSERT_TRUE(before.ok() && after.ok());
    const auto weights = Changed(before->at(kClasses), after->at(kClasses), config.embedding);
    EXPECT_EQ(static_cast<int64_t>(weights.size()), count) << "step " << step;
    EXPECT_EQ(Changed(before->at(kMomentum), after->at(kMomentum), config.embedding), weights);
    samples.insert(weights);
  }
  EXPECT_EQ(samples.size(), 3u) << "each step draws anew";
}

}  // namespace
}  // namespace sluice
