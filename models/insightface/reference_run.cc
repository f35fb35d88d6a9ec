#include "models/insightface/reference_run.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/drawn_images.h"
#include "framework/data/image_dataset.h"
#include "models/insightface/insightface.h"

namespace sluice {
namespace {

// On these batches no input of a PReLU comes so near zero that the two frameworks round it to
// either side; on others one does after some ten steps, and what that makes different grows from
// there.
constexpr uint64_t kDataSeed = 2;

// All that an IR-ResNet has, with ArcFace's margin.
FaceConfig Config() {
  FaceConfig config;
  config.network = "ir18";
  config.width = 8;
  config.embedding = 32;
  config.classes = 50;
  config.image_size = 16;
  config.batch = 32;
  config.margin = {.scale = 16, .angular = 0.5};
  return config;
}

OptimizerOptions Optimizer() {
  OptimizerOptions options;
  options.kind = OptimizerOptions::kSgd;
  options.momentum = 0.9;
  options.weight_decay = 5e-4;
  return options;
}

std::map<std::string, std::string> Options() {
  const FaceConfig c = Config();
  const OptimizerOptions o = Optimizer();
  return {{"network", c.network},
          {"width", absl::StrCat(c.width)},
          {"classes", absl::StrCat(c.classes)},
          {"batch", absl::StrCat(c.batch)},
          {"margin", absl::StrCat(c.margin.angular)},
          {"margin_scale", absl::StrCat(c.margin.scale)},
          {"momentum", absl::StrCat(o.momentum)},
          {"weight_decay", absl::StrCat(o.weight_decay)}};
}

}  // namespace

ReferenceRunCase FaceReferenceRun() {
  ReferenceRunCase face;
  face.build = [](Graph* graph) { return BuildFaceTrain(Config(), Optimizer(), graph); };
  face.open_data = []() -> absl::StatusOr<std::shared_ptr<const Dataset>> {
    const FaceConfig c = Config();
    ASSIGN_OR_RETURN(ImageDataset images,
                     ImageDataset::Create("drawn images",
                                          DrawImages(500, {c.image_size, c.image_size, c.channels},
                                                     c.classes, /*seed=*/2)));
    return std::make_shared<const ImageDataset>(std::move(images));
  };
  face.order = {SampleOrder::kRandom, kDataSeed};
  face.batch = Config().batch;
  face.schedule = {.peak = 0.0001, .warmup = 10, .steps = kReferenceRunSteps, .floor_fraction = 1};
  face.options = Options();
  return face;
}

}  // namespace sluice
