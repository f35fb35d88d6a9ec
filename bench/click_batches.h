// Batches of drawn clicks for timed steps of Wide & Deep. One thread.
#ifndef SLUICE_BENCH_CLICK_BATCHES_H_
#define SLUICE_BENCH_CLICK_BATCHES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/batch.h"
#include "framework/session/session.h"
#include "framework/tensor/array.h"
#include "models/wide_and_deep/wide_and_deep.h"

namespace sluice {

// A few batches that take turns: the rows of one step are not in the caches of the next.
class ClickBatches {
 public:
  static absl::StatusOr<std::shared_ptr<ClickBatches>> Draw(const WideAndDeepConfig& config);

  // Of a step counted from 1; good until the next call.
  Feeds StepFeeds(int64_t step);

 private:
  ClickBatches() = default;

  std::vector<Batch> batches_;
  HostTensor rate_{DType::kF32, {}}, step_{DType::kI32, {}};
};

}  // namespace sluice

#endif  // SLUICE_BENCH_CLICK_BATCHES_H_
