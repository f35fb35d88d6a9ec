#include "framework/data/text_dataset.h"

#include <string>
#include <vector>

#include "framework/data/batch.h"
#include "framework/data/sample_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

std::string Alphabet(int length) {
  std::string text;
  for (int i = 0; i < length; ++i) text += static_cast<char>(i % 256);
  return text;
}

std::vector<int32_t> Filled(const TextDataset& text, int field, std::vector<int64_t> samples,
                            Range range) {
  std::vector<int32_t> values(samples.size() * range.size(), -1);
  EXPECT_TRUE(text.Fill(field, samples, /*position=*/0, Box{range},
                        reinterpret_cast<std::byte*>(values.data()))
                  .ok());
  return values;
}

TEST(TextDatasetTest, ASampleIsAWindowAndLabelsAreTokensOneLater) {
  const TextDataset text = *TextDataset::Create("text", Alphabet(250), 4);
  EXPECT_EQ(text.num_samples(), 246);
  ASSERT_EQ(text.fields().size(), 2);
  EXPECT_EQ(text.fields()[0].name, "tokens");
  EXPECT_EQ(text.fields()[1].shape, Shape({4}));
  EXPECT_THAT(Filled(text, 0, {245, 3}, {0, 4}),
              ::testing::ElementsAre(245, 246, 247, 248, 3, 4, 5, 6));
  EXPECT_THAT(Filled(text, 1, {245, 3}, {0, 4}),
              ::testing::ElementsAre(246, 247, 248, 249, 4, 5, 6, 7));
}

// What a device needs whose mesh splits the sequence.
TEST(TextDatasetTest, FillsTheBoxAlone) {
  const TextDataset text = *TextDataset::Create("text", Alphabet(250), 8);
  EXPECT_THAT(Filled(text, 0, {10, 100}, {3, 5}), ::testing::ElementsAre(13, 14, 103, 104));
  EXPECT_THAT(Filled(text, 1, {10}, {6, 8}), ::testing::ElementsAre(17, 18));
  EXPECT_THAT(Filled(text, 1, {10}, {8, 8}), ::testing::IsEmpty());
}

TEST(TextDatasetTest, BytesAboveAsciiAreTokensTo255) {
  const TextDataset text = *TextDataset::Create("text", "\xff\x80z", 2);
  EXPECT_THAT(Filled(text, 0, {0}, {0, 2}), ::testing::ElementsAre(255, 128));
}

TEST(TextDatasetTest, TokensAreWhatTheyAre) {
  const TokenDataset tokens =
      *TokenDataset::Create("tokens", std::vector<int32_t>{7, 50256, 70000, 300, 0}, 3);
  EXPECT_EQ(tokens.num_samples(), 2);
  EXPECT_EQ(tokens.identity().bytes, 20);
  std::vector<int32_t> values(6, -1);
  const auto to = reinterpret_cast<std::byte*>(values.data());
  ASSERT_TRUE(tokens.Fill(0, {0, 1}, 0, Box{{0, 3}}, to).ok());
  EXPECT_THAT(values, ::testing::ElementsAre(7, 50256, 70000, 50256, 70000, 300));
  ASSERT_TRUE(tokens.Fill(1, {0, 1}, 0, Box{{1, 3}}, to).ok());
  EXPECT_THAT(std::vector<int32_t>(values.begin(), values.begin() + 4),
              ::testing::ElementsAre(70000, 300, 300, 0));
  const auto other = TokenDataset::Create("tokens", std::vector<int32_t>{7, 50256, 0}, 2);
  EXPECT_NE(other->identity(), tokens.identity());
  EXPECT_EQ(TokenDataset::Create("few", std::vector<int32_t>{1, 2}, 2).status().message(),
            "few: a sequence of 2 tokens needs at least 3 tokens, got 2");
}

TEST(TextDatasetTest, IdentityIsOfEveryByte) {
  const DataIdentity identity = TextDataset::Create("text", "some text", 2)->identity();
  EXPECT_EQ(identity.bytes, 9);
  EXPECT_EQ(TextDataset::Create("other", "some text", 4)->identity(), identity);
  EXPECT_NE(TextDataset::Create("text", "some tex_", 2)->identity(), identity);
}

TEST(TextDatasetTest, TooShortTextIsRefused) {
  EXPECT_TRUE(TextDataset::Create("held-out text", Alphabet(17), 16).ok());
  EXPECT_EQ(TextDataset::Create("held-out text", Alphabet(16), 16).status().message(),
            "held-out text: a sequence of 16 tokens needs at least 17 bytes, got 16");
}

}  // namespace
}  // namespace sluice
