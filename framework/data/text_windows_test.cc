#include "framework/data/text_windows.h"

#include <memory>
#include <string>
#include <vector>

#include "framework/data/batch.h"
#include "framework/data/text_dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

TextWindows Make(std::vector<int32_t> tokens, int64_t length) {
  return TextWindows(
      std::make_unique<TokenDataset>(*TokenDataset::Create("tokens", std::move(tokens), length)));
}

std::vector<int32_t> UpTo(int count) {
  std::vector<int32_t> tokens(count);
  for (int i = 0; i < count; ++i) tokens[i] = 100 + i;
  return tokens;
}

TEST(TextWindowsTest, LieSideBySideAndTheLastIsFilledUp) {
  const TextWindows windows = Make(UpTo(8), 3);  // seven labels
  ASSERT_EQ(windows.num_samples(), 3);
  Batch batch(windows, 3);
  ASSERT_TRUE(ReadBatch(windows, {SampleOrder::kSpread, 0, 3}, 0, &batch).ok());
  const auto values = [&batch](int field) {
    const int32_t* const row = batch.tensors[field].data<int32_t>();
    return std::vector<int32_t>(row, row + 9);
  };
  EXPECT_THAT(values(0), ElementsAre(100, 101, 102, 103, 104, 105, 106, 0, 0));
  EXPECT_THAT(values(1), ElementsAre(101, 102, 103, 104, 105, 106, 107, 0, 0));
  const float* const weights = batch.tensors[2].data<float>();
  EXPECT_THAT(std::vector<float>(weights, weights + 9), ElementsAre(1, 1, 1, 1, 1, 1, 1, 0, 0));
}

// Whatever the length, each token but the first is a label that counts, once and in order.
TEST(TextWindowsTest, EveryTokenIsPredictedOnce) {
  for (const int count : {2, 3, 4, 9, 10, 11, 64}) {
    for (int64_t length = 1; length < count; ++length) {
      const TextWindows windows = Make(UpTo(count), length);
      const int64_t samples = windows.num_samples();
      Batch batch(windows, samples);
      ASSERT_TRUE(ReadBatch(windows, {SampleOrder::kSpread, 0, samples}, 0, &batch).ok());
      std::vector<int32_t> predicted;
      for (int64_t i = 0; i < samples * length; ++i) {
        if (batch.tensors[2].data<float>()[i] == 0) continue;
        predicted.push_back(batch.tensors[1].data<int32_t>()[i]);
        EXPECT_EQ(batch.tensors[0].data<int32_t>()[i], predicted.back() - 1);
      }
      const std::vector<int32_t> tokens = UpTo(count);
      EXPECT_EQ(predicted, std::vector<int32_t>(tokens.begin() + 1, tokens.end()))
          << count << " " << length;
    }
  }
}

TEST(TextWindowsTest, FillsOnlyTheBox) {
  const TextWindows windows = Make(UpTo(12), 5);  // the last has one label of five
  const std::vector<int64_t> samples = {2, 0};
  for (int field = 0; field < 3; ++field) {
    std::vector<int32_t> whole(10), part(4, -7);  // a float is as wide
    ASSERT_TRUE(
        windows.Fill(field, samples, 0, Box{{0, 5}}, reinterpret_cast<std::byte*>(whole.data()))
            .ok());
    for (int64_t begin = 0; begin <= 3; ++begin) {
      ASSERT_TRUE(windows
                      .Fill(field, samples, 0, Box{{begin, begin + 2}},
                            reinterpret_cast<std::byte*>(part.data()))
                      .ok());
      for (int i = 0; i < 4; ++i) EXPECT_EQ(part[i], whole[i / 2 * 5 + begin + i % 2]) << field;
    }
  }
}

TEST(TextWindowsTest, AreKnownAgainByTheirText) {
  EXPECT_EQ(Make(UpTo(12), 5).identity(), TokenDataset::Create("", UpTo(12), 5)->identity());
}

}  // namespace
}  // namespace sluice
