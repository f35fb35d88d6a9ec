#include "framework/data/logistic_regression.h"

#include <algorithm>
#include <cmath>

#include "framework/base/status.h"
#include "framework/data/sample_order.h"

namespace sluice {
namespace {

constexpr int64_t kPasses = 2, kMostSamples = int64_t{1} << 24, kAskEvery = 1 << 14;
constexpr double kRate = 0.03;

class Weights {
 public:
  explicit Weights(int64_t rows) : weights_(rows), squares_(rows, 1e-6) {}

  double LogitOf(absl::Span<const int32_t> ids) const {
    double logit = bias_;
    for (const int32_t id : ids) logit += weights_[id];
    return logit;
  }
  void Learn(absl::Span<const int32_t> ids, float label) {
    const double gradient = 1 / (1 + std::exp(-LogitOf(ids))) - label;
    const auto step = [gradient](double* weight, double* squares) {
      *squares += gradient * gradient;
      *weight -= kRate * gradient / std::sqrt(*squares);
    };
    step(&bias_, &bias_squares_);
    for (const int32_t id : ids) step(&weights_[id], &squares_[id]);
  }

 private:
  std::vector<double> weights_, squares_;
  double bias_ = 0, bias_squares_ = 1e-6;
};

}  // namespace

absl::StatusOr<std::vector<float>> LogisticRegressionLogits(const Tabular& training,
                                                            const Tabular& held_out, int field,
                                                            int64_t features, int64_t rows,
                                                            const Stop& stop) {
  Weights weights(rows);
  std::vector<int32_t> ids(features);
  const Box box = {{0, features}};
  const auto read = [&](const Tabular& data, int64_t sample) {
    return data.Fill(field, {sample}, 0, box, reinterpret_cast<std::byte*>(ids.data()));
  };
  const SampleOrder order = {SampleOrder::kEpochs, /*seed=*/1};
  const int label = static_cast<int>(training.fields().size()) - 1;
  const int64_t samples = training.num_samples();
  for (int64_t i = 0; i < std::min(kPasses * samples, kMostSamples); ++i) {
    if (i % kAskEvery == 0) RETURN_IF_ERROR(CheckStop(stop));
    const int64_t sample = SampleAt(order, i, samples);
    float expected = 0;
    RETURN_IF_ERROR(read(training, sample));
    RETURN_IF_ERROR(training.Fill(label, {sample}, 0, {}, reinterpret_cast<std::byte*>(&expected)));
    weights.Learn(ids, expected);
  }
  std::vector<float> logits;
  for (int64_t i = 0; i < held_out.num_samples(); ++i) {
    if (i % kAskEvery == 0) RETURN_IF_ERROR(CheckStop(stop));
    RETURN_IF_ERROR(read(held_out, i));
    logits.push_back(static_cast<float>(weights.LogitOf(ids)));
  }
  return logits;
}

}  // namespace sluice
