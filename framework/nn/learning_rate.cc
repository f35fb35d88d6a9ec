#include "framework/nn/learning_rate.h"

#include <algorithm>
#include <cmath>

namespace sluice {

double LearningRate(const LearningRateSchedule& schedule, int64_t step) {
  if (step < schedule.warmup) {
    return schedule.peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup);
  }
  const int64_t last = std::max<int64_t>(schedule.steps - 1, schedule.warmup + 1);
  const double done = std::min(1.0, static_cast<double>(step - schedule.warmup) /
                                        static_cast<double>(last - schedule.warmup));
  const double floor = schedule.floor_fraction * schedule.peak;
  return floor + (schedule.peak - floor) * 0.5 * (1 + std::cos(M_PI * done));
}

}  // namespace sluice
