#include "models/resnet/resnet.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/nn/layers.h"
#include "framework/nn/model_size.h"
#include "framework/ops/ops.h"

namespace sluice {
namespace {
constexpr ResNetArchitecture kArchitectures[] = {{18, {2, 2, 2, 2}, false},
                                                 {34, {3, 4, 6, 3}, false},
                                                 {50, {3, 4, 6, 3}, true},
                                                 {101, {3, 4, 23, 3}, true}};

// Null where there is none of that depth.
const ResNetArchitecture* ArchitectureOf(int64_t depth) {
  for (const ResNetArchitecture& known : kArchitectures) {
    if (known.depth == depth) return &known;
  }
  return nullptr;
}

// How the weights of a convolution, and what follows it by channels, lie on the mesh. Of a pair
// that is split, the first gives each device some channels, its norm and ReLU need no others, and
// the second adds up what each device makes of its own: one sum, of what the second gives.
struct Split {
  const char* weight = "";
  const char* channels = "";
};
constexpr Split kWhole, kByOutput = {"model:S3", "model:S0"}, kByInput = {"model:S2", ""};

struct Network {
  const ResNetConfig& config;
  const ResNetArchitecture& architecture;
  bool training;

  // A convolution that pads so that stride alone changes the size, and its norm.
  Tensor ConvolutionNorm(const Scope& s, Tensor x, int64_t out, int64_t kernel, int64_t stride,
                         const Split& split = kWhole, bool begins_as_zero = false) const {
    const int64_t padding = kernel / 2;
    x = Convolution(s / "conv", x, out, {kernel, kernel},
                    {.stride = {stride, stride}, .padding = {padding, padding}}, split.weight,
                    KaimingFanOutInit(kernel * kernel * out));
    BatchNormOptions norm;
    norm.groups = config.groups;
    norm.training = training;
    norm.annotation = split.channels;
    // Where the last scale of each branch begins as zero, the network begins as its shortcuts
    // alone, which trains better (Goyal et al. 2017, section 5.1).
    if (begins_as_zero) norm.gamma = {"zeros"};
    return BatchNorm(s / "norm", x, norm);
  }

  Tensor ConvolutionNormRelu(const Scope& s, Tensor x, int64_t out, int64_t kernel, int64_t stride,
                             const Split& split = kWhole) const {
    x = ConvolutionNorm(s, x, out, kernel, stride, split);
    const InScope here(s / "relu");
    return Relu(x);
  }

  Tensor Branch(const Scope& s, Tensor x, int64_t width, int64_t stride, bool split) const {
    const Split first = split ? kByOutput : kWhole, second = split ? kByInput : kWhole;
    if (!architecture.bottleneck) {
      x = ConvolutionNormRelu(s / "1", x, width, 3, stride, first);
      return ConvolutionNorm(s / "2", x, width, 3, 1, second, true);
    }
    x = ConvolutionNormRelu(s / "1", x, width, 1, 1, first);
    x = ConvolutionNormRelu(s / "2", x, width, 3, stride, second);
    return ConvolutionNorm(s / "3", x, architecture.expansion() * width, 1, 1, kWhole, true);
  }

  Tensor Block(const Scope& s, Tensor x, int64_t width, int64_t stride, bool split) const {
    const int64_t out = architecture.expansion() * width;
    const bool same = stride == 1 && x.shape()[3] == out;
    const Tensor branch = Branch(s, x, width, stride, split);
    const Tensor shortcut = same ? x : ConvolutionNorm(s / "shortcut", x, out, 1, stride);
    const InScope here(s / "sum");
    return Relu(branch + shortcut);
  }

