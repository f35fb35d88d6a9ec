// Every layout trains the small face network as one device does.
#include "models/insightface/parity.h"

#include <cmath>
#include <vector>

#include "framework/testing/expect_parity.h"
#include "framework/testing/layouts.h"
#include "framework/testing/rank_parity.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

const Reference& ReferenceFor(const TrainingSetting& setting, const FaceLayout& layout) {
  return SharedReference(setting, FaceParity(ReferenceOf(layout)));
}

void ExpectParity(const TrainingSetting& setting, const FaceLayout& layout) {
  ExpectParity(setting, FaceParity(layout), FaceParity(ReferenceOf(layout)));
}

class ParityTest : public ::testing::TestWithParam<FaceLayout> {};

TEST_P(ParityTest, SgdWithMomentum) { ExpectParity(SgdWithMomentum(), GetParam()); }
TEST_P(ParityTest, AdamWWithClip) { ExpectParity(AdamWWithClip(), GetParam()); }
TEST_P(ParityTest, RanksOverTcp) {
  EXPECT_EQ(DifferenceOverTcp(FaceParity(GetParam()), SgdWithMomentum()), "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, ParityTest, ::testing::ValuesIn(FaceLayouts()), LayoutName());

class ParityBf16Test : public ::testing::TestWithParam<FaceLayout> {};

// As one device in bf16: where sums are added up otherwise, a few values round otherwise.
TEST_P(ParityBf16Test, SgdWithMomentum) { ExpectParity(SgdWithMomentum(), GetParam()); }

// Of IR-ResNet. MobileFaceNet begins with gradients that its depthwise norms all but take away, so
// that in eight bits the first layers' are rounding.
std::vector<FaceLayout> LayoutsInBf16() {
  std::vector<FaceLayout> layouts = FaceLayouts();
  std::erase_if(layouts, [](const FaceLayout& layout) { return layout.network != "ir18"; });
  return InBf16(layouts);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ParityBf16Test, ::testing::ValuesIn(LayoutsInBf16()),
                         LayoutName());

// Gradients of so small a network, behind so many norms, differ by tens of per cent in the first
// layers in eight bits; its losses do not, and fall as fast.
TEST(ParityBf16LossTest, LossesAreThoseOfF32) {
  const FaceLayout low = {.mesh = "data=1", .precision = {.compute = DType::kBF16}};
  const Reference& expected = ReferenceFor(SgdWithMomentum(), {.mesh = "data=1"});
  const Reference& got = ReferenceFor(SgdWithMomentum(), low);
  ASSERT_EQ(expected.records.size(), got.records.size());
  // Of what it falls from: after ten steps little is left.
  const double bound = 1e-2 * expected.records[0].loss;
  for (int64_t step = 0; step <= kParityEarly; ++step) {
    EXPECT_NEAR(got.records[step].loss, expected.records[step].loss, bound) << step;
  }
  EXPECT_GT(std::abs(got.records[0].loss - expected.records[0].loss), 1e-5) << "it did not round";
  EXPECT_NEAR(got.records.back().loss, expected.records.back().loss, 0.1);
}

}  // namespace
}  // namespace sluice
