// Times steps of the end of a face network, where there are many classes: a linear layer over
// features that are drawn once, and a softmax with ArcFace's margin.

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "bench/step_batches.h"
#include "bench/step_models.h"
#include "bench/step_timing.h"
#include "framework/base/status.h"
#include "framework/nn/model_size.h"
#include "models/insightface/insightface.h"

ABSL_FLAG(int64_t, classes, 100000, "classes");
ABSL_FLAG(int64_t, batch, 128, "pictures of each device of axes data and model");

namespace sluice {
namespace {

absl::StatusOr<TimedModel> Model(const StepSetting& setting) {
  FaceConfig config = ArcFaceOfStep(absl::GetFlag(FLAGS_classes));
  config.batch =
      absl::GetFlag(FLAGS_batch) * setting.mesh.AxisSize("data") * setting.mesh.AxisSize("model");
  config.precision = setting.precision;
  Graph loss;
  RETURN_IF_ERROR(BuildArcFaceLoss(config, &loss));
  TimedModel model;
  model.size = absl::StrCat("classes", config.classes);
  model.SetSize(SizeOfModel(loss));
  model.units_per_step = static_cast<double>(config.batch);
  model.build = [config](Graph* graph) {
    return BuildArcFaceTrain(config, ArcFaceOptimizer(), graph);
  };
  model.feeds = FeatureFeeds(config);
  return model;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunStepBenchmark({"arcface_step",
                                   "Times steps of ArcFace's softmax over many classes",
                                   "samples",
                                   {{"classes", "N", ""}, {"batch", "N", ""}},
                                   sluice::Model},
                                  argc, argv);
}
