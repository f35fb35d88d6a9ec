// Times steps of training a ResNet on constant pictures of 224 x 224: SGD with momentum.

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "bench/step_batches.h"
#include "bench/step_models.h"
#include "bench/step_timing.h"
#include "framework/base/status.h"
#include "framework/nn/model_size.h"
#include "models/resnet/resnet.h"

ABSL_FLAG(int64_t, depth, 50, "layers: 18, 34, 50 or 101");
ABSL_FLAG(int64_t, batch, 8, "pictures of each device of axis data");

namespace sluice {
namespace {

absl::StatusOr<TimedModel> Model(const StepSetting& setting) {
  ResNetConfig config = ResNetOfStep(absl::GetFlag(FLAGS_depth));
  config.batch = absl::GetFlag(FLAGS_batch) * setting.mesh.AxisSize("data");
  config.precision = setting.precision;
  RETURN_IF_ERROR(CheckResNet(config, setting.mesh, /*micro_batches=*/1));
  Graph loss;
  RETURN_IF_ERROR(BuildResNetLoss(config, &loss));
  TimedModel model;
  model.size = absl::StrCat("resnet", config.depth);
  model.SetSize(SizeOfModel(loss));
  model.units_per_step = static_cast<double>(config.batch);
  model.build = [config](Graph* graph) {
    return BuildResNetTrain(config, ResNetOptimizer(), graph);
  };
  model.feeds = PictureFeeds(config);
  return model;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunStepBenchmark({"resnet_step",
                                   "Times steps of training a ResNet on pictures of 224 x 224",
                                   "images",
                                   {{"depth", "N", ""}, {"batch", "N", ""}},
                                   sluice::Model},
                                  argc, argv);
}
