#include "framework/nn/layers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/ops/ops.h"

namespace sluice {
namespace {

// The extent of the last dimension; 0, with an error in the graph, where there is none.
int64_t LastExtent(const Scope& scope, Tensor x) {
  if (!x) return 0;  // after an error
  if (x.shape().rank() > 0) return x.shape()[x.shape().rank() - 1];
  scope.graph()->SetError(absl::InvalidArgumentError("a layer expected a vector, got a scalar"),
                          scope.path());
  return 0;
}

}  // namespace

VariableAttributes NormalInit(double stddev) { return {"normal", stddev}; }

VariableAttributes ResidualInit(int64_t layers, double stddev) {
  return {"normal", stddev / std::sqrt(2.0 * static_cast<double>(layers))};
}

VariableAttributes OnesInit() { return {"ones"}; }

VariableAttributes KaimingInit(int64_t fan_in) {
  return {"uniform", 1 / std::sqrt(3.0 * static_cast<double>(fan_in))};
}

VariableAttributes KaimingFanOutInit(int64_t fan_out) {
  return {"normal", std::sqrt(2 / static_cast<double>(fan_out))};
}

Tensor Linear(const Scope& scope, Tensor x, int64_t out, absl::string_view weight_annotation,
              absl::string_view bias_annotation, const VariableAttributes& init) {
  const int64_t in = LastExtent(scope, x);
  if (in == 0) return {};
  const InScope here(scope);
  return MatMul(x, scope.Param("weight", {in, out}, weight_annotation, init)) +
         scope.Param("bias", {out}, bias_annotation);
}

Tensor Cache(const Scope& scope, absl::string_view name, const Shape& shape,
             absl::string_view annotation) {
  const Tensor cache = scope.Param(name, shape, annotation);
  if (cache) scope.graph()->SetRole(cache.id(), Role::kCache, -1);
  return cache;
}

Tensor Norm(const Scope& scope, Tensor x, double epsilon) {
  const int64_t width = LastExtent(scope, x);
  if (width == 0) return {};
  const InScope here(scope);
  return LayerNorm(x, scope.Param("gamma", {width}, "", OnesInit()), scope.Param("beta", {width}),
                   epsilon);
}

Tensor BatchNorm(const Scope& scope, Tensor x, const BatchNormOptions& options) {
  const int64_t channels = LastExtent(scope, x);
  if (channels == 0) return {};
  const InScope here(scope);
  const std::string& split = options.annotation;
  const Tensor gamma = options.learns_gamma ? scope.Param("gamma", {channels}, split, options.gamma)
                                            : Fill(scope.graph(), 1, {channels});
  const Tensor beta = scope.Param("beta", {channels}, split);
  const Tensor mean = scope.Param("running_mean", {channels}, split);
  const Tensor variance = scope.Param("running_variance", {channels}, split, OnesInit());
  for (const Tensor& statistic : {mean, variance}) {
    if (statistic) scope.graph()->SetRole(statistic.id(), Role::kStatistic, -1);
  }
  if (!options.training) return BatchNormBy(x, mean, variance, gamma, beta, options.epsilon);
  const BatchNormResult made = BatchNorm(x, gamma, beta, options.groups, options.epsilon);
  if (!made.y) return {};
  const double values = static_cast<double>(x.shape().NumElements() / channels / options.groups);
  MovingAverage(mean, ReduceMean(made.mean, {0}), options.momentum);
  MovingAverage(variance, Scale(ReduceMean(made.variance, {0}), values / (values - 1)),
                options.momentum);
  return made.y;
}

absl::Status CheckBatchNormGroups(int64_t groups, int64_t batch, int64_t micro_batches,
                                  const Mesh& mesh, const std::vector<std::string>& axes) {
  if (groups < 1 || batch % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("groups: expected a divisor of the batch, ", batch, ", got ", groups));
  }
  int64_t left = groups;
  std::vector<std::pair<std::string, int64_t>> cuts = {{"micro-batches", micro_batches}};
  for (const std::string& axis : axes) {
    cuts.emplace_back(absl::StrCat("devices of axis ", axis), mesh.AxisSize(axis));
  }
  for (const auto& [name, size] : cuts) {
    if (left % size != 0 && left != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("groups: expected 1, or whole groups for each of ", size, " ", name,
                       ", got ", left, " of ", groups, " for them, of which some would be cut"));
    }
    left = std::max<int64_t>(left / size, 1);
  }
  return absl::OkStatus();
}

Tensor Convolution(const Scope& scope, Tensor x, int64_t out, const Shape& kernel,
                   const ConvolutionAttributes& attributes, absl::string_view weight_annotation,
                   const std::optional<VariableAttributes>& init) {
  const int64_t channels = LastExtent(scope, x), groups = attributes.groups;
  if (channels == 0) return {};
  if (kernel.rank() != 2 || groups < 1 || channels % groups != 0) {
    scope.graph()->SetError(
        absl::InvalidArgumentError(absl::StrCat(
            "a convolution expected a kernel of [height,width], and groups that ", "divide ",
            channels, " channels, got ", kernel.ToString(), " and ", groups)),
        scope.path());
    return {};
  }
  const InScope here(scope);
  const Shape shape = {kernel[0], kernel[1], channels / groups, out};
  const int64_t fan_in = std::max<int64_t>(kernel.NumElements() * (channels / groups), 1);
  return Conv2d(x,
                scope.Param("weight", shape, weight_annotation, init.value_or(KaimingInit(fan_in))),
                attributes);
}

Tensor MaxPool(const Scope& scope, Tensor x, const PoolAttributes& attributes) {
  const InScope here(scope);
  return MaxPool(x, attributes);
}

Tensor AveragePool(const Scope& scope, Tensor x, const PoolAttributes& attributes) {
  const InScope here(scope);
  return AveragePool(x, attributes);
}

Tensor GlobalAveragePool(const Scope& scope, Tensor x) {
  if (!x) return {};
  if (x.shape().rank() != 4) {
    scope.graph()->SetError(
        absl::InvalidArgumentError(absl::StrCat(
            "a global pool expected [images,height,width,channels], got ", x.shape().ToString())),
        scope.path());
    return {};
  }
  const InScope here(scope);
  return ReduceMean(x, {1, 2});
}

Tensor Table(const Scope& scope, int64_t rows, int64_t width, absl::string_view annotation) {
  return scope.Param("table", {rows, width}, annotation, NormalInit());
}

Tensor GeluMlp(const Scope& scope, Tensor x, int64_t inner, const VariableAttributes& down_init) {
  const int64_t width = LastExtent(scope, x);
  Tensor y = Linear(scope / "up", x, inner, "model:S1", "model:S0");
  {
    const InScope here(scope / "gelu");
    y = Gelu(y);
  }
  return Linear(scope / "down", y, width, "model:S0", "", down_init);
}

Tensor Residual(const Scope& scope, Tensor x, Tensor branch) {
  const InScope here(scope);
  const Tensor sum = x + branch;
  if (sum) scope.graph()->SetRole(sum.id(), Role::kResidual, -1);
  return sum;
}

Tensor CrossEntropyLoss(const Scope& scope, Tensor logits, Tensor labels, double smoothing) {
  Tensor losses;
  {
    const InScope here(scope / "cross_entropy");
    losses = SoftmaxCrossEntropy(logits, labels, smoothing);
  }
  const InScope here(scope);
  return Mean(losses);
}

}  // namespace sluice
