// Logistic regression on categorical values, one weight a value: what a click model should beat.
// One thread.
#ifndef SLUICE_FRAMEWORK_DATA_LOGISTIC_REGRESSION_H_
#define SLUICE_FRAMEWORK_DATA_LOGISTIC_REGRESSION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/data/tabular.h"

namespace sluice {

// The logits of held-out samples, from the first `features` of a field of ids, which are below
// `rows`. Learned by AdaGrad, sample by sample, in two passes over the training part, but of 2^24
// samples at most, as more take long and change little; always the same.
absl::StatusOr<std::vector<float>> LogisticRegressionLogits(const Tabular& training,
                                                            const Tabular& held_out, int field,
                                                            int64_t features, int64_t rows,
                                                            const Stop& stop = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_LOGISTIC_REGRESSION_H_
