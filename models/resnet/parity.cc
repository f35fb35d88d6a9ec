#include "models/resnet/parity.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/data/drawn_images.h"
#include "framework/data/image_dataset.h"

namespace sluice {

std::string ResNetLayout::Name() const {
  std::string name = mesh;
  if (micro_batches > 1) absl::StrAppend(&name, " micro=", micro_batches);
  if (groups > 1) absl::StrAppend(&name, " groups=", groups);
  if (split_stages > 0) absl::StrAppend(&name, " split_stages=", split_stages);
  if (depth != 18) absl::StrAppend(&name, " depth=", depth);
  if (zero > 0) absl::StrAppend(&name, " zero=", zero);
  if (precision.compute != DType::kF32) absl::StrAppend(&name, " ", DTypeName(precision.compute));
  return name;
}

std::string ResNetLayout::Stem() const {
  return absl::StrReplaceAll(Name(), {{" ", "_"}, {"=", ""}});
}

ResNetConfig ResNetLayout::Config() const {
  ResNetConfig config;
  config.depth = depth;
  config.width = 8;
  config.classes = 10;
  config.image_size = 8;
  config.small_images = true;
  config.batch = 32;
  config.groups = groups;
  config.split_stages = split_stages;
  config.label_smoothing = 0.1;
  config.precision = precision;
  return config;
}

ResNetLayout ReferenceOf(const ResNetLayout& layout) {
  return {.mesh = "data=1",
          .groups = layout.groups,
          .depth = layout.depth,
          .precision = layout.precision};
}

std::vector<ResNetLayout> ResNetLayouts() {
  return {
      {.mesh = "data=2"},
      {.mesh = "data=3"},  // 11, 11, 10 images of one group
      {.mesh = "data=4", .groups = 4},
      {.mesh = "data=2", .groups = 4},
      {.mesh = "model=2"},                            // classes alone
      {.mesh = "data=2 model=2"},                     // Stanza
      {.mesh = "data=2 model=2", .split_stages = 2},  // OptCNN
      {.mesh = "model=3", .split_stages = 4},         // uneven channels
      {.mesh = "model=2", .split_stages = 4, .depth = 50},
      {.mesh = "data=2", .depth = 50},
      {.mesh = "pipe=2"},
      {.mesh = "pipe=2", .micro_batches = 4, .groups = 4},
      {.mesh = "data=2 pipe=2", .micro_batches = 2, .groups = 2},  // synchronised over data
      {.mesh = "data=2 model=2 pipe=2", .micro_batches = 2, .groups = 4, .split_stages = 1},
      {.mesh = "data=1", .micro_batches = 2},  // one group waits for both
      {.mesh = "data=2", .micro_batches = 2, .groups = 4},
      {.mesh = "data=2", .zero = 1},
      {.mesh = "data=2", .micro_batches = 2, .groups = 2, .zero = 3},
  };
}

ParityCase ResNetParity(const ResNetLayout& layout) {
  ParityCase resnet;
  resnet.name = layout.Name();
  resnet.mesh = layout.mesh;
  resnet.micro_batches = layout.micro_batches;
  resnet.batch = layout.Config().batch;
  resnet.build = [layout](OptimizerOptions optimizer, Graph* graph) {
    ASSIGN_OR_RETURN(optimizer.zero.mesh, Mesh::Parse(layout.mesh));
    optimizer.zero.level = layout.zero;
    return BuildResNetTrain(layout.Config(), optimizer, graph);
  };
  resnet.open_data = [layout]() -> absl::StatusOr<std::shared_ptr<const Dataset>> {
    const ResNetConfig c = layout.Config();
    ASSIGN_OR_RETURN(ImageDataset images,
                     ImageDataset::Create("drawn images",
                                          DrawImages(500, {c.image_size, c.image_size, c.channels},
                                                     c.classes, /*seed=*/1)));
    return std::make_shared<const ImageDataset>(std::move(images));
  };
  // Of some 100,000 inputs of ReLUs, one is zero but for rounding about once in fifty steps, and
  // what it makes different grows from there: the free run is short, and the network small.
  if (layout.precision.compute == DType::kBF16) {
    // A sum that is added up otherwise rounds a few values otherwise, and norms that see 32 values
    // a channel make of that up to a fifth of a gradient where channels are split, a tenth in
    // depth. Whatever is wrong by less, f32 has to find.
    resnet.bounds = Bf16Bounds();
    resnet.bounds.free_steps = 4;
    resnet.bounds.lockstep_grad_norm = 3e-2;
    resnet.bounds.lockstep_loss = resnet.bounds.early_loss = 3e-3;
    resnet.bounds.gradient = resnet.bounds.first_moment = resnet.bounds.weight_step = 0.5;
  } else {
    resnet.bounds.free_steps = 20;
  }
  resnet.bounds.may_try_other_batches = true;
  return resnet;
}

}  // namespace sluice
