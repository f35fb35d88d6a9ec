#include "models/resnet/torchvision_layout.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/train/hub_config.h"
#include "framework/train/weight_files.h"
#include "models/resnet/resnet.h"

namespace sluice {
namespace {

// What the tensors of either side show of a model.
struct Sizes {
  std::string stem;  // the name of its convolution
  int64_t kernel = 0, channels = 0, width = 0, classes = 0;
  std::array<int64_t, kResNetStages> blocks = {};
  bool bottleneck = false;
};

template <typename Entry>
absl::StatusOr<Shape> ShapeOf(const NameIndex<Entry>& tensors, const std::string& path,
                              const std::string& name, int rank) {
  const Entry* found = tensors.Find(name);
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat(path, ": expected a tensor ", name));
  }
  if (found->shape.rank() == rank) return found->shape;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", name, ": expected ", rank,
                                                 " dimensions, got ", found->shape.ToString()));
}

absl::StatusOr<Sizes> OurSizes(const Checkpoint& checkpoint) {
  const NameIndex<TensorEntry> tensors(checkpoint.tensors());
  Sizes sizes;
  sizes.stem = "stem/conv/weight";
  ASSIGN_OR_RETURN(const Shape stem, ShapeOf(tensors, checkpoint.path(), sizes.stem, 4));
  ASSIGN_OR_RETURN(const Shape classes, ShapeOf(tensors, checkpoint.path(), "classes/bias", 1));
  sizes.kernel = stem[0];
  sizes.channels = stem[2];
  sizes.width = stem[3];
  sizes.classes = classes[0];
  for (int stage = 0; stage < kResNetStages; ++stage) {
    int64_t& blocks = sizes.blocks[stage];
    while (tensors.HasPrefix(absl::StrCat("stage", stage + 1, "_", blocks, "/"))) ++blocks;
  }
  sizes.bottleneck = tensors.HasPrefix("stage1_0/3/");
  return sizes;
}

absl::StatusOr<Sizes> TheirSizes(const WeightFiles& files) {
  const NameIndex<StoredTensor> tensors(files.tensors());
  Sizes sizes;
  sizes.stem = "conv1.weight";
  ASSIGN_OR_RETURN(const Shape stem, ShapeOf(tensors, files.path(), sizes.stem, 4));
  ASSIGN_OR_RETURN(const Shape classes, ShapeOf(tensors, files.path(), "fc.bias", 1));
  sizes.kernel = stem[2];
  sizes.channels = stem[1];
  sizes.width = stem[0];
  sizes.classes = classes[0];
  for (int stage = 0; stage < kResNetStages; ++stage) {
    int64_t& blocks = sizes.blocks[stage];
    while (tensors.HasPrefix(absl::StrCat("layer", stage + 1, ".", blocks, "."))) ++blocks;
  }
  sizes.bottleneck = tensors.HasPrefix("layer1.0.conv3.") || tensors.HasPrefix("layer1.0.bn3.");
  return sizes;
}

const ResNetArchitecture* FindArchitecture(const Sizes& sizes) {
  for (const ResNetArchitecture& known : ResNetArchitectures()) {
    if (known.blocks == sizes.blocks && known.bottleneck == sizes.bottleneck) return &known;
  }
  return nullptr;
}

struct Model {
  ResNetArchitecture architecture;
  ResNetConfig config;
};

absl::StatusOr<Model> ModelOf(const Sizes& sizes, const std::string& path) {
  if (sizes.kernel != 3 && sizes.kernel != 7) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", sizes.stem, ": expected a kernel of 3x3 or 7x7, got a height of ",
                     sizes.kernel));
  }
  const ResNetArchitecture* architecture = FindArchitecture(sizes);
  if (architecture == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected the blocks of ResNet-18, 34, 50 or 101, got ",
                     absl::StrJoin(sizes.blocks, ", "),
                     sizes.bottleneck ? " bottlenecks" : " basic blocks", " in its stages"));
  }
  Model model = {*architecture, {}};
  ResNetConfig& c = model.config;
  c.depth = architecture->depth;
  c.width = sizes.width;
  c.classes = sizes.classes;
  c.channels = sizes.channels;
  c.small_images = sizes.kernel == 3;
  // Of each channel some, which nothing here reads: of too many channels the check below complains.
  c.mean.resize(std::clamp<int64_t>(c.channels, 0, 4), 0.5);
  c.stddev.resize(c.mean.size(), 0.5);
  ASSIGN_OR_RETURN(const Mesh one, Mesh::Parse("data=1"));
  RETURN_IF_ERROR(AddContext(CheckResNet(c, one, 1), path));
  return model;
}

// The pairs of a model, in the order of torchvision's state_dict.
class PairList {
 public:
  // A convolution and the norm behind it, which are one scope here.
  void AddConvolutionNorm(const std::string& their_convolution, const std::string& their_norm,
                          const std::string& ours, int64_t kernel, int64_t in, int64_t out) {
    // Of [height, width, in, out], the axes out, in, height, width.
    pairs_.push_back(PairWeights(their_convolution + ".weight", {ours + "/conv/weight"},
                                 {kernel, kernel, in, out}, {3, 2, 0, 1}));
    const std::string norm = ours + "/norm/";
    pairs_.push_back(PairWeights(their_norm + ".weight", {norm + "gamma"}, {out}));
    pairs_.push_back(PairWeights(their_norm + ".bias", {norm + "beta"}, {out}));
    for (const auto& [theirs, statistic] : {std::pair{".running_mean", "running_mean"},
                                            std::pair{".running_var", "running_variance"}}) {
      pairs_.push_back(PairWeights(their_norm + theirs, {norm + statistic}, {out}));
      pairs_.back().trained = false;
    }
  }

