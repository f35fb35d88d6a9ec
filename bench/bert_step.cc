// Times steps of pre-training a BERT on constant samples without padding: AdamW, no dropout.

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "bench/step_batches.h"
#include "bench/step_models.h"
#include "bench/step_timing.h"
#include "framework/base/status.h"
#include "framework/nn/model_size.h"
#include "models/bert/bert.h"

ABSL_FLAG(std::string, size, "base", "small, base or large: a preset of //models/bert:train");
ABSL_FLAG(int64_t, batch, 8, "samples of each device of axis data");

namespace sluice {
namespace {

absl::StatusOr<TimedModel> Model(const StepSetting& setting) {
  TimedModel model;
  model.size = absl::StrCat("bert_", absl::GetFlag(FLAGS_size));
  ASSIGN_OR_RETURN(BertConfig config, BertOfStep(absl::GetFlag(FLAGS_size)));
  config.batch = absl::GetFlag(FLAGS_batch) * setting.mesh.AxisSize("data");
  config.precision = setting.precision;
  RETURN_IF_ERROR(CheckBert(config, /*stages=*/1));
  Graph loss;
  RETURN_IF_ERROR(BuildBertLoss(config, &loss));
  model.SetSize(SizeOfModel(loss));
  model.units_per_step = static_cast<double>(config.batch * config.sequence_length);
  model.build = [config](Graph* graph) {
    return BuildBertTrain(config, OptimizerOptions(), graph);
  };
  model.feeds = BertFeeds(config);
  return model;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunStepBenchmark({"bert_step",
                                   "Times steps of pre-training a BERT",
                                   "tokens",
                                   {{"size", "NAME", ""}, {"batch", "N", ""}},
                                   sluice::Model},
                                  argc, argv);
}
