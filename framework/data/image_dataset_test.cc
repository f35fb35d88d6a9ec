#include "framework/data/image_dataset.h"

#include <algorithm>
#include <string>
#include <vector>

#include "framework/data/batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Picture n has n + 1 in its first element, one more in each that follows.
LabeledImages Images(int count, const Shape& shape) {
  LabeledImages images;
  images.shape = shape;
  for (int n = 0; n < count; ++n) {
    for (int64_t i = 0; i < shape.NumElements(); ++i) {
      images.pixels.push_back(static_cast<uint8_t>(n + 1 + i));
    }
    images.labels.push_back(10 * n);
  }
  return images;
}

std::vector<uint8_t> Filled(const ImageDataset& data, int64_t sample, int64_t position,
                            const Box& box) {
  std::vector<uint8_t> pixels(Volume(box) + 1, 222);
  EXPECT_TRUE(
      data.Fill(0, {sample}, position, box, reinterpret_cast<std::byte*>(pixels.data())).ok());
  EXPECT_EQ(pixels.back(), 222) << "written behind the box";
  pixels.pop_back();
  return pixels;
}

TEST(ImageDatasetTest, ASampleIsAPictureAndItsLabel) {
  const auto data = ImageDataset::Create("pictures", Images(3, {2, 2, 1}));
  ASSERT_TRUE(data.ok()) << data.status();
  Batch batch(*data, 3);
  EXPECT_THAT(batch.names, ::testing::ElementsAre("images", "labels"));
  EXPECT_EQ(batch.tensors[0].dtype, DType::kU8);
  EXPECT_EQ(batch.tensors[0].shape, Shape({3, 2, 2, 1}));
  EXPECT_EQ(batch.tensors[1].shape, Shape({3}));
  ASSERT_TRUE(ReadBatch(*data, {SampleOrder::kSpread, 0, 3}, 0, &batch).ok());
  const auto* pixels = batch.tensors[0].data<uint8_t>();
  EXPECT_THAT(std::vector<uint8_t>(pixels, pixels + 12),
              ::testing::ElementsAre(1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6));
  const auto* labels = batch.tensors[1].data<int32_t>();
  EXPECT_THAT(std::vector<int32_t>(labels, labels + 3), ::testing::ElementsAre(0, 10, 20));
}

// The picture with zeros around it, at every offset and both ways round.
std::vector<uint8_t> Cropped(const LabeledImages& images, int64_t padding, int64_t top,
                             int64_t left, bool flip) {
  const int64_t height = images.shape[0], width = images.shape[1], channels = images.shape[2];
  const int64_t padded_width = width + 2 * padding;
  std::vector<uint8_t> padded((height + 2 * padding) * padded_width * channels);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t i = 0; i < width * channels; ++i) {
      padded[((y + padding) * padded_width + padding) * channels + i] =
          images.pixels[y * width * channels + i];
    }
  }
  std::vector<uint8_t> cropped;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const int64_t from = flip ? width - 1 - x : x;
      for (int64_t c = 0; c < channels; ++c) {
        cropped.push_back(padded[((y + top) * padded_width + left + from) * channels + c]);
      }
    }
  }
  return cropped;
}

TEST(ImageDatasetTest, EveryCropAndBothDirectionsAreSeenAsOften) {
  const LabeledImages images = Images(1, {3, 4, 3});
  constexpr int64_t kPadding = 1;
  const auto data = ImageDataset::Create("pictures", images, {kPadding, true, 7});
  ASSERT_TRUE(data.ok()) << data.status();
  constexpr int kSeen = 3600;
  std::vector<int> counts(18);
  for (int position = 0; position < kSeen; ++position) {
    const std::vector<uint8_t> got = Filled(*data, 0, position, WholeBox({3, 4, 3}));
    int found = -1;
    for (int view = 0; view < 18; ++view) {
      if (got == Cropped(images, kPadding, view / 6, view / 2 % 3, view % 2 == 1)) found = view;
    }
    ASSERT_GE(found, 0) << "position " << position;
    ++counts[found];
  }
  for (const int count : counts) EXPECT_NEAR(count, kSeen / 18, 60);
}

// Runs will have seen these.
TEST(ImageDatasetTest, TheDrawsOfEarlierRunsStand) {
  const auto data = ImageDataset::Create("pictures", Images(1, {2, 2, 1}), {1, true, 1});
  const std::vector<std::vector<uint8_t>> expected = {{0, 1, 0, 3}, {0, 4, 0, 0}, {3, 4, 0, 0},
                                                      {4, 3, 0, 0}, {3, 0, 0, 0}, {0, 0, 2, 0}};
  for (int position = 0; position < 6; ++position) {
    EXPECT_EQ(Filled(*data, 0, position, WholeBox({2, 2, 1})), expected[position]) << position;
  }
}