  void AddLinear(const std::string& theirs, const std::string& ours, int64_t in, int64_t out) {
    pairs_.push_back(PairWeights(theirs + ".weight", {ours + "/weight"}, {in, out}, {1, 0}));
    pairs_.push_back(PairWeights(theirs + ".bias", {ours + "/bias"}, {out}));
  }

  std::vector<WeightPair> Take() { return std::move(pairs_); }

 private:
  std::vector<WeightPair> pairs_;
};

void AddBlock(const ResNetArchitecture& architecture, const std::string& theirs,
              const std::string& ours, int64_t in, int64_t width, bool shortcut, PairList* pairs) {
  const int64_t out = architecture.expansion() * width;
  const auto add = [&](int index, int64_t kernel, int64_t from, int64_t to) {
    pairs->AddConvolutionNorm(absl::StrCat(theirs, ".conv", index),
                              absl::StrCat(theirs, ".bn", index), absl::StrCat(ours, "/", index),
                              kernel, from, to);
  };
  add(1, architecture.bottleneck ? 1 : 3, in, width);
  add(2, 3, width, width);
  if (architecture.bottleneck) add(3, 1, width, out);
  if (!shortcut) return;
  pairs->AddConvolutionNorm(theirs + ".downsample.0", theirs + ".downsample.1", ours + "/shortcut",
                            1, in, out);
}

WeightLayout LayoutOf(const Model& model) {
  const ResNetConfig& c = model.config;
  PairList pairs;
  pairs.AddConvolutionNorm("conv1", "bn1", "stem", c.small_images ? 3 : 7, c.channels, c.width);
  int64_t in = c.width;
  for (int stage = 0; stage < kResNetStages; ++stage) {
    const int64_t width = c.width << stage, out = model.architecture.expansion() * width;
    for (int64_t i = 0; i < model.architecture.blocks[stage]; ++i) {
      // The first of a stage has a stride, but in the first stage, or other channels.
      const bool shortcut = i == 0 && (stage > 0 || in != out);
      AddBlock(model.architecture, absl::StrCat("layer", stage + 1, ".", i),
               absl::StrCat("stage", stage + 1, "_", i), in, width, shortcut, &pairs);
      in = out;
    }
  }
  pairs.AddLinear("fc", "classes", in, c.classes);
  return {absl::StrCat("torchvision's ResNet-", c.depth), pairs.Take(), {".momentum"}};
}

// What the trainer takes up: the shape of the model, and the optimizer whose state stands beside
// it. Weights for small images say nothing of their size.
std::map<std::string, std::string> OptionsOf(const ResNetConfig& c) {
  std::map<std::string, std::string> options = {{"depth", absl::StrCat(c.depth)},
                                                {"width", absl::StrCat(c.width)},
                                                {"classes", absl::StrCat(c.classes)},
                                                {"channels", absl::StrCat(c.channels)},
                                                {"small_images", c.small_images ? "true" : "false"},
                                                {"optimizer", "sgd"},
                                                {"momentum", "0.9"}};
  if (!c.small_images) options["image_size"] = absl::StrCat(c.image_size);
  return options;
}

// timm's folders have a config.json that names the architecture. Others have tensors of the same
// names and shapes, and compute something else between them, such as resnetblur50.
absl::Status CheckArchitecture(const std::string& model, int64_t depth) {
  std::error_code ignored;
  if (!std::filesystem::exists(absl::StrCat(model, "/", kConfigFile), ignored)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const HubConfig hub, HubConfig::Read(model));
  return hub.Expect("architecture", {absl::StrCat("\"resnet", depth, "\"")});
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExportTorchvision(const std::string& path,
                                                           const std::string& folder,
                                                           const ExportOptions& options) {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(path));
  ASSIGN_OR_RETURN(const Sizes sizes, OurSizes(checkpoint));
  ASSIGN_OR_RETURN(const Model model, ModelOf(sizes, path));
  return ExportWeights(checkpoint, LayoutOf(model), /*texts=*/{}, folder, options);
}

absl::StatusOr<ImportedWeights> ImportTorchvision(const std::string& path, const std::string& out) {
  ASSIGN_OR_RETURN(WeightFiles files, WeightFiles::Open(path));
  // Blocks have convolutions of the stem's name, too.
  RETURN_IF_ERROR(files.Unwrap({"layer1.0.conv1.weight"}));
  ASSIGN_OR_RETURN(const Sizes sizes, TheirSizes(files));
  ASSIGN_OR_RETURN(const Model model, ModelOf(sizes, files.path()));
  RETURN_IF_ERROR(CheckArchitecture(path, model.config.depth));
  const auto left_out = [](const std::string& name) {
    return absl::EndsWith(name, ".num_batches_tracked");
  };
  return ImportWeights(files, LayoutOf(model), left_out, {out, OptionsOf(model.config)});
}

}  // namespace sluice
