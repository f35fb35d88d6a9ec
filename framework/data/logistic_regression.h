// Logistic regression on categorical values, one weight a value: what a click model should beat.
// Pure.
#ifndef SLUICE_FRAMEWORK_DATA_LOGISTIC_REGRESSION_H_
#define SLUICE_FRAMEWORK_DATA_LOGISTIC_REGRESSION_H_

#include <cstdint>
#include <vector>

#include "framework/data/tabular.h"

namespace sluice {

// The logits of held-out samples, from the first `features` of a field of ids. Learned by AdaGrad,
// sample by sample, in two passes over the training part; always the same.
std::vector<float> LogisticRegressionLogits(const Tabular& training, const Tabular& held_out,
                                            int field, int64_t features);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_LOGISTIC_REGRESSION_H_
