#include "framework/data/resample.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/tensor/random.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

RgbImage Noise(int64_t height, int64_t width) {
  RgbImage image = {{height, width}, std::vector<uint8_t>(3 * height * width)};
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<uint8_t>(RandomWord(1, 2, 3, static_cast<int64_t>(i)));
  }
  return image;
}

// The share that a pixel has of one of the result: how much of a triangle around that one's middle
// it holds.
double Share(int64_t at, int64_t i, int64_t from, int64_t whole) {
  const double scale = static_cast<double>(from) / static_cast<double>(whole);
  const double reach = std::max(1.0, scale);
  const auto weight = [&](int64_t p) {
    const double apart = static_cast<double>(p) + 0.5 - (static_cast<double>(i) + 0.5) * scale;
    return std::max(0.0, reach - std::abs(apart));
  };
  double sum = 0;
  for (int64_t p = 0; p < from; ++p) sum += weight(p);
  return weight(at) / sum;
}

double Expected(const RgbImage& image, const ResampledSide& rows, const ResampledSide& columns,
                int64_t y, int64_t x, int64_t c) {
  double sum = 0;
  for (int64_t i = 0; i < rows.from.size(); ++i) {
    const double share = Share(i, rows.kept.begin + y, rows.from.size(), rows.whole);
    if (share == 0) continue;
    for (int64_t j = 0; j < columns.from.size(); ++j) {
      const int64_t at = (rows.from.begin + i) * image.size.width + columns.from.begin + j;
      sum += share * Share(j, columns.kept.begin + x, columns.from.size(), columns.whole) *
             image.pixels[3 * at + c];
    }
  }
  return sum;
}

// Larger, smaller, both, of a part, and a part of the result; one Resampler for all.
TEST(ResamplerTest, GivesTheSharesOfATriangle) {
  const RgbImage image = Noise(31, 23);
  Resampler resampler;
  const struct {
    ResampledSide rows, columns;
  } cases[] = {{{{0, 31}, 7, {0, 7}}, {{0, 23}, 11, {0, 11}}},
               {{{0, 31}, 62, {0, 62}}, {{0, 23}, 5, {0, 5}}},
               {{{4, 17}, 16, {0, 16}}, {{20, 23}, 16, {0, 16}}},
               {{{30, 31}, 4, {0, 4}}, {{0, 23}, 1, {0, 1}}},
               {{{0, 31}, 20, {7, 15}}, {{0, 23}, 26, {3, 4}}}};
  for (const auto& [rows, columns] : cases) {
    const std::vector<float>& got = resampler.Run(image, rows, columns);
    ASSERT_EQ(got.size(), 3 * rows.kept.size() * columns.kept.size());
    size_t at = 0;
    for (int64_t y = 0; y < rows.kept.size(); ++y) {
      for (int64_t x = 0; x < columns.kept.size(); ++x) {
        for (int64_t c = 0; c < 3; ++c, ++at) {
          ASSERT_NEAR(got[at], Expected(image, rows, columns, y, x, c), 1e-3) << y << " " << x;
        }
      }
    }
  }
}

TEST(ResamplerTest, APictureOfItsOwnSizeIsItself) {
  const RgbImage image = Noise(12, 9);
  Resampler resampler;
  const std::vector<float>& got = resampler.Run(image, {{0, 12}, 12, {0, 12}}, {{0, 9}, 9, {0, 9}});
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], image.pixels[i]);
}

// PIL's resize with BILINEAR, of a row of eight to so many; it rounds twice.
TEST(ResamplerTest, GivesWhatPilGives) {
  RgbImage row = {{1, 8}, {}};
  for (const int value : {0, 10, 200, 255, 30, 90, 90, 7}) {
    row.pixels.insert(row.pixels.end(), 3, static_cast<uint8_t>(value));
  }
  const std::vector<std::vector<int>> by_pil = {
      {33, 176, 88, 54}, {71, 139, 61}, {0, 5, 42, 168, 228, 217, 68, 60, 90, 90, 49, 7}};
  Resampler resampler;
  for (const std::vector<int>& expected : by_pil) {
    const auto width = static_cast<int64_t>(expected.size());
    const std::vector<float>& got =
        resampler.Run(row, {{0, 1}, 1, {0, 1}}, {{0, 8}, width, {0, width}});
    for (int64_t x = 0; x < width; ++x) {
      EXPECT_NEAR(got[3 * x], expected[x], 0.6) << "pixel " << x << " of " << width;
    }
  }
}

}  // namespace
}  // namespace sluice
