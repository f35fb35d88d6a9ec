#include "models/insightface/insightface.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/nn/layers.h"
#include "framework/nn/model_size.h"
#include "framework/ops/ops.h"

namespace sluice {
namespace {

// Blocks of the four stages, each of which halves the size; empty: MobileFaceNet.
struct Network {
  const char* name;
  std::array<int64_t, 4> blocks;
};
constexpr Network kNetworks[] = {{"ir18", {2, 2, 2, 2}},
                                 {"ir50", {3, 4, 14, 3}},
                                 {"ir100", {3, 13, 30, 3}},
                                 {"mobilefacenet", {}}};

// MobileFaceNet's bottlenecks in their order, in terms of the first width: channels inside and
// out, how many, and the stride of the first.
struct Bottlenecks {
  int64_t inside, out, count, stride;
};
constexpr Bottlenecks kBottlenecks[] = {
    {2, 1, 5, 2}, {4, 2, 1, 2}, {4, 2, 6, 1}, {8, 2, 1, 2}, {4, 2, 2, 1}};

const Network* NetworkOf(const std::string& name) {
  for (const Network& known : kNetworks) {
    if (name == known.name) return &known;
  }
  return nullptr;
}

int64_t BlocksOf(const Network& network) {
  int64_t blocks = 0;
  if (network.blocks[0] == 0) {
    for (const Bottlenecks& some : kBottlenecks) blocks += some.count;
  }
  for (const int64_t some : network.blocks) blocks += some;
  return blocks;
}

struct Backbone {
  const FaceConfig& config;
  bool training;

  Tensor Norm(const Scope& s, Tensor x, bool scales = true) const {
    BatchNormOptions norm;
    norm.learns_gamma = scales;
    norm.groups = config.groups;
    norm.training = training;
    return BatchNorm(s, x, norm);
  }

  Tensor Rectify(const Scope& s, Tensor x) const {
    if (!x) return {};
    const InScope here(s);
    const int64_t channels = x.shape()[x.shape().rank() - 1];
    return Prelu(x, s.Param("slope", {channels}, "", {.init = "constant", .value = 0.25}));
  }

  // Pads so that stride alone changes the size. `groups`: each has its own channels of x.
  Tensor Convolve(const Scope& s, Tensor x, int64_t out, int64_t kernel, int64_t stride,
                  const VariableAttributes& init, int64_t groups = 1) const {
    const int64_t padding = kernel / 2;
    return Convolution(
        s, x, out, {kernel, kernel},
        {.stride = {stride, stride}, .padding = {padding, padding}, .groups = groups}, "", init);
  }

  // As InsightFace's begin.
  static VariableAttributes ImprovedResidualInit() { return NormalInit(0.1); }

  Tensor ImprovedResidual(const Scope& s, Tensor x, int64_t out, int64_t stride) const {
    const VariableAttributes init = ImprovedResidualInit();
    Tensor branch = Convolve(s / "conv1", Norm(s / "norm1", x), out, 3, 1, init);
    branch = Rectify(s / "relu", Norm(s / "norm2", branch));
    branch = Norm(s / "norm3", Convolve(s / "conv2", branch, out, 3, stride, init));
    if (stride > 1) {
      x = Norm(s / "shortcut_norm", Convolve(s / "shortcut", x, out, 1, stride, init));
    }
    return Residual(s / "sum", x, branch);
  }

  // [batch, height / 16, width / 16, 8 width], normalised.
  Tensor ImprovedResNet(const Scope& s, Tensor x, const Network& network) const {
    x = Convolve(s / "stem", x, config.width, 3, 1, ImprovedResidualInit());
    x = Rectify(s / "stem_relu", Norm(s / "stem_norm", x));
    for (int stage = 0; stage < 4; ++stage) {
      for (int64_t i = 0; i < network.blocks[stage]; ++i) {
        const Scope block = s.Block(absl::StrCat("stage", stage + 1, "_", i));
        x = ImprovedResidual(block, x, config.width << stage, i == 0 ? 2 : 1);
      }
    }
    return Norm(s / "norm", x);
  }

  Tensor ConvolveNorm(const Scope& s, Tensor x, int64_t out, int64_t kernel, int64_t stride,
                      int64_t groups, bool rectify) const {
    x = Norm(s / "norm", Convolve(s / "conv", x, out, kernel, stride,
                                  KaimingFanOutInit(kernel * kernel * out / groups), groups));
    return rectify ? Rectify(s / "relu", x) : x;
  }