  Tensor Stem(const Scope& s, Tensor images) const {
    Tensor x;
    {
      const InScope here(s / "pixels");
      x = NormalizeImages(images, config.mean, config.stddev);
    }
    if (config.small_images) return ConvolutionNormRelu(s, x, config.width, 3, 1);
    x = ConvolutionNormRelu(s, x, config.width, 7, 2);
    return MaxPool(s / "pool", x, {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  }

  // Logits [batch, classes], split over the classes.
  Tensor Logits(const Scope& s, Tensor images) const {
    Tensor x = Stem(s / "stem", images);
    for (int stage = 0; stage < kResNetStages; ++stage) {
      const bool split = stage >= kResNetStages - config.split_stages;
      for (int64_t i = 0; i < architecture.blocks[stage]; ++i) {
        if (!x) return {};
        const Scope block = s.Block(absl::StrCat("stage", stage + 1, "_", i));
        x = Block(block, x, config.width << stage, i == 0 && stage > 0 ? 2 : 1, split);
      }
    }
    x = GlobalAveragePool(s / "pool", x);
    if (!x) return {};
    return Linear(s / "classes", x, config.classes, "model:S1", "model:S0",
                  KaimingInit(x.shape()[1]));
  }
};

struct Batch {
  Tensor images, labels;
};

Tensor Images(const ResNetConfig& c, Graph* graph) {
  return graph->Input("images", DType::kU8, {c.batch, c.image_size, c.image_size, c.channels},
                      "data:S0");
}

Batch Inputs(const ResNetConfig& c, Graph* graph) {
  return {Images(c, graph), graph->Input("labels", DType::kI32, {c.batch}, "data:S0")};
}

absl::Status CheckSizes(const ResNetConfig& c) {
  if (ArchitectureOf(c.depth) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("depth: expected 18, 34, 50 or 101, got ", c.depth));
  }
  RETURN_IF_ERROR(CheckSize<int64_t>("width", c.width, 1, 1 << 16));
  RETURN_IF_ERROR(CheckSize<int64_t>("classes", c.classes, 2, 1 << 24));
  RETURN_IF_ERROR(CheckSize<int64_t>("image_size", c.image_size, 1, 1 << 14));
  RETURN_IF_ERROR(CheckSize<int64_t>("channels", c.channels, 1, 4));
  RETURN_IF_ERROR(CheckSize<int64_t>("batch", c.batch, 1, 1 << 20));
  RETURN_IF_ERROR(CheckSize<int64_t>("split_stages", c.split_stages, 0, kResNetStages));
  RETURN_IF_ERROR(CheckSize<double>("label_smoothing", c.label_smoothing, 0.0, 0.99));
  const size_t channels = static_cast<size_t>(c.channels);
  if (c.mean.size() == channels && c.stddev.size() == channels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("mean and stddev: expected ", c.channels,
                                                 " of each, got ", c.mean.size(), " and ",
                                                 c.stddev.size()));
}

}  // namespace

absl::Span<const ResNetArchitecture> ResNetArchitectures() { return kArchitectures; }

absl::Status CheckResNet(const ResNetConfig& config, const Mesh& mesh, int64_t micro_batches) {
  RETURN_IF_ERROR(CheckSizes(config));
  RETURN_IF_ERROR(CheckBatchNormGroups(config.groups, config.batch, micro_batches, mesh));
  const int64_t blocks = ArchitectureOf(config.depth)->num_blocks();
  if (mesh.num_stages() <= blocks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("mesh: expected at most one pipeline stage a residual block, ", blocks,
                   ", got pipe=", mesh.num_stages()));
}

absl::Status BuildResNetLoss(const ResNetConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckSizes(config));
  const Scope s(graph);
  const Batch batch = Inputs(config, graph);
  const Network network = {config, *ArchitectureOf(config.depth), /*training=*/true};
  graph->Output("loss", CrossEntropyLoss(s / "loss", network.Logits(s, batch.images), batch.labels,
                                         config.label_smoothing));
  return FinishIn(config.precision, graph);
}

absl::Status BuildResNetTrain(const ResNetConfig& config, const OptimizerOptions& options,
                              Graph* graph) {
  Graph loss;
  RETURN_IF_ERROR(BuildResNetLoss(config, &loss));
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> train, RunPasses(loss, {Train(options)}));
  *graph = std::move(*train);
  return absl::OkStatus();
}

absl::Status BuildResNetEval(const ResNetConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckSizes(config));
  const Scope s(graph);
  const Batch batch = Inputs(config, graph);
  const Network network = {config, *ArchitectureOf(config.depth), /*training=*/false};
  const Tensor logits = network.Logits(s, batch.images);
  {
    const InScope here(s / "loss");
    graph->Output("loss", SoftmaxCrossEntropy(logits, batch.labels));
  }
  {
    const InScope here(s / "accuracy");
    graph->Output("accuracy", TopKHits(logits, batch.labels, 1));
    if (config.classes > 5) graph->Output("top5", TopKHits(logits, batch.labels, 5));
  }
  return FinishIn(config.precision, graph);
}

absl::Status BuildResNetLogits(const ResNetConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckSizes(config));
  const Scope s(graph);
  const Network network = {config, *ArchitectureOf(config.depth), /*training=*/false};
  graph->Output("logits", network.Logits(s, Images(config, graph)));
  return FinishIn(config.precision, graph);
}

}  // namespace sluice
