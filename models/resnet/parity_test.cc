// Every layout trains the small ResNet as one device does.
#include "models/resnet/parity.h"

#include <cmath>
#include <vector>

#include "framework/testing/expect_parity.h"
#include "framework/testing/layouts.h"
#include "framework/testing/rank_parity.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

const Reference& ReferenceFor(const TrainingSetting& setting, const ResNetLayout& layout) {
  return SharedReference(setting, ResNetParity(ReferenceOf(layout)));
}

void ExpectParity(const TrainingSetting& setting, const ResNetLayout& layout) {
  ExpectParity(setting, ResNetParity(layout), ResNetParity(ReferenceOf(layout)));
}

class ParityTest : public ::testing::TestWithParam<ResNetLayout> {};

TEST_P(ParityTest, SgdWithMomentum) { ExpectParity(SgdWithMomentum(), GetParam()); }
TEST_P(ParityTest, AdamWWithClip) { ExpectParity(AdamWWithClip(), GetParam()); }
TEST_P(ParityTest, RanksOverTcp) {
  EXPECT_EQ(DifferenceOverTcp(ResNetParity(GetParam()), SgdWithMomentum()), "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, ParityTest, ::testing::ValuesIn(ResNetLayouts()), LayoutName());

// A ratio is of whole layers, whoever has what of them: of replicas, and of state, gradients and
// weights that are split over the devices of a batch or by channels.
class ParityLarsTest : public ::testing::TestWithParam<ResNetLayout> {};

TEST_P(ParityLarsTest, LarsWithClip) { ExpectParity(LarsWithClip(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layouts, ParityLarsTest,
                         ::testing::ValuesIn(std::vector<ResNetLayout>{
                             {.mesh = "data=2"},
                             {.mesh = "data=2", .zero = 1},
                             {.mesh = "data=2", .zero = 2},
                             {.mesh = "data=2", .zero = 3},
                             {.mesh = "model=3", .split_stages = 4},
                             {.mesh = "data=2 model=2", .split_stages = 4, .zero = 1},
                             {.mesh = "data=2 pipe=2", .micro_batches = 2, .groups = 2}}),
                         LayoutName());

class ParityBf16Test : public ::testing::TestWithParam<ResNetLayout> {};

// As one device in bf16: where sums are added up otherwise, a few values round otherwise.
TEST_P(ParityBf16Test, SgdWithMomentum) { ExpectParity(SgdWithMomentum(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layouts, ParityBf16Test, ::testing::ValuesIn(InBf16(ResNetLayouts())),
                         LayoutName());

// Gradients of so small a network, whose norms see 32 values a channel, differ by tens of per cent
// in eight bits; its losses do not.
TEST(ParityBf16LossTest, LossesAreThoseOfF32) {
  const ResNetLayout low = {.mesh = "data=1", .precision = {.compute = DType::kBF16}};
  const Reference& expected = ReferenceFor(SgdWithMomentum(), {.mesh = "data=1"});
  const Reference& got = ReferenceFor(SgdWithMomentum(), low);
  ASSERT_EQ(expected.records.size(), got.records.size());
  for (int64_t step = 0; step <= kParityEarly; ++step) {
    const double loss = expected.records[step].loss;
    EXPECT_NEAR(got.records[step].loss, loss, 5e-3 * loss) << step;
  }
  EXPECT_GT(std::abs(got.records[0].loss - expected.records[0].loss), 1e-5) << "it did not round";
  EXPECT_NEAR(got.records.back().loss, expected.records.back().loss, 0.1);
}

}  // namespace
}  // namespace sluice
