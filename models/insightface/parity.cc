#include "models/insightface/parity.h"

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/status.h"
#include "framework/data/drawn_images.h"
#include "framework/data/image_dataset.h"

namespace sluice {

namespace {

// What is zero but for rounding, as a step changes it:
// - what adds the same to every picture and pixel of a channel in front of a norm that takes it off
//   again, whatever linear layers and shortcuts lie between;
// - the running means of those norms, which get sums of what norms gave, or linear maps of them;
// - scales of channels in front of a depthwise convolution and its norm: as long as the shifts
//   beside them are zero, as they begin, a PReLU lets a scale pass, and that norm takes it off.
bool IsRounding(absl::string_view variable) {
  const absl::string_view of = variable.substr(0, variable.find('.'));
  for (const char* all : {"embedding/bias", "norm/beta", "norm/running_mean",
                          "embedding_norm/running_mean", "global_norm/beta", "stem/norm/gamma",
                          "separate/norm/gamma", "separate/norm/running_mean"}) {
    if (of == all) return true;
  }
  for (const char* last :
       {"/norm3/beta", "/shortcut_norm/beta", "/norm1/running_mean", "/shortcut_norm/running_mean",
        "/project/norm/beta", "/expand/norm/gamma", "/expand/norm/running_mean"}) {
    if (absl::EndsWith(of, last)) return true;
  }
  return false;
}

}  // namespace

std::string FaceLayout::Name() const {
  std::string name = mesh;
  if (micro_batches > 1) absl::StrAppend(&name, " micro=", micro_batches);
  if (groups > 1) absl::StrAppend(&name, " groups=", groups);
  if (network != "ir18") absl::StrAppend(&name, " ", network);
  if (cos_face) absl::StrAppend(&name, " cosface");
  if (zero > 0) absl::StrAppend(&name, " zero=", zero);
  if (sample_groups > 1) absl::StrAppend(&name, " sampled=", sample_groups);
  if (precision.compute != DType::kF32) absl::StrAppend(&name, " ", DTypeName(precision.compute));
  return name;
}

std::string FaceLayout::Stem() const {
  return absl::StrReplaceAll(Name(), {{" ", "_"}, {"=", ""}});
}

FaceConfig FaceLayout::Config() const {
  FaceConfig config;
  config.network = network;
  config.width = 8;
  config.embedding = 16;
  config.classes = 11;  // a prime: every split of them is uneven
  config.image_size = 32;
  config.channels = 1;
  config.batch = 32;
  config.groups = groups;
  // Logits of 64 times a cosine are 64 times as far from each other as its roundings are.
  config.margin = {.scale = 8, .angular = cos_face ? 0 : 0.5, .additive = cos_face ? 0.4 : 0};
  if (sample_groups > 1) config.classes = 400;  // of which a batch names few
  config.sample_rate = sample_rate;
  config.sample_groups = sample_groups;
  config.precision = precision;
  return config;
}

FaceLayout ReferenceOf(const FaceLayout& layout) {
  FaceLayout one = layout;
  one.mesh = "data=1";
  one.micro_batches = 1;
  one.zero = 0;
  return one;
}

std::vector<FaceLayout> FaceLayouts() {
  return {
      {.mesh = "data=2"},
      {.mesh = "data=3"},   // 11, 11, 10 pictures of one group
      {.mesh = "model=2"},  // 6 and 5 classes of all pictures
      {.mesh = "model=3"},
      {.mesh = "model=4", .groups = 4},
      {.mesh = "data=2 model=2"},
      {.mesh = "data=2 model=2", .groups = 4},
      {.mesh = "data=2 model=2", .cos_face = true},
      {.mesh = "pipe=2"},
      {.mesh = "pipe=2", .micro_batches = 4, .groups = 4},
      {.mesh = "data=1", .micro_batches = 2},  // one group waits for both
      {.mesh = "model=2", .micro_batches = 2, .groups = 4},
      {.mesh = "data=2 model=2 pipe=2", .micro_batches = 2, .groups = 2},
      {.mesh = "data=2", .network = "mobilefacenet"},
      {.mesh = "data=2 model=2", .network = "mobilefacenet"},
      {.mesh = "data=2 model=2", .zero = 1},
      {.mesh = "data=2", .sample_rate = 0.4, .sample_groups = 4},
      {.mesh = "model=2", .sample_rate = 0.4, .sample_groups = 4},
      {.mesh = "model=4", .groups = 4, .sample_rate = 0.4, .sample_groups = 4},
      {.mesh = "data=2 model=2", .sample_rate = 0.4, .sample_groups = 4},
      {.mesh = "data=2 model=2", .zero = 1, .sample_rate = 0.4, .sample_groups = 4},
      {.mesh = "model=2 pipe=2",
       .micro_batches = 2,
       .groups = 4,
       .sample_rate = 0.4,
       .sample_groups = 4},
  };
}

ParityCase FaceParity(const FaceLayout& layout) {
  ParityCase face;
  face.name = layout.Name();
  face.mesh = layout.mesh;
  face.micro_batches = layout.micro_batches;
  face.batch = layout.Config().batch;
  face.build = [layout](OptimizerOptions optimizer, Graph* graph) {
    ASSIGN_OR_RETURN(optimizer.zero.mesh, Mesh::Parse(layout.mesh));
    optimizer.zero.level = layout.zero;
    return BuildFaceTrain(layout.Config(), optimizer, graph);
  };
  face.open_data = [layout]() -> absl::StatusOr<std::shared_ptr<const Dataset>> {
    const FaceConfig c = layout.Config();
    ASSIGN_OR_RETURN(ImageDataset images,
                     ImageDataset::Create("drawn images",
                                          DrawImages(500, {c.image_size, c.image_size, c.channels},
                                                     c.classes, /*seed=*/1)));
    return std::make_shared<const ImageDataset>(std::move(images));
  };
  face.has_no_gradient = IsRounding;
  // Twenty norms one after another make more of a rounding than the layers of other models do, and
  // PReLUs turn at zero: the free run ends before they make a difference of it. Planted bugs are
  // off by 5 to 40 per cent of the gradients' norm.
  const bool mobile = layout.network == "mobilefacenet";
  ParityBounds& bounds = face.bounds;
  if (layout.precision.compute == DType::kBF16) {
    bounds = Bf16Bounds();
    bounds.early_loss = 2e-2, bounds.early_grad_norm = 5e-2;
    bounds.lockstep_loss = 1e-2, bounds.lockstep_grad_norm = 3e-2;
    bounds.gradient = bounds.first_moment = bounds.weight_step = 0.5;
  } else {
    bounds.early_loss = 5e-6, bounds.early_grad_norm = 2e-4, bounds.early_parameter_norm = 1e-7;
    bounds.lockstep_loss = 5e-6;  // of a fiftieth of what it began with
    bounds.gradient = bounds.first_moment = 1e-4;
    bounds.second_moment = 2e-4, bounds.weight_step = 2e-4;
    bounds.no_gradient = mobile ? 1e-5 : 1e-7;
  }
  bounds.free_steps = mobile ? 2 : 3;
  bounds.may_try_other_batches = true;
  return face;
}

}  // namespace sluice
