// Times steps of the end of a face network, where there are many classes: a linear layer over
// features that are drawn once, and a softmax with ArcFace's margin.

#include <memory>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "bench/step_models.h"
#include "bench/step_timing.h"
#include "framework/base/status.h"
#include "framework/nn/model_size.h"
#include "framework/tensor/array.h"
#include "framework/tensor/random.h"
#include "models/insightface/insightface.h"

ABSL_FLAG(int64_t, classes, 100000, "classes");
ABSL_FLAG(int64_t, batch, 128, "pictures of each device of axes data and model");

namespace sluice {
namespace {

// One batch, drawn once.
class FeatureBatch {
 public:
  explicit FeatureBatch(const FaceConfig& c)
      : features_(DType::kF32, {c.batch, c.embedding}), labels_(DType::kI32, {c.batch}) {
    for (int64_t i = 0; i < c.batch * c.embedding; ++i) {
      const auto words = Philox(/*seed=*/1, /*key=*/0, /*step=*/0, i);
      features_.data<float>()[i] = static_cast<float>(words[0]) * 0x1p-31f - 1;
    }
    for (int64_t i = 0; i < c.batch; ++i) {
      labels_.data<int32_t>()[i] = static_cast<int32_t>(i * 7919 % c.classes);
    }
    *rate_.data<float>() = 1e-3f;
  }

  Feeds StepFeeds(int64_t step) {
    *step_.data<int32_t>() = static_cast<int32_t>(step);
    return {{"features", &features_},
            {"labels", &labels_},
            {"learning_rate", &rate_},
            {"step", &step_}};
  }

 private:
  HostTensor features_, labels_, rate_{DType::kF32, {}}, step_{DType::kI32, {}};
};

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
  model.feeds = [batch = std::make_shared<FeatureBatch>(config)](int64_t step) {
    return batch->StepFeeds(step);
  };
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
