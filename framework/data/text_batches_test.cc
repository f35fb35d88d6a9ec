#include "framework/data/text_batches.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

std::string Alphabet(int length) {
  std::string text;
  for (int i = 0; i < length; ++i) text += static_cast<char>(i % 256);
  return text;
}

TEST(TextBatchesTest, LabelsAreTokensOneLater) {
  const std::string text = Alphabet(200);
  absl::StatusOr<TextBatches> batches = TextBatches::Create("text", text, 4, 16, 1);
  ASSERT_TRUE(batches.ok());
  TokenBatch batch(4, 16);
  batches->Random(0, &batch);
  for (int row = 0; row < 4; ++row) {
    for (int i = 0; i < 16; ++i) {
      const int32_t token = batch.tokens.data<int32_t>()[row * 16 + i];
      EXPECT_EQ(token, batch.tokens.data<int32_t>()[row * 16] + i);
      EXPECT_EQ(batch.labels.data<int32_t>()[row * 16 + i], token + 1);
    }
  }
}

TEST(TextBatchesTest, SampleIsAFunctionOfSeedAndNumber) {
  const std::string text = Alphabet(250);
  TextBatches by4 = *TextBatches::Create("text", text, 4, 8, 7);
  TextBatches by2 = *TextBatches::Create("text", text, 2, 8, 7);
  TextBatches other = *TextBatches::Create("text", text, 4, 8, 8);
  TokenBatch four(4, 8), two(2, 8), different(4, 8);
  by4.Random(4, &four);
  by2.Random(6, &two);  // samples 6 and 7 are rows 2 and 3 of the batch that begins at 4
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(two.tokens.data<int32_t>()[i], four.tokens.data<int32_t>()[16 + i]);
  }
  other.Random(4, &different);
  EXPECT_NE(different.tokens.bytes, four.tokens.bytes);
}

TEST(TextBatchesTest, RandomPlacesReachBothEnds) {
  const std::string text = Alphabet(20);  // places 0..3 for sequences of 16
  TextBatches batches = *TextBatches::Create("text", text, 1, 16, 1);
  TokenBatch batch(1, 16);
  std::set<int32_t> seen;
  for (int i = 0; i < 100; ++i) {
    batches.Random(i, &batch);
    seen.insert(batch.tokens.data<int32_t>()[0]);
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(0, 1, 2, 3));
}

TEST(TextBatchesTest, SpreadBatchesCoverTheText) {
  const std::string text = Alphabet(101);
  TextBatches batches = *TextBatches::Create("text", text, 2, 16, 1);
  ASSERT_EQ(batches.CoveringBatches(), 4);
  TokenBatch batch(2, 16);
  std::set<int32_t> labels;
  for (int i = 0; i < 4; ++i) {
    batches.Spread(i, 4, &batch);
    for (int j = 0; j < 32; ++j) labels.insert(batch.labels.data<int32_t>()[j]);
  }
  EXPECT_EQ(labels.size(), 100);  // every byte but the first, which nothing precedes
}

TEST(TextBatchesTest, TooShortTextIsRefused) {
  EXPECT_TRUE(TextBatches::Create("held-out text", Alphabet(17), 1, 16, 1).ok());
  EXPECT_EQ(TextBatches::Create("held-out text", Alphabet(16), 1, 16, 1).status().message(),
            "held-out text: a sequence of 16 tokens needs at least 17 bytes, got 16");
}

}  // namespace
}  // namespace sluice
