// Layers as functions over Tensor and Scope: each makes its parameters under the scope's name and
// adds its ops there. Weights are [in, out]. Words say how a parameter is split over the mesh;
// Megatron's pair is "model:S1" on one weight and "model:S0" on the next. Errors are sticky in the
// graph.
#ifndef SLUICE_FRAMEWORK_NN_LAYERS_H_
#define SLUICE_FRAMEWORK_NN_LAYERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/graph/graph.h"
#include "framework/sbp/mesh.h"

namespace sluice {

// Initial values: GPT-2's normal, and the same scaled down for projections that end on the residual
// stream, of which `layers` blocks have two each.
VariableAttributes NormalInit(double stddev = 0.02);
VariableAttributes ResidualInit(int64_t layers, double stddev = 0.02);
VariableAttributes OnesInit();
// PyTorch's of linear and convolution layers: uniform in +-1/sqrt(fan_in).
VariableAttributes KaimingInit(int64_t fan_in);
// What keeps the variance of gradients through layers with ReLU: normal of sqrt(2/fan_out) (He et
// al. 2015, as torchvision's networks begin).
VariableAttributes KaimingFanOutInit(int64_t fan_out);

// x [..., in] times `weight` plus `bias`.
Tensor Linear(const Scope& scope, Tensor x, int64_t out, absl::string_view weight_annotation = "",
              absl::string_view bias_annotation = "",
              const VariableAttributes& init = NormalInit());

// Layer norm over the last dimension, with parameters `gamma` and `beta`.
Tensor Norm(const Scope& scope, Tensor x, double epsilon = 1e-5);

// Batch norm over the last dimension, with parameters `gamma` and `beta`, and the statistics
// `running_mean` and `running_variance`. In training it takes statistics of each of `groups` equal
// ranges of dimension 0, and each step folds their mean over the groups, once, into the running
// ones (of the variance the unbiased one, as in PyTorch); else it takes the running ones.
struct BatchNormOptions {
  int64_t groups = 1;
  bool training = true;
  double momentum = 0.1;  // the share that a step has in the running statistics
  double epsilon = 1e-5;
  VariableAttributes gamma = {"ones"};  // its initial value
  bool learns_gamma = true;             // else it is 1, and no parameter
  // Of the parameters and the statistics, where x is split by channels: "model:S0".
  std::string annotation = {};
};
Tensor BatchNorm(const Scope& scope, Tensor x, const BatchNormOptions& options);

// InvalidArgument where micro-batches and then the mesh's `axes`, over which the batch is split,
// cannot have whole groups each, nor share a single one: the statistics of a group that is cut
// would have x gathered in every layer.
absl::Status CheckBatchNormGroups(int64_t groups, int64_t batch, int64_t micro_batches,
                                  const Mesh& mesh,
                                  const std::vector<std::string>& axes = {"data"});

// A convolution of x [images, height, width, channels] to `out` channels, without bias: `weight`
// [kernel height, kernel width, channels / groups, out], by default of KaimingInit. Splits of it
// are "model:S3" by output and "model:S2" by input channel.
Tensor Convolution(const Scope& scope, Tensor x, int64_t out, const Shape& kernel,
                   const ConvolutionAttributes& attributes = {},
                   absl::string_view weight_annotation = "",
                   const std::optional<VariableAttributes>& init = std::nullopt);

// Pools of images [images, height, width, channels], as ops.h has them.
Tensor MaxPool(const Scope& scope, Tensor x, const PoolAttributes& attributes);
Tensor AveragePool(const Scope& scope, Tensor x, const PoolAttributes& attributes);
// The mean over height and width: [images, channels].
Tensor GlobalAveragePool(const Scope& scope, Tensor x);

// A table of `rows` vectors, for Embedding or, tied, for the last MatMul.
Tensor Table(const Scope& scope, int64_t rows, int64_t width, absl::string_view annotation = "");

// A variable of role kCache under the scope's name, f32.
Tensor Cache(const Scope& scope, absl::string_view name, const Shape& shape,
             absl::string_view annotation = "");

// The two halves of a transformer's MLP, `up` and `down`, with gelu between; Megatron's split.
Tensor GeluMlp(const Scope& scope, Tensor x, int64_t inner, const VariableAttributes& down_init);

// x plus what a branch of the network made of it: Role::kResidual.
Tensor Residual(const Scope& scope, Tensor x, Tensor branch);

// The mean over all positions of -log softmax(logits)[label]: logits [..., classes], labels [...].
// smoothing: the share of the target that all classes have alike.
Tensor CrossEntropyLoss(const Scope& scope, Tensor logits, Tensor labels, double smoothing = 0);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_NN_LAYERS_H_
