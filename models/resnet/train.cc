// Trains a ResNet on pictures, on the devices of one machine.

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/nn/model_size.h"
#include "framework/train/app.h"
#include "models/resnet/options.h"
#include "models/resnet/pictures.h"
#include "models/resnet/resnet.h"

namespace sluice {
namespace {

absl::StatusOr<AppModel> Describe(const ResNetConfig& c) {
  Graph loss;
  RETURN_IF_ERROR(BuildResNetLoss(c, &loss));
  const ModelSize size = SizeOfModel(loss);
  AppModel model;
  model.summary =
      absl::StrFormat("%.2fM parameters: ResNet-%d of width %d, %d x %d x %d, %d classes",
                      static_cast<double>(size.parameters) / 1e6, c.depth, c.width, c.image_size,
                      c.image_size, c.channels, c.classes);
  model.throughput = {"images", 1};
  model.flops_per_sample = 3.0 * static_cast<double>(size.flops) / static_cast<double>(c.batch);
  model.metrics = {{"loss", "nats"}, {.name = "accuracy", .larger_is_better = true}};
  if (c.classes > 5) model.metrics.push_back({.name = "top5", .larger_is_better = true});
  return model;
}

absl::Status Build(const AppOptions& options, const ResNetConfig& config,
                   std::vector<std::unique_ptr<AppProgram>>* programs) {
  for (const char* name : {"train", "eval"}) {
    programs->push_back(std::make_unique<AppProgram>());
    programs->back()->name = name;
  }
  // As many as training takes, so that evaluating needs no more memory and fills the pipeline.
  (*programs)[1]->micro_batches = options.session.micro_batches;
  RETURN_IF_ERROR(BuildResNetTrain(config, options.optimizer, &(*programs)[0]->graph));
  return BuildResNetEval(config, &(*programs)[1]->graph);
}

int Main(int argc, char** argv) {
  ResNetOptions resnet;  // as `read` leaves it for the others
  App app;
  app.name = "train";
  app.flags = ResNetFlags();
  app.read = [&resnet](const AppOptions& options) -> absl::StatusOr<AppModel> {
    ASSIGN_OR_RETURN(resnet, ReadResNetFlags(options));
    return Describe(resnet.config);
  };
  app.build = [&resnet](const AppOptions& options, auto* programs) {
    return Build(options, resnet.config, programs);
  };
  app.open_data = [&resnet](const AppOptions& options) {
    PictureOptions pictures = resnet.pictures;
    pictures.stop = options.session.stop;
    return OpenPictures(options.data, pictures);
  };
  return RunApp(app, argc, argv);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
