#include "framework/data/drawn_images.h"

#include <algorithm>
#include <cmath>

#include "framework/tensor/random.h"

namespace sluice {
namespace {

constexpr double kGrey = 128, kWave = 60, kNoise = 60;
constexpr double kTurn = 6.283185307179586;

// The wave of a class at a place of the picture, in [-1, 1]. Directions are turned by the golden
// section from class to class, so that any number of them differ; lengths take three values.
double WaveAt(int64_t label, double y, double x, int64_t channel) {
  const double angle = kTurn * 0.6180339887498949 * static_cast<double>(label);
  const double waves = 1.5 + static_cast<double>(label % 3);
  const double along = y * std::sin(angle) + x * std::cos(angle);
  return std::sin(kTurn * (waves * along + 0.25 * static_cast<double>(channel)));
}

}  // namespace

LabeledImages DrawImages(int64_t count, const Shape& shape, int64_t classes, uint64_t seed) {
  LabeledImages images;
  images.shape = shape;
  images.pixels.reserve(count * shape.NumElements());
  const int64_t key = RandomKey("drawn image");
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = i % classes;
    images.labels.push_back(static_cast<int32_t>(label));
    for (int64_t at = 0; at < shape.NumElements(); ++at) {
      const int64_t channel = at % shape[2], x = at / shape[2] % shape[1],
                    y = at / shape[2] / shape[1];
      const double wave = WaveAt(label, static_cast<double>(y) / static_cast<double>(shape[0]),
                                 static_cast<double>(x) / static_cast<double>(shape[1]), channel);
      const double noise = Philox(seed, key, i, at)[0] * 0x1p-32 * 2 - 1;
      const double value = kGrey + kWave * wave + kNoise * noise;
      images.pixels.push_back(static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)));
    }
  }
  return images;
}

}  // namespace sluice