  Tensor Bottleneck(const Scope& s, Tensor x, int64_t inside, int64_t out, int64_t stride,
                    bool shortcut) const {
    Tensor branch = ConvolveNorm(s / "expand", x, inside, 1, 1, 1, true);
    branch = ConvolveNorm(s / "depthwise", branch, inside, 3, stride, inside, true);
    branch = ConvolveNorm(s / "project", branch, out, 1, 1, 1, false);
    return shortcut ? Residual(s / "sum", x, branch) : branch;
  }

  // [batch, 1, 1, 8 width]: a depthwise convolution as large as the image weighs its places.
  Tensor MobileFaceNet(const Scope& s, Tensor x) const {
    const int64_t width = config.width;
    x = ConvolveNorm(s / "stem", x, width, 3, 2, 1, true);
    x = ConvolveNorm(s / "stem_depthwise", x, width, 3, 1, width, true);
    int64_t i = 0;
    for (const Bottlenecks& some : kBottlenecks) {
      for (int64_t of = 0; of < some.count; ++of) {
        const Scope block = s.Block(absl::StrCat("bottleneck", i++));
        x = Bottleneck(block, x, some.inside * width, some.out * width, of == 0 ? some.stride : 1,
                       of > 0);
      }
    }
    x = ConvolveNorm(s / "separate", x, 8 * width, 1, 1, 1, true);
    if (!x) return {};
    const int64_t size = x.shape()[1];
    x = Convolution(s / "global", x, 8 * width, {size, size}, {.groups = 8 * width}, "",
                    KaimingFanOutInit(size * size));
    return Norm(s / "global_norm", x);
  }

  // [batch, embedding], of any length.
  Tensor Embedding(const Scope& s, Tensor images) const {
    Tensor x;
    {
      const InScope here(s / "pixels");
      const std::vector<double> half(config.channels, 0.5);
      x = NormalizeImages(images, half, half);
    }
    const Network& network = *NetworkOf(config.network);
    x = network.blocks[0] > 0 ? ImprovedResNet(s, x, network) : MobileFaceNet(s, x);
    if (!x) return {};
    const int64_t features = x.shape().NumElements() / config.batch;
    {
      const InScope here(s / "features");
      x = Reshape(x, {config.batch, features});
      if (training && config.dropout > 0) x = Dropout(x, config.dropout);
    }
    x = Linear(s / "embedding", x, config.embedding, "", "", KaimingInit(features));
    return Norm(s / "embedding_norm", x, /*scales=*/false);
  }
};

// The vectors of the classes that take part in a step, and where among them the labels' stand.
struct Classes {
  Tensor vectors;  // [classes, embedding]
  Tensor labels;
};

// A class is a row of the matrix, as in InsightFace, so that its length is one device's own matter.
Classes AllClasses(const Scope& s, Tensor labels, const FaceConfig& config) {
  return {s.Param("weight", {config.classes, config.embedding}, "model:S0", NormalInit(0.01)),
          labels};
}

// A group's rows are drawn, read and updated by the device that has them. The others are neither
// read nor written, and their state does not decay.
Classes SampledClasses(const Scope& s, Tensor labels, const FaceConfig& config) {
  const int64_t groups = config.sample_groups, of_group = config.classes / groups;
  const int64_t count = SampledOfGroup(config);
  const Tensor weight =
      s.Param("weight", {groups, of_group, config.embedding}, "model:S0", NormalInit(0.01));
  const ClassSample sample = SampleClasses(labels, of_group, groups, count);
  const Tensor rows = Embedding(weight, sample.classes.With("model:S0"));
  return {Reshape(rows, {groups * count, config.embedding}), sample.positions};
}

bool IsSampled(const FaceConfig& config) {
  return config.sample_rate < 1 || config.sample_groups > 1;
}

Tensor Images(const FaceConfig& c, Graph* graph) {
  return graph->Input("images", DType::kU8, {c.batch, c.image_size, c.image_size, c.channels},
                      "data:S0 model:S0");
}

absl::Status CheckSizes(const FaceConfig& c) {
  if (NetworkOf(c.network) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "network: expected ", absl::StrJoin(FaceNetworks(), ", "), ", got ", c.network));
  }
  RETURN_IF_ERROR(CheckSize<int64_t>("width", c.width, 1, 1 << 12));
  RETURN_IF_ERROR(CheckSize<int64_t>("embedding", c.embedding, 1, 1 << 14));
  RETURN_IF_ERROR(CheckSize<int64_t>("classes", c.classes, 2, 1 << 30));
  RETURN_IF_ERROR(CheckSize<int64_t>("image_size", c.image_size, 16, 1 << 12));
  RETURN_IF_ERROR(CheckSize<int64_t>("channels", c.channels, 1, 4));
  RETURN_IF_ERROR(CheckSize<int64_t>("batch", c.batch, 2, 1 << 20));
  RETURN_IF_ERROR(CheckSize<double>("dropout", c.dropout, 0.0, 0.99));
  RETURN_IF_ERROR(CheckSize<double>("margin_scale", c.margin.scale, 1.0, 1024.0));
  RETURN_IF_ERROR(CheckSize<double>("margin", c.margin.angular, 0.0, 1.5));
  RETURN_IF_ERROR(CheckSize<double>("additive_margin", c.margin.additive, 0.0, 1.0));
  RETURN_IF_ERROR(CheckSize<double>("sample_rate", c.sample_rate, 1e-9, 1.0));
  RETURN_IF_ERROR(CheckSize<int64_t>("sample_groups", c.sample_groups, 1, 1 << 16));
  if (c.classes % c.sample_groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sample_groups: expected a divisor of the classes, ", c.classes, ", got ",
                     c.sample_groups));
  }
  if (c.image_size % 16 == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("image_size: expected a multiple of 16, got ", c.image_size));
}

}  // namespace

