// A data set that testing/models.h's MLP learns: points of which the label is the largest of some
// coordinates. For tests; any thread.
#ifndef SLUICE_FRAMEWORK_TESTING_POINTS_H_
#define SLUICE_FRAMEWORK_TESTING_POINTS_H_

#include <algorithm>
#include <vector>

#include "framework/data/dataset.h"
#include "framework/tensor/random.h"

namespace sluice {

constexpr int64_t kPointWidth = 6;

class Points : public Dataset {
 public:
  int64_t num_samples() const override { return 1000; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return {1000, 1}; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t, const Box&,
                    std::byte* to) const override {
    for (size_t i = 0; i < samples.size(); ++i) {
      float point[kPointWidth];
      for (int64_t d = 0; d < kPointWidth; ++d) point[d] = Coordinate(samples[i], d);
      if (field == 0) {
        std::copy_n(point, kPointWidth, reinterpret_cast<float*>(to) + i * kPointWidth);
      } else {
        reinterpret_cast<int32_t*>(to)[i] =
            static_cast<int32_t>(std::max_element(point, point + kPointWidth) - point);
      }
    }
    return absl::OkStatus();
  }

 private:
  static float Coordinate(int64_t sample, int64_t d) {
    return static_cast<float>(RandomWord(1, 2, 3, sample * kPointWidth + d) % 1000) / 500 - 1;
  }
  const std::vector<SampleField> fields_ = {{"x", DType::kF32, {kPointWidth}},
                                            {"label", DType::kI32, {}}};
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_POINTS_H_
