#include "models/resnet/reference_run.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/drawn_images.h"
#include "framework/data/image_dataset.h"
#include "models/resnet/resnet.h"

namespace sluice {
namespace {

// With this order of samples no input of a ReLU is zero but for rounding in the twenty steps, which
// would let all of a gradient through in one framework and nothing in the other: of six orders one
// in three had such an input, and losses that differed by a hundredth at the end.
constexpr uint64_t kDataSeed = 2;

// All that a ResNet-50 has: bottlenecks, the stem with stride and pool, shortcuts of both kinds.
ResNetConfig Config() {
  ResNetConfig config;
  config.width = 8;
  config.classes = 10;
  config.image_size = 32;
  config.batch = 16;
  config.label_smoothing = 0.1;
  return config;
}

OptimizerOptions Optimizer() {
  OptimizerOptions options;
  options.kind = OptimizerOptions::kSgd;
  options.momentum = 0.9;
  options.nesterov = true;
  options.weight_decay = 5e-4;
  return options;
}

std::map<std::string, std::string> Options() {
  const ResNetConfig c = Config();
  const OptimizerOptions o = Optimizer();
  return {{"depth", absl::StrCat(c.depth)},
          {"width", absl::StrCat(c.width)},
          {"classes", absl::StrCat(c.classes)},
          {"batch", absl::StrCat(c.batch)},
          {"label_smoothing", absl::StrCat(c.label_smoothing)},
          {"momentum", absl::StrCat(o.momentum)},
          {"weight_decay", absl::StrCat(o.weight_decay)}};
}

absl::StatusOr<std::shared_ptr<const Dataset>> DrawnDataset(int64_t count, uint64_t seed) {
  const ResNetConfig c = Config();
  ASSIGN_OR_RETURN(ImageDataset images,
                   ImageDataset::Create("drawn images",
                                        DrawImages(count, {c.image_size, c.image_size, c.channels},
                                                   c.classes, seed)));
  return std::make_shared<const ImageDataset>(std::move(images));
}

ReferenceEvaluation HeldOut() {
  ReferenceEvaluation held_out;
  held_out.name = "held_out";
  held_out.build = [](int64_t batch, Graph* graph) {
    ResNetConfig config = Config();
    config.batch = batch;
    return BuildResNetEval(config, graph);
  };
  held_out.open_data = [] { return DrawnDataset(/*count=*/29, /*seed=*/3); };
  held_out.metrics = {{"loss", ""}, {"accuracy", ""}, {"top5", ""}};
  return held_out;
}

}  // namespace

ReferenceRunCase ResNetReferenceRun() {
  ReferenceRunCase resnet;
  resnet.build = [](Graph* graph) { return BuildResNetTrain(Config(), Optimizer(), graph); };
  resnet.open_data = [] { return DrawnDataset(/*count=*/200, /*seed=*/2); };
  resnet.order = {SampleOrder::kRandom, kDataSeed};
  resnet.batch = Config().batch;
  resnet.schedule = {.peak = 0.01, .warmup = 10, .steps = kReferenceRunSteps, .floor_fraction = 1};
  resnet.options = Options();
  resnet.evaluations = {HeldOut()};
  return resnet;
}

}  // namespace sluice
