// Times steps of training a Wide & Deep model on drawn samples.

#include <memory>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "bench/click_batches.h"
#include "bench/step_models.h"
#include "bench/step_timing.h"
#include "framework/base/status.h"
#include "framework/nn/model_size.h"
#include "models/wide_and_deep/wide_and_deep.h"

ABSL_FLAG(int64_t, vocabulary, 1000000, "rows of a table, for all features");
ABSL_FLAG(int64_t, width, 16, "elements of an embedding");
ABSL_FLAG(int64_t, batch, 4096, "samples of each device of axes data and model");
ABSL_FLAG(bool, split_columns, false, "split the deep table by columns instead of rows");
ABSL_FLAG(double, clip, 0, "largest norm of the gradient; 0 never clips");

namespace sluice {
namespace {

absl::StatusOr<TimedModel> Model(const StepSetting& setting) {
  WideAndDeepConfig config = WideAndDeepOfStep(absl::GetFlag(FLAGS_vocabulary));
  config.tables[0].width = absl::GetFlag(FLAGS_width);
  config.split_columns = absl::GetFlag(FLAGS_split_columns);
  config.batch =
      absl::GetFlag(FLAGS_batch) * setting.mesh.AxisSize("data") * setting.mesh.AxisSize("model");
  config.precision = setting.precision;
  OptimizerOptions optimizer = WideAndDeepOptimizer();
  optimizer.clip = absl::GetFlag(FLAGS_clip);
  Graph loss;
  RETURN_IF_ERROR(BuildWideAndDeepLoss(config, &loss));
  TimedModel model;
  model.size = absl::StrCat("vocabulary", config.wide.rows);
  model.SetSize(SizeOfModel(loss));
  model.units_per_step = static_cast<double>(config.batch);
  model.build = [config, optimizer](Graph* graph) {
    return BuildWideAndDeepTrain(config, optimizer, graph);
  };
  ASSIGN_OR_RETURN(const std::shared_ptr<ClickBatches> batches, ClickBatches::Draw(config));
  model.feeds = [batches](int64_t step) { return batches->StepFeeds(step); };
  return model;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunStepBenchmark({"wide_and_deep_step",
                                   "Times steps of training a Wide & Deep model on drawn samples",
                                   "samples",
                                   {{"vocabulary", "N", ""},
                                    {"width", "N", ""},
                                    {"batch", "N", ""},
                                    {"split_columns", "", ""},
                                    {"clip", "X", ""}},
                                   sluice::Model},
                                  argc, argv);
}
