#include "framework/data/resample.h"

#include <algorithm>
#include <cmath>

namespace sluice {

void Resampler::FindTaps(const ResampledSide& side, std::vector<Taps>* taps,
                         std::vector<float>* weights) {
  taps->clear();
  weights->clear();
  const double scale = static_cast<double>(side.from.size()) / static_cast<double>(side.whole);
  const double reach = std::max(scale, 1.0);
  for (int64_t i = side.kept.begin; i < side.kept.end; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    // Half a pixel is added because a pixel lies where its middle lies.
    const int64_t begin = std::max<int64_t>(0, static_cast<int64_t>(center - reach + 0.5));
    const int64_t end =
        std::min(side.from.size(), static_cast<int64_t>(std::floor(center + reach + 0.5)));
    const auto weight_of = [&](int64_t at) {
      return std::max(0.0, 1 - std::abs((static_cast<double>(at) + 0.5 - center) / reach));
    };
    double sum = 0;
    for (int64_t at = begin; at < end; ++at) sum += weight_of(at);
    taps->push_back({side.from.begin + begin, end - begin, static_cast<int64_t>(weights->size())});
    for (int64_t at = begin; at < end; ++at) {
      weights->push_back(static_cast<float>(weight_of(at) / sum));
    }
  }
}

std::vector<float>& Resampler::Run(const RgbImage& image, const ResampledSide& rows,
                                   const ResampledSide& columns) {
  FindTaps(rows, &row_taps_, &row_weights_);
  FindTaps(columns, &column_taps_, &column_weights_);
  result_.resize(3 * row_taps_.size() * column_taps_.size());
  float* to = result_.data();
  // Rows first: their pixels lie side by side, and fewer are left for the slower direction.
  const int64_t first = 3 * columns.from.begin, count = 3 * columns.from.size();
  row_.resize(count);
  for (const Taps& of_row : row_taps_) {
    std::fill(row_.begin(), row_.end(), 0.0f);
    for (int64_t t = 0; t < of_row.count; ++t) {
      const float weight = row_weights_[of_row.weights + t];
      const uint8_t* const from =
          image.pixels.data() + 3 * (of_row.first + t) * image.size.width + first;
      float* const sum = row_.data();
      for (int64_t i = 0; i < count; ++i) sum[i] += weight * static_cast<float>(from[i]);
    }
    for (const Taps& of_column : column_taps_) {
      const float* from = row_.data() + 3 * (of_column.first - columns.from.begin);
      const float* const weights = column_weights_.data() + of_column.weights;
      float red = 0, green = 0, blue = 0;
      for (int64_t t = 0; t < of_column.count; ++t, from += 3) {
        red += weights[t] * from[0];
        green += weights[t] * from[1];
        blue += weights[t] * from[2];
      }
      *to++ = red;
      *to++ = green;
      *to++ = blue;
    }
  }
  return result_;
}

}  // namespace sluice
