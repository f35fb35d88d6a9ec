#include "models/insightface/verification.h"

#include <cmath>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Genuine and impostor in turn, as DrawPairs gives them.
std::vector<Pair> InTurn(int count) {
  std::vector<Pair> pairs(count);
  for (int i = 0; i < count; ++i) pairs[i] = {2 * i, 2 * i + 1, i % 2 == 0};
  return pairs;
}

TEST(VerificationTest, PairsAreOfDifferentSamplesAndSayWhatTheyAre) {
  const std::vector<int32_t> labels = {3, 5, 3, 8, 5, 3, 9};
  const auto pairs = DrawPairs(labels, 2000, 1);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  ASSERT_EQ(pairs->size(), 2000u);
  std::set<std::pair<int64_t, int64_t>> genuine, impostors;
  for (size_t i = 0; i < pairs->size(); ++i) {
    const Pair& pair = (*pairs)[i];
    EXPECT_EQ(pair.same, i % 2 == 0);
    EXPECT_NE(pair.a, pair.b);
    EXPECT_EQ(labels[pair.a] == labels[pair.b], pair.same);
    (pair.same ? genuine : impostors).insert({pair.a, pair.b});
  }
  EXPECT_EQ(genuine.size(), 8u);     // of 3 samples six ordered pairs, of 2 samples two
  EXPECT_EQ(impostors.size(), 34u);  // of 42 ordered pairs all others
  const auto fewer = DrawPairs(labels, 20, 1);
  for (size_t i = 0; i < fewer->size(); ++i) EXPECT_EQ((*fewer)[i].a, (*pairs)[i].a);
  EXPECT_NE((*DrawPairs(labels, 20, 2))[0].a * 10 + (*DrawPairs(labels, 20, 2))[2].a,
            (*pairs)[0].a * 10 + (*pairs)[2].a);
}

TEST(VerificationTest, PairsThatCannotBeAreRefused) {
  EXPECT_THAT(std::string(DrawPairs({1, 2, 3}, 10, 1).status().message()),
              HasSubstr("two pictures of one, got 3 pictures of 3"));
  EXPECT_FALSE(DrawPairs({1, 1, 1}, 10, 1).ok());
}

// As LFW's file has them: 300 genuine pairs, then 300 impostors, ten times.
TEST(VerificationTest, SomePairsAreOfBothKindsWhateverTheOrder) {
  std::vector<Pair> blocks(6000);
  for (int i = 0; i < 6000; ++i) blocks[i] = {2 * i, 2 * i + 1, i / 300 % 2 == 0};
  for (const std::vector<Pair>& pairs : {blocks, InTurn(6000)}) {
    const std::vector<Pair> some = SpreadPairs(pairs, 129);
    ASSERT_EQ(some.size(), 130u);
    std::set<int64_t> shown;
    for (size_t i = 0; i < some.size(); ++i) {
      EXPECT_EQ(some[i].same, i % 2 == 0);
      shown.insert(some[i].a);
    }
    EXPECT_EQ(shown.size(), 130u);
    EXPECT_GT(*shown.rbegin(), 2 * 5800);
    EXPECT_EQ(SpreadPairs(pairs, 6000).size(), 6000u);
  }
  // Where one kind is rare no pair counts twice.
  std::vector<Pair> rare = InTurn(100);
  for (int i = 6; i < 100; ++i) rare[i].same = false;
  EXPECT_EQ(SpreadPairs(rare, 50).size(), 6u);
}

TEST(VerificationTest, WhatAThresholdSeparatesIsAllRight) {
  const std::vector<Pair> pairs = InTurn(200);
  std::vector<float> cosines;
  for (int i = 0; i < 200; ++i) {
    cosines.push_back((i % 2 == 0 ? 0.6F : 0.1F) + 0.001F * static_cast<float>(i % 7));
  }
  const Verification all = Verify(pairs, cosines);
  EXPECT_DOUBLE_EQ(all.accuracy, 1);
  EXPECT_EQ(TruePositivesAt(0, all.roc), 1);

  const Verification none = Verify(pairs, std::vector<float>(200, 0.5F));
  EXPECT_DOUBLE_EQ(none.accuracy, 0.5);
  EXPECT_EQ(TruePositivesAt(0.5, none.roc), 0) << "no threshold lies between equal cosines";
}

// A threshold that was chosen with the fold it judges would be right of 0.95 of these.
TEST(VerificationTest, AFoldIsJudgedByTheThresholdOfTheOthers) {
  const std::vector<Pair> pairs = InTurn(200);
  std::vector<float> cosines(200);
  for (int i = 0; i < 200; ++i) {
    const bool first_fold = i / 2 % kFolds == 0;
    const bool same = i % 2 == 0;
    // The others part at 0.5; in the first fold all genuine pairs lie below.
    cosines[i] = first_fold ? (same ? 0.4F : 0.3F) : (same ? 0.8F : 0.2F);
  }
  EXPECT_DOUBLE_EQ(Verify(pairs, cosines).accuracy, 0.95);
}

TEST(VerificationTest, TheCurveCountsWhatPasses) {
  // Falling: genuine, impostor, genuine, genuine, impostor, impostor, ..
  std::vector<Pair> pairs(20);
  std::vector<float> cosines(20);
  const std::set<int> genuine = {0, 2, 3, 6, 8, 10, 12, 14, 16, 18};
  for (int i = 0; i < 20; ++i) {
    pairs[i] = {i, i, genuine.contains(i)};
    cosines[i] = 1 - 0.01F * static_cast<float>(i);
  }
  const std::vector<RocPoint> roc = Verify(pairs, cosines).roc;
  EXPECT_DOUBLE_EQ(TruePositivesAt(0, roc), 0.1);
  EXPECT_DOUBLE_EQ(TruePositivesAt(0.1, roc), 0.3);
  EXPECT_DOUBLE_EQ(TruePositivesAt(0.25, roc), 0.3);
  EXPECT_DOUBLE_EQ(TruePositivesAt(1, roc), 1);
  for (size_t i = 1; i < roc.size(); ++i) {
    EXPECT_GE(roc[i].false_positives, roc[i - 1].false_positives);
    EXPECT_GE(roc[i].true_positives, roc[i - 1].true_positives);
  }
  const std::string svg = RocAsSvg(roc, {"a <title>", "of R&D"});
  EXPECT_THAT(svg, HasSubstr(">a &lt;title&gt;</text>"));
  EXPECT_THAT(svg, HasSubstr(">of R&amp;D</text>"));
  EXPECT_THAT(svg, HasSubstr("L540.0 40.0\"/>"));  // the curve's end, the upper right corner
}

TEST(VerificationTest, CosinesAreOfWhateverLength) {
  const std::vector<float> rows = {3, 0, 10, 10, 0, 0};
  const std::vector<float> cosines =
      CosinesOf({{0, 1, true}, {1, 1, true}, {0, 2, false}}, rows, 2);
  EXPECT_NEAR(cosines[0], std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(cosines[1], 1, 1e-6);
  EXPECT_EQ(cosines[2], 0);
}

}  // namespace
}  // namespace sluice
