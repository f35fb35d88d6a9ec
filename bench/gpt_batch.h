// One batch that a measured GPT trains on again and again: tokens and labels drawn once. One
// thread.
#ifndef SLUICE_BENCH_GPT_BATCH_H_
#define SLUICE_BENCH_GPT_BATCH_H_

#include <cstdint>

#include "framework/session/session.h"
#include "framework/tensor/array.h"
#include "models/gpt/gpt.h"

namespace sluice {

class GptBatch {
 public:
  explicit GptBatch(const GptConfig& config);

  // Of program "train", for a step counted from 1; good until the next call.
  Feeds StepFeeds(int64_t step);

 private:
  HostTensor tokens_, labels_, rate_{DType::kF32, {}}, step_{DType::kI32, {}};
};

}  // namespace sluice

#endif  // SLUICE_BENCH_GPT_BATCH_H_
