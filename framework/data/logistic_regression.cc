#include "framework/data/logistic_regression.h"

#include <cmath>

#include "framework/data/sample_order.h"

namespace sluice {
namespace {

constexpr int64_t kPasses = 2;
constexpr double kRate = 0.03;

class Weights {
 public:
  Weights(int64_t rows, int field, int64_t features)
      : weights_(rows), squares_(rows, 1e-6), field_(field), features_(features) {}

  double LogitOf(const Tabular& data, int64_t sample) const {
    double logit = bias_;
    for (const int32_t id : data.ids(field_, sample).first(features_)) logit += weights_[id];
    return logit;
  }
  void Learn(const Tabular& data, int64_t sample) {
    const double logit = LogitOf(data, sample);
    const double gradient = 1 / (1 + std::exp(-logit)) - data.labels()[sample];
    const auto step = [gradient](double* weight, double* squares) {
      *squares += gradient * gradient;
      *weight -= kRate * gradient / std::sqrt(*squares);
    };
    step(&bias_, &bias_squares_);
    for (const int32_t id : data.ids(field_, sample).first(features_)) {
      step(&weights_[id], &squares_[id]);
    }
  }

 private:
  std::vector<double> weights_, squares_;
  double bias_ = 0, bias_squares_ = 1e-6;
  const int field_;
  const int64_t features_;
};

int64_t RowsIn(const Tabular& data, int field) {
  int32_t most = -1;
  for (int64_t i = 0; i < data.num_samples(); ++i) {
    for (const int32_t id : data.ids(field, i)) most = std::max(most, id);
  }
  return most + 1;
}

}  // namespace

std::vector<float> LogisticRegressionLogits(const Tabular& training, const Tabular& held_out,
                                            int field, int64_t features) {
  Weights weights(std::max(RowsIn(training, field), RowsIn(held_out, field)), field, features);
  const SampleOrder order = {SampleOrder::kEpochs, /*seed=*/1};
  const int64_t samples = training.num_samples();
  for (int64_t i = 0; i < kPasses * samples; ++i) {
    weights.Learn(training, SampleAt(order, i, samples));
  }
  std::vector<float> logits;
  for (int64_t i = 0; i < held_out.num_samples(); ++i) {
    logits.push_back(static_cast<float>(weights.LogitOf(held_out, i)));
  }
  return logits;
}

}  // namespace sluice
