// The learning rate as a function of the step. Pure.
#ifndef SLUICE_FRAMEWORK_NN_LEARNING_RATE_H_
#define SLUICE_FRAMEWORK_NN_LEARNING_RATE_H_

#include <cstdint>

namespace sluice {

// Linear from peak / warmup in step 0 to `peak` in step warmup - 1, then half a cosine down to
// floor_fraction * peak in step steps - 1 and after it.
struct LearningRateSchedule {
  double peak = 1e-3;
  int64_t warmup = 20;
  int64_t steps = 1000;
  double floor_fraction = 0.1;  // 1: constant after the warm-up
};

double LearningRate(const LearningRateSchedule& schedule, int64_t step);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_NN_LEARNING_RATE_H_
