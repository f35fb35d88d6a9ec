#include "framework/data/photo_view.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Each pixel says where it is: row, column, and 100.
RgbImage Places(int height, int width) {
  RgbImage image = {{height, width}, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (const int value : {y % 256, x % 256, 100}) {
        image.pixels.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  return image;
}

std::vector<uint8_t> Shown(const PhotoView& view, const RgbImage& image, int64_t position) {
  std::vector<uint8_t> pixels(3 * view.height * view.width + 1, 222);
  PhotoViewer().Show(view, image, position, pixels.data());
  EXPECT_EQ(pixels.back(), 222) << "written behind the picture";
  pixels.pop_back();
  return pixels;
}

TEST(PhotoViewTest, PartsAreDrawnAsTheirSharesAndRatiosSay) {
  PhotoView view;
  view.random = true;
  const ImageSize size = {300, 400};
  constexpr int kDrawn = 4000;
  double area = 0, ratio = 0, top = 0, left = 0, both = 0;
  for (int position = 0; position < kDrawn; ++position) {
    const PhotoCrop crop = DrawCrop(view, size, position);
    ASSERT_GE(crop.rows.begin, 0);
    ASSERT_GE(crop.columns.begin, 0);
    ASSERT_LE(crop.rows.end, 300);
    ASSERT_LE(crop.columns.end, 400);
    const double height = static_cast<double>(crop.rows.size());
    const double width = static_cast<double>(crop.columns.size());
    ASSERT_GT(height * width, 0.07 * 300 * 400);
    ASSERT_LT(std::abs(std::log(width / height)), std::log(4.0 / 3) + 0.02);
    area += height * width / (300 * 400) / kDrawn;
    ratio += std::log(width / height) / kDrawn;
    if (height < 300 && width < 400) {
      both += (static_cast<double>(crop.rows.begin) / (300 - height) - 0.5) *
              (static_cast<double>(crop.columns.begin) / (400 - width) - 0.5) / kDrawn;
    }
    if (height < 300) top += static_cast<double>(crop.rows.begin) / (300 - height) / kDrawn;
    if (width < 400) left += static_cast<double>(crop.columns.begin) / (400 - width) / kDrawn;
  }
  // What torchvision's way gives in Python: shares near 1 fit with few ratios only and are drawn
  // anew, so that the mean is below 0.54.
  EXPECT_NEAR(area, 0.432, 0.015);
  EXPECT_NEAR(ratio, 0.031, 0.012);
  EXPECT_NEAR(top, 0.5, 0.04);
  EXPECT_NEAR(left, 0.5, 0.04);
  EXPECT_NEAR(both, 0, 0.01);  // 1 / 12 if one followed from the other
}

// Runs will have seen these.
TEST(PhotoViewTest, TheDrawsOfEarlierRunsStand) {
  PhotoView view;
  view.random = true;
  view.height = view.width = 4;
  view.brightness = view.contrast = view.saturation = 0.4;
  const PhotoCrop crop = DrawCrop(view, {300, 400}, 1);
  EXPECT_EQ(crop.rows, (Range{80, 251}));
  EXPECT_EQ(crop.columns, (Range{24, 233}));
  const std::vector<uint8_t> seen = Shown(view, Places(200, 200), 1);
  EXPECT_THAT(std::vector<uint8_t>(seen.begin(), seen.begin() + 6),
              ::testing::ElementsAre(27, 134, 80, 27, 100, 80));
}

TEST(PhotoViewTest, WhereNoPartFitsItIsTheMiddle) {
  PhotoView view;
  view.random = true;
  const PhotoCrop flat = DrawCrop(view, {10, 1000}, 1);
  EXPECT_EQ(flat.rows, (Range{0, 10}));
  EXPECT_EQ(flat.columns, (Range{494, 507}));
  const PhotoCrop tall = DrawCrop(view, {1000, 10}, 1);
  EXPECT_EQ(tall.rows, (Range{494, 507}));
  EXPECT_EQ(tall.columns, (Range{0, 10}));
  const PhotoCrop one = DrawCrop(view, {1, 1}, 1);
  EXPECT_EQ(one.rows, (Range{0, 1}));
  EXPECT_EQ(one.columns, (Range{0, 1}));
}

TEST(PhotoViewTest, HalfAreMirrored) {
  PhotoView view;
  view.height = view.width = 8;
  view.random = true;
  const RgbImage image = Places(200, 200);
  int mirrored = 0;
  for (int position = 0; position < 400; ++position) {
    const std::vector<uint8_t> seen = Shown(view, image, position);
    const bool falls = seen[1] > seen[3 * 7 + 1];  // columns, from left to right
    mirrored += falls;
    PhotoView plain = view;
    plain.flip = false;
    const std::vector<uint8_t> straight = Shown(plain, image, position);
    for (int x = 0; x < 8; ++x) EXPECT_EQ(straight[3 * x + 1], seen[3 * (falls ? 7 - x : x) + 1]);
  }
  EXPECT_NEAR(mirrored, 200, 40);
}

TEST(PhotoViewTest, AViewIsAFunctionOfSeedAndPosition) {
  PhotoView view;
  view.height = 12, view.width = 16;
  view.random = true;
  view.brightness = view.contrast = view.saturation = 0.4;
  const RgbImage image = Places(90, 70);
  PhotoView other = view;
  other.seed = 2;
  EXPECT_EQ(Shown(view, image, 5), Shown(view, image, 5));
  EXPECT_NE(Shown(view, image, 5), Shown(view, image, 6));
  EXPECT_NE(Shown(view, image, 5), Shown(other, image, 5));
  view.random = other.random = false;
  EXPECT_EQ(Shown(view, image, 5), Shown(other, image, 6));
}

// The shorter side becomes 256 and the middle 224 are seen, and the same share of other sizes.
TEST(PhotoViewTest, ToEvaluateTheMiddleIsSeen) {
  const PhotoView view;
  const std::vector<uint8_t> seen = Shown(view, Places(256, 300), 9);
  for (int y = 0; y < 224; ++y) {
    for (int x = 0; x < 224; ++x) {
      ASSERT_EQ(seen[3 * (224 * y + x)], 16 + y);
      ASSERT_EQ(seen[3 * (224 * y + x) + 1], (38 + x) % 256);
    }
  }
  PhotoView small;
  small.height = small.width = 28;
  const std::vector<uint8_t> half = Shown(small, Places(64, 128), 9);
  EXPECT_EQ(half[0], 5);   // rows 4 and 5, and a little of 3 and 6
  EXPECT_EQ(half[1], 37);  // columns 36 and 37
  EXPECT_EQ(half[3 + 1], 39);
  small.height = 56;
  EXPECT_EQ(Shown(small, Places(3, 2), 9).size(), 3u * 56 * 28);
}

// With one color everywhere each change has a simple formula.
TEST(PhotoViewTest, ColorsChangeWithinTheirBounds) {
  const RgbImage image = {{4, 4}, [] {
                            std::vector<uint8_t> pixels;
                            for (int i = 0; i < 16; ++i)
                              pixels.insert(pixels.end(), {200, 100, 40});
                            return pixels;
                          }()};
  const double gray = 0.299 * 200 + 0.587 * 100 + 0.114 * 40;
  PhotoView view;
  view.height = view.width = 2;
  view.random = true;
  int least = 255, most = 0;
  for (int position = 0; position < 300; ++position) {
    view.brightness = 0.5, view.contrast = view.saturation = 0;
    const std::vector<uint8_t> bright = Shown(view, image, position);
    EXPECT_NEAR(bright[0], 2 * bright[1], 2 + (bright[0] == 255 ? 60 : 0));
    least = std::min<int>(least, bright[1]), most = std::max<int>(most, bright[1]);
    // Around the mean gray, and around the pixel's own, which are the same of one color.
    view.brightness = 0, view.contrast = 0.5;
    const std::vector<uint8_t> contrast = Shown(view, image, position);
    const double factor = (contrast[1] - gray) / (100 - gray);
    EXPECT_NEAR(contrast[2], gray + factor * (40 - gray), 5) << position;
    view.contrast = 0, view.saturation = 0.5;
    const std::vector<uint8_t> saturated = Shown(view, image, position);
    EXPECT_NEAR(0.299 * saturated[0] + 0.587 * saturated[1] + 0.114 * saturated[2], gray, 3);
  }
  EXPECT_NEAR(least, 50, 2);
  EXPECT_NEAR(most, 150, 2);
}

// Contrast is around the mean of the picture, saturation around each pixel.
TEST(PhotoViewTest, ContrastIsOfThePictureAndSaturationOfThePixel) {
  RgbImage image = {{1, 2}, {50, 50, 50, 150, 150, 150}};
  PhotoView view;
  view.height = 1, view.width = 2;
  view.random = true, view.flip = false;
  view.least_area = 1, view.least_ratio = view.most_ratio = 2;
  view.saturation = 0.9;
  for (int position = 0; position < 50; ++position) {
    EXPECT_THAT(Shown(view, image, position), ::testing::ElementsAre(50, 50, 50, 150, 150, 150));
  }
  view.saturation = 0, view.contrast = 0.9;
  int other = 0;
  for (int position = 0; position < 50; ++position) {
    const std::vector<uint8_t> seen = Shown(view, image, position);
    EXPECT_NEAR(seen[0] + seen[3], 200, 1);
    other += seen[0] != 50;
  }
  EXPECT_GT(other, 40);
}

}  // namespace
}  // namespace sluice
