// Every layout trains the small Wide & Deep model as one device does.
#include "models/wide_and_deep/parity.h"

#include <vector>

#include "framework/testing/expect_parity.h"
#include "framework/testing/layouts.h"
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

INSTANTIATE_TEST_SUITE_P(Layouts, ParityTest, ::testing::ValuesIn(ClickLayouts()), LayoutName());

class ParityBf16Test : public ::testing::TestWithParam<ClickLayout> {};

TEST_P(ParityBf16Test, AdamWWithClip) { ExpectParity(AdamWWithClip(), GetParam()); }

std::vector<ClickLayout> LayoutsInBf16() {
  std::vector<ClickLayout> layouts = ClickLayouts();
  layouts.insert(layouts.begin(), {.mesh = "data=1"});
  return InBf16(layouts);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ParityBf16Test, ::testing::ValuesIn(LayoutsInBf16()),
                         LayoutName());

}  // namespace
}  // namespace sluice
