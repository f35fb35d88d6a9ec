// Times steps of GPT training: AdamW, no dropout, no clipping.

#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "bench/gpt_batch.h"
#include "bench/gpt_sizes.h"
#include "bench/step_timing.h"
#include "framework/base/status.h"
#include "models/gpt/gpt.h"

ABSL_FLAG(std::string, size, "tiny", "tiny, default or small");

namespace sluice {
namespace {

absl::StatusOr<TimedModel> Model(const StepSetting& setting) {
  TimedModel model;
  model.size = absl::GetFlag(FLAGS_size);
  ASSIGN_OR_RETURN(GptConfig config, GptOfSize(model.size));
  config.batch *= setting.mesh.AxisSize("data");
  config.precision = setting.precision;
  model.parameters = GptParameters(config);
  model.units_per_step = static_cast<double>(config.batch * config.sequence_length);
  model.flops_per_step = GptFlopsPerToken(config) * model.units_per_step;
  model.build = [config](Graph* graph) { return BuildGptTrain(config, OptimizerOptions(), graph); };
  model.feeds = [batch = std::make_shared<GptBatch>(config)](int64_t step) {
    return batch->StepFeeds(step);
  };
  return model;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunStepBenchmark(
      {"gpt_step", "Times steps of GPT training", "tokens", {{"size", "NAME", ""}}, sluice::Model},
      argc, argv);
}
