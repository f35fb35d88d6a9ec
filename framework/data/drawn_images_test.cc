#include "framework/data/drawn_images.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(DrawnImagesTest, ClassesComeInTurnAndNoiseFollowsTheSeed) {
  const Shape shape = {8, 6, 3};
  const LabeledImages images = DrawImages(7, shape, 3, 1);
  EXPECT_EQ(images.shape, shape);
  EXPECT_EQ(images.labels, (std::vector<int32_t>{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(static_cast<int64_t>(images.pixels.size()), 7 * shape.NumElements());
  EXPECT_EQ(DrawImages(7, shape, 3, 1).pixels, images.pixels);
  EXPECT_NE(DrawImages(7, shape, 3, 2).pixels, images.pixels);
}

// What the mean picture of a class says against the others, beside what noise leaves of it.
TEST(DrawnImagesTest, ClassesCanBeToldApart) {
  constexpr int64_t kClasses = 4, kEach = 50;
  const Shape shape = {12, 12, 1};
  const LabeledImages images = DrawImages(kClasses * kEach, shape, kClasses, 3);
  const int64_t size = shape.NumElements();
  std::vector<std::vector<double>> means(kClasses, std::vector<double>(size));
  for (int64_t i = 0; i < kClasses * kEach; ++i) {
    for (int64_t at = 0; at < size; ++at) {
      means[i % kClasses][at] += static_cast<double>(images.pixels[i * size + at]) / kEach;
    }
  }
  for (int64_t a = 0; a < kClasses; ++a) {
    for (int64_t b = 0; b < a; ++b) {
      double squares = 0;
      for (int64_t at = 0; at < size; ++at) squares += std::pow(means[a][at] - means[b][at], 2);
      EXPECT_GT(std::sqrt(squares / static_cast<double>(size)), 30) << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace sluice
