#include "framework/data/photo_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "framework/tensor/random.h"

namespace sluice {
namespace {

// Draws are counted by what they are for. That count, the name and what each word means are part of
// what runs are.
constexpr int64_t kTries = 10;  // of a crop: counts 0 to 9
constexpr int64_t kFlipAndFactors = kTries, kOrder = kTries + 1;

std::array<double, 4> Draw(const PhotoView& view, int64_t position, int64_t count) {
  static const int64_t key = RandomKey("photo view");
  std::array<double, 4> draws;
  const std::array<uint32_t, 4> words = Philox(view.seed, key, /*step=*/count, position);
  for (int i = 0; i < 4; ++i) draws[i] = words[i] * 0x1p-32;
  return draws;
}

double Between(double low, double high, double draw) { return low + (high - low) * draw; }

Range Middle(int64_t whole, int64_t size) {
  // torchvision rounds to even, and so does this.
  const auto begin = static_cast<int64_t>(std::nearbyint(static_cast<double>(whole - size) / 2));
  return {begin, begin + size};
}

// Where no part of those shapes lies in the picture: as much of its middle as has the nearest
// ratio.
PhotoCrop MiddleOfRatio(const PhotoView& view, const ImageSize& size) {
  const double height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  const double ratio = std::clamp(width / height, view.least_ratio, view.most_ratio);
  const auto least = [](double side) {
    return std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(side)));
  };
  const int64_t rows = std::min(size.height, least(width / ratio));
  const int64_t columns = std::min(size.width, least(height * ratio));
  return {Middle(size.height, rows), Middle(size.width, columns)};
}

// How gray a pixel looks.
float GrayOf(const float* pixel) {
  return 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2];
}

// pixel = factor * pixel + (1 - factor) * other(pixel), within 0 to 255.
template <typename F>
void Blend(float factor, std::vector<float>* pixels, F&& other) {
  for (size_t i = 0; i < pixels->size(); i += 3) {
    float* const pixel = pixels->data() + i;
    const float rest = (1 - factor) * other(pixel);
    for (int c = 0; c < 3; ++c) pixel[c] = std::clamp(factor * pixel[c] + rest, 0.0f, 255.0f);
  }
}

void ChangeColors(const PhotoView& view, int64_t position, const std::array<double, 4>& draws,
                  std::vector<float>* pixels) {
  const auto factor = [](double spread, double draw) {
    return static_cast<float>(Between(std::max(0.0, 1 - spread), 1 + spread, draw));
  };
  std::array<int, 3> order = {0, 1, 2};
  const std::array<double, 4> places = Draw(view, position, kOrder);
  std::swap(order[0], order[static_cast<int>(places[0] * 3)]);
  std::swap(order[1], order[1 + static_cast<int>(places[1] * 2)]);
  for (const int change : order) {
    if (change == 0 && view.brightness > 0) {
      Blend(factor(view.brightness, draws[1]), pixels, [](const float*) { return 0.0f; });
    } else if (change == 1 && view.contrast > 0) {
      double sum = 0;
      for (size_t i = 0; i < pixels->size(); i += 3) sum += GrayOf(pixels->data() + i);
      const auto mean = static_cast<float>(3 * sum / static_cast<double>(pixels->size()));
      Blend(factor(view.contrast, draws[2]), pixels, [mean](const float*) { return mean; });
    } else if (change == 2 && view.saturation > 0) {
      Blend(factor(view.saturation, draws[3]), pixels, GrayOf);
    }
  }
}

// The middle of the picture made as much smaller as keeps a margin of an eighth around what is
// seen: 256 pixels for 224, as is usual.
std::pair<ResampledSide, ResampledSide> MiddleSides(const PhotoView& view, const ImageSize& size) {
  const auto with_margin = [](int64_t side) { return static_cast<double>(side) * 256 / 224; };
  const double scale = std::max(with_margin(view.height) / static_cast<double>(size.height),
                                with_margin(view.width) / static_cast<double>(size.width));
  const auto side = [scale](int64_t from, int64_t seen) {
    // A hair more than none: what is meant to be whole may come out just below.
    const auto whole = static_cast<int64_t>(scale * static_cast<double>(from) + 1e-9);
    return ResampledSide{{0, from}, std::max(whole, seen), Middle(std::max(whole, seen), seen)};
  };
  return {side(size.height, view.height), side(size.width, view.width)};
}

std::pair<ResampledSide, ResampledSide> SidesOf(const PhotoView& view, const ImageSize& size,
                                                int64_t position) {
  if (!view.random) return MiddleSides(view, size);
  const PhotoCrop crop = DrawCrop(view, size, position);
  return {{crop.rows, view.height, {0, view.height}}, {crop.columns, view.width, {0, view.width}}};
}

}  // namespace

PhotoCrop DrawCrop(const PhotoView& view, const ImageSize& size, int64_t position) {
  const double area = static_cast<double>(size.height) * static_cast<double>(size.width);
  for (int64_t attempt = 0; attempt < kTries; ++attempt) {
    const std::array<double, 4> draws = Draw(view, position, attempt);
    const double part = area * Between(view.least_area, view.most_area, draws[0]);
    const double ratio =
        std::exp(Between(std::log(view.least_ratio), std::log(view.most_ratio), draws[1]));
    const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(part * ratio)));
    const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(part / ratio)));
    if (width < 1 || width > size.width || height < 1 || height > size.height) continue;
    const auto top = static_cast<int64_t>(draws[2] * static_cast<double>(size.height - height + 1));
    const auto left = static_cast<int64_t>(draws[3] * static_cast<double>(size.width - width + 1));
    return {{top, top + height}, {left, left + width}};
  }
  return MiddleOfRatio(view, size);
}

void PhotoViewer::Show(const PhotoView& view, const RgbImage& image, int64_t position,
                       uint8_t* to) {
  const auto [rows, columns] = SidesOf(view, image.size, position);
  std::vector<float>& pixels = resampler_.Run(image, rows, columns);
  bool flipped = false;
  if (view.random) {
    const std::array<double, 4> draws = Draw(view, position, kFlipAndFactors);
    flipped = view.flip && draws[0] < 0.5;
    ChangeColors(view, position, draws, &pixels);
  }
  for (int64_t y = 0; y < view.height; ++y) {
    const float* const row = pixels.data() + 3 * y * view.width;
    for (int64_t x = 0; x < view.width; ++x) {
      const float* const pixel = row + 3 * (flipped ? view.width - 1 - x : x);
      for (int c = 0; c < 3; ++c) *to++ = static_cast<uint8_t>(pixel[c] + 0.5f);
    }
  }
}

}  // namespace sluice
