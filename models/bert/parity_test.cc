// Every layout trains the small BERT as one device does.
#include "models/bert/parity.h"

#include <vector>

#include "framework/testing/expect_parity.h"
#include "framework/testing/layouts.h"
#include "framework/testing/rank_parity.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

void ExpectParity(const TrainingSetting& setting, const BertLayout& layout) {
  ExpectParity(setting, BertParity(layout), BertParity(ReferenceOf(layout)));
}

class ParityTest : public ::testing::TestWithParam<BertLayout> {};

TEST_P(ParityTest, AdamWWithClip) { ExpectParity(AdamWWithClip(), GetParam()); }
TEST_P(ParityTest, PlainSgd) { ExpectParity(PlainSgd(), GetParam()); }
TEST_P(ParityTest, LambWithClip) { ExpectParity(LambWithClip(), GetParam()); }
TEST_P(ParityTest, RanksOverTcp) {
  EXPECT_EQ(DifferenceOverTcp(BertParity(GetParam()), AdamWWithClip()), "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, ParityTest, ::testing::ValuesIn(BertLayouts()), LayoutName());

class ParityBf16Test : public ::testing::TestWithParam<BertLayout> {};

TEST_P(ParityBf16Test, AdamWWithClip) { ExpectParity(AdamWWithClip(), GetParam()); }

std::vector<BertLayout> LayoutsInBf16() {
  std::vector<BertLayout> layouts = BertLayouts();
  layouts.insert(layouts.begin(), {.mesh = "data=1"});
  return InBf16(layouts);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ParityBf16Test, ::testing::ValuesIn(LayoutsInBf16()),
                         LayoutName());

}  // namespace
}  // namespace sluice