TEST(ImageDatasetTest, WithoutAugmentationAPictureIsItself) {
  const LabeledImages images = Images(2, {3, 4, 3});
  const auto data = ImageDataset::Create("pictures", images);
  for (int position = 0; position < 20; ++position) {
    EXPECT_EQ(Filled(*data, 0, position, WholeBox({3, 4, 3})),
              std::vector<uint8_t>(images.pixels.begin(), images.pixels.begin() + 36));
  }
}

// What a device needs whose mesh splits a picture: no rule asks for it today.
TEST(ImageDatasetTest, APartOfAPictureIsThePartOfTheWhole) {
  const Shape shape = {5, 4, 3};
  for (const CropAndFlip& augmentation : {CropAndFlip{}, CropAndFlip{2, true, 3}}) {
    const auto data = ImageDataset::Create("pictures", Images(2, shape), augmentation);
    for (int position = 0; position < 40; ++position) {
      const std::vector<uint8_t> whole = Filled(*data, 1, position, WholeBox(shape));
      for (const Box& box : {Box{{1, 4}, {0, 4}, {0, 3}}, Box{{0, 5}, {1, 3}, {0, 3}},
                             Box{{2, 3}, {3, 4}, {1, 2}}, Box{{2, 2}, {0, 4}, {0, 3}}}) {
        std::vector<uint8_t> expected;
        ForEachRow(WholeBox(shape), box, [&](int64_t offset, int64_t length) {
          expected.insert(expected.end(), whole.begin() + offset, whole.begin() + offset + length);
        });
        ASSERT_EQ(Filled(*data, 1, position, box), expected)
            << BoxToString(box) << " at " << position;
      }
    }
  }
}

// The same position gives the same picture, whatever the batch that it is read with; another seed
// gives others.
TEST(ImageDatasetTest, AViewIsAFunctionOfSeedAndPosition) {
  const Shape shape = {6, 6, 1};
  const auto data = ImageDataset::Create("pictures", Images(5, shape), {3, true, 1});
  const auto other = ImageDataset::Create("pictures", Images(5, shape), {3, true, 2});
  const SampleOrder order = {SampleOrder::kEpochs, 4};
  Batch whole(*data, 100), part(*data, 3), by_other(*other, 100);
  ASSERT_TRUE(ReadBatch(*data, order, 50, &whole).ok());
  ASSERT_TRUE(ReadBatch(*other, order, 50, &by_other).ok());
  for (int64_t first : {0, 64, 97}) {
    ASSERT_TRUE(ReadBatch(*data, order, 50 + first, &part).ok());
    EXPECT_TRUE(std::equal(part.tensors[0].bytes.begin(), part.tensors[0].bytes.end(),
                           whole.tensors[0].bytes.begin() + first * 36))
        << first;
  }
  EXPECT_EQ(whole.tensors[1].bytes, by_other.tensors[1].bytes);
  EXPECT_NE(whole.tensors[0].bytes, by_other.tensors[0].bytes);
}

TEST(ImageDatasetTest, IdentityIsOfEveryByteAndOfTheSize) {
  const auto identity = [](const LabeledImages& images) {
    return ImageDataset::Create("pictures", images, {2, true, 9})->identity();
  };
  const LabeledImages images = Images(2, {2, 3, 1});
  EXPECT_EQ(identity(images).bytes, 12 + 8);
  EXPECT_EQ(ImageDataset::Create("others", images)->identity(), identity(images));
  LabeledImages turned = images, changed = images, renamed = images;
  turned.shape = {3, 2, 1};
  changed.pixels.back() ^= 1;
  renamed.labels.back() ^= 1;
  EXPECT_NE(identity(turned), identity(images));
  EXPECT_NE(identity(changed), identity(images));
  EXPECT_NE(identity(renamed), identity(images));
}

TEST(ImageDatasetTest, WhatDoesNotFitIsRefused) {
  const auto error = [](const LabeledImages& images, int64_t padding = 0) {
    return std::string(
        ImageDataset::Create("training pictures", images, {padding}).status().message());
  };
  EXPECT_EQ(error({{2, 2, 1}, {}, {}}),
            "training pictures: expected at least one picture, got none");
  EXPECT_EQ(error({{2, 0, 1}, {}, {1}}),
            "training pictures: expected pictures of [height, width, channels], got [2,0,1]");
  EXPECT_EQ(error({{2, 2, 1}, {1, 2, 3}, {1}}),
            "training pictures: expected 4 bytes of 1 pictures of [2,2,1], got 3");
  EXPECT_EQ(error({{1, 1, 1}, {1, 2, 3}, {1, 0, -4}}),
            "training pictures: expected labels from 0 on, got -4 of picture 2");
  EXPECT_EQ(error(Images(1, {2, 2, 1}), -1),
            "training pictures: expected a padding of 0 or more, got -1");
}

}  // namespace
}  // namespace sluice
