// Every layout trains the small Wide & Deep model as one device does.
#include "models/wide_and_deep/parity.h"

#include <vector>

#include "framework/testing/expect_parity.h"
#include "framework/testing/rank_parity.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

void ExpectParity(const TrainingSetting& setting, const ClickLayout& layout) {
  ExpectParity(setting, ClickParity(layout), ClickParity(ReferenceOf(layout)));
}

class ParityTest : public ::testing::TestWithParam<ClickLayout> {};

TEST_P(ParityTest, AdamWWithClip) { ExpectParity(AdamWWithClip(), GetParam()); }
TEST_P(ParityTest, AdagradWithClip) { ExpectParity(AdagradWithClip(), GetParam()); }
TEST_P(ParityTest, PlainSgd) { ExpectParity(PlainSgd(), GetParam()); }
TEST_P(ParityTest, RanksOverTcp) {
  EXPECT_EQ(DifferenceOverTcp(ClickParity(GetParam()), AdagradWithClip()), "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, ParityTest, ::testing::ValuesIn(ClickLayouts()),
                         [](const auto& info) { return info.param.Stem(); });

class ParityBf16Test : public ::testing::TestWithParam<ClickLayout> {};

TEST_P(ParityBf16Test, AdamWWithClip) { ExpectParity(AdamWWithClip(), GetParam()); }

std::vector<ClickLayout> InBf16() {
  std::vector<ClickLayout> layouts = ClickLayouts();
  layouts.insert(layouts.begin(), {.mesh = "data=1"});
  for (ClickLayout& layout : layouts) layout.precision.compute = DType::kBF16;
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(Layouts, ParityBf16Test, ::testing::ValuesIn(InBf16()),
                         [](const auto& info) { return info.param.Stem(); });

}  // namespace
}  // namespace sluice
