// Times steps of training a ResNet on constant pictures of 224 x 224: SGD with momentum.

#include <memory>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "bench/step_models.h"
#include "bench/step_timing.h"
#include "framework/base/status.h"
#include "framework/data/drawn_images.h"
#include "framework/nn/model_size.h"
#include "framework/tensor/array.h"
#include "models/resnet/resnet.h"

ABSL_FLAG(int64_t, depth, 50, "layers: 18, 34, 50 or 101");
ABSL_FLAG(int64_t, batch, 8, "pictures of each device of axis data");

namespace sluice {
namespace {

// One batch, drawn once.
class PictureBatch {
 public:
  explicit PictureBatch(const ResNetConfig& c)
      : images_(DType::kU8, {c.batch, c.image_size, c.image_size, c.channels}),
        labels_(DType::kI32, {c.batch}) {
    const LabeledImages drawn =
        DrawImages(c.batch, {c.image_size, c.image_size, c.channels}, c.classes, /*seed=*/1);
    std::copy_n(reinterpret_cast<const std::byte*>(drawn.pixels.data()), drawn.pixels.size(),
                images_.bytes.begin());
    std::copy(drawn.labels.begin(), drawn.labels.end(), labels_.data<int32_t>());
    *rate_.data<float>() = 1e-3f;
  }

  Feeds StepFeeds(int64_t step) {
    *step_.data<int32_t>() = static_cast<int32_t>(step);
    return {
        {"images", &images_}, {"labels", &labels_}, {"learning_rate", &rate_}, {"step", &step_}};
  }

 private:
  HostTensor images_, labels_, rate_{DType::kF32, {}}, step_{DType::kI32, {}};
};

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
  model.feeds = [batch = std::make_shared<PictureBatch>(config)](int64_t step) {
    return batch->StepFeeds(step);
  };
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
