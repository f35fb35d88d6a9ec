#include "bench/gpt_batch.h"

#include "framework/tensor/random.h"

namespace sluice {

GptBatch::GptBatch(const GptConfig& config)
    : tokens_(DType::kI32, {config.batch, config.sequence_length}),
      labels_(DType::kI32, tokens_.shape) {
  for (int64_t i = 0; i < tokens_.shape.NumElements(); ++i) {
    const auto words = Philox(/*seed=*/1, /*key=*/0, /*step=*/0, i);
    tokens_.data<int32_t>()[i] = static_cast<int32_t>(words[0] % config.vocabulary);
    labels_.data<int32_t>()[i] = static_cast<int32_t>(words[1] % config.vocabulary);
  }
  *rate_.data<float>() = 3e-4f;
}

Feeds GptBatch::StepFeeds(int64_t step) {
  *step_.data<int32_t>() = static_cast<int32_t>(step);
  return {{"tokens", &tokens_}, {"labels", &labels_}, {"learning_rate", &rate_}, {"step", &step_}};
}

}  // namespace sluice
