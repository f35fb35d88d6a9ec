#include "bench/click_batches.h"

#include "framework/base/status.h"
#include "models/wide_and_deep/click_data.h"

namespace sluice {
namespace {

constexpr int64_t kBatches = 8;

}  // namespace

absl::StatusOr<std::shared_ptr<ClickBatches>> ClickBatches::Draw(const WideAndDeepConfig& config) {
  std::shared_ptr<ClickBatches> drawn(new ClickBatches());
  const std::unique_ptr<Dataset> data = DrawnClicks(config, kBatches * config.batch, /*seed=*/1);
  const SampleOrder order = {SampleOrder::kSpread, /*seed=*/0, kBatches * config.batch};
  for (int64_t i = 0; i < kBatches; ++i) {
    drawn->batches_.emplace_back(*data, config.batch);
    RETURN_IF_ERROR(ReadBatch(*data, order, i * config.batch, &drawn->batches_.back()));
  }
  *drawn->rate_.data<float>() = 1e-3f;
  return drawn;
}

Feeds ClickBatches::StepFeeds(int64_t step) {
  *step_.data<int32_t>() = static_cast<int32_t>(step);
  const Batch& batch = batches_[step % kBatches];
  Feeds feeds = {{"learning_rate", &rate_}, {"step", &step_}};
  for (size_t i = 0; i < batch.names.size(); ++i) {
    feeds.emplace_back(batch.names[i], &batch.tensors[i]);
  }
  return feeds;
}

}  // namespace sluice