const std::vector<std::string>& FaceNetworks() {
  static const auto* names = [] {
    auto* names = new std::vector<std::string>;
    for (const Network& known : kNetworks) names->push_back(known.name);
    return names;
  }();
  return *names;
}

int64_t SampledOfGroup(const FaceConfig& config) {
  const int64_t of_group = config.classes / config.sample_groups;
  const double share = std::ceil(config.sample_rate * static_cast<double>(of_group));
  const int64_t least = std::min(config.batch, of_group);  // all labels may be of one group
  return std::clamp(static_cast<int64_t>(share), least, of_group);
}

absl::Status CheckFace(const FaceConfig& config, const Mesh& mesh, int64_t micro_batches) {
  RETURN_IF_ERROR(CheckSizes(config));
  const int64_t devices = mesh.AxisSize("model");
  if (IsSampled(config) && config.sample_groups % devices != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sample_groups: expected a multiple of the ", devices,
                     " devices of axis model, which would cut some, got ", config.sample_groups));
  }
  RETURN_IF_ERROR(
      CheckBatchNormGroups(config.groups, config.batch, micro_batches, mesh, {"data", "model"}));
  const int64_t blocks = BlocksOf(*NetworkOf(config.network));
  if (mesh.num_stages() <= blocks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("mesh: expected at most one pipeline stage a residual block, ", blocks,
                   ", got pipe=", mesh.num_stages()));
}

Tensor MarginSoftmaxLoss(const Scope& s, Tensor embedding, Tensor labels,
                         const FaceConfig& config) {
  Tensor logits;
  Classes classes;
  {
    const Scope of_classes = s / "classes";
    const InScope here(of_classes);
    classes = IsSampled(config) ? SampledClasses(of_classes, labels, config)
                                : AllClasses(of_classes, labels, config);
    // Embeddings are gathered and classes stay where they are, however few there are.
    const Tensor features = L2Normalize(embedding).With("model:B");
    const Tensor cosine =
        MatMul(features, L2Normalize(classes.vectors), /*transpose_a=*/false, /*transpose_b=*/true);
    logits = MarginLogits(cosine, classes.labels, config.margin);
  }
  return CrossEntropyLoss(s / "loss", logits, classes.labels);
}

absl::Status BuildFaceLoss(const FaceConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckSizes(config));
  const Scope s(graph);
  const Backbone backbone = {config, /*training=*/true};
  const Tensor embedding = backbone.Embedding(s, Images(config, graph));
  // Each device of a model group has its own classes of all the group's pictures.
  const Tensor labels = graph->Input("labels", DType::kI32, {config.batch}, "data:S0 model:B");
  graph->Output("loss", MarginSoftmaxLoss(s, embedding, labels, config));
  return FinishIn(config.precision, graph);
}

absl::Status BuildFaceTrain(const FaceConfig& config, const OptimizerOptions& options,
                            Graph* graph) {
  Graph loss;
  RETURN_IF_ERROR(BuildFaceLoss(config, &loss));
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> train, RunPasses(loss, {Train(options)}));
  *graph = std::move(*train);
  return absl::OkStatus();
}

absl::Status BuildFaceEmbed(const FaceConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckSizes(config));
  const Scope s(graph);
  const Backbone backbone = {config, /*training=*/false};
  const Tensor embedding = backbone.Embedding(s, Images(config, graph));
  {
    const InScope here(s / "normalized");
    graph->Output("embeddings", L2Normalize(embedding));
  }
  return FinishIn(config.precision, graph);
}

}  // namespace sluice
