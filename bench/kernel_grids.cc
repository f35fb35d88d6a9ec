#include "bench/kernel_grids.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/attributes/attributes.h"
#include "framework/base/status.h"
#include "framework/ops/all_ops.h"

namespace sluice {
namespace {

using At = absl::Span<const int64_t>;
using Sample = absl::StatusOr<KernelSample>;

TensorType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }
TensorType I32(Shape shape) { return {DType::kI32, std::move(shape)}; }

// The kernel of an op, applied to inputs of these types.
Sample OfOp(const std::string& kernel, const Attributes& attributes,
            const std::vector<TensorType>& inputs, int64_t ids = 2) {
  const OpDef* op = FindOp(kernel);
  if (op == nullptr) return absl::InternalError(absl::StrCat("no op ", kernel));
  ASSIGN_OR_RETURN(const std::vector<TensorType> outputs, op->infer({attributes, inputs, {}}));
  KernelSample sample;
  sample.spec.op = kernel;
  sample.spec.attributes = PrintAttributes(attributes);
  for (const TensorType& type : inputs) {
    sample.spec.inputs.push_back(Shard::Whole(type.dtype, type.shape));
  }
  for (const TensorType& type : outputs) {
    sample.spec.outputs.push_back(Shard::Whole(type.dtype, type.shape));
  }
  const Cost cost = op->cost({attributes, inputs, outputs});
  sample.sizes.assign(cost.sizes.begin(), cost.sizes.end());
  sample.ids = ids;
  return sample;
}

// A sampler that knows several kernels has been given another one.
Sample NoInputs(const std::string& kernel) {
  return absl::InternalError(absl::StrCat("kernel grids: no inputs are known of ", kernel));
}

// Rows, columns and depth of the three products of a linear layer.
Sample MatMul(const std::string& kernel, At at) {
  return OfOp(kernel, MatMulAttributes(), {F32({at[0], at[2]}), F32({at[2], at[1]})});
}
Sample InputGradient(const std::string& kernel, At at) {
  return OfOp(kernel, MatMulAttributes(), {F32({at[0], at[2]}), F32({at[1], at[2]})});
}
Sample WeightGradient(const std::string& kernel, At at) {
  return OfOp(kernel, MatMulAttributes(), {F32({at[2], at[0]}), F32({at[2], at[1]})});
}

// Heads of all samples, positions, size of a head.
Sample Attention(const std::string& kernel, At at) {
  const TensorType q = F32({at[0], at[1], 1, at[2]}), rows = F32({at[0], at[1], 1});
  const AttentionAttributes attributes{0.125};
  if (kernel == "attention") return OfOp(kernel, attributes, {q, q, q});
  if (kernel == "attention_gradient") return OfOp(kernel, attributes, {q, q, q, q, rows, q});
  return NoInputs(kernel);
}

// Elements.
Sample Unary(const std::string& kernel, At at) {
  return OfOp(kernel, FindOp(kernel)->attributes, {F32({at[0]})});
}
Sample Binary(const std::string& kernel, At at) {
  return OfOp(kernel, FindOp(kernel)->attributes, {F32({at[0]}), F32({at[0]})});
}
Sample AddN(const std::string& kernel, At at) {
  return OfOp(kernel, NoAttributes(), {F32({at[0]}), F32({at[0]}), F32({at[0]})});
}
Sample Dropout(const std::string& kernel, At at) {
  return OfOp(kernel, DropoutAttributes{0.1, 7}, {F32({at[0]})});
}
Sample Fill(const std::string& kernel, At at) {
  return OfOp(kernel, FillAttributes{1, {at[0]}, DType::kF32}, {});
}
Sample AdamW(const std::string& kernel, At at) {
  const TensorType w = F32({at[0]});
  return OfOp(kernel, AdamWAttributes{0.9, 0.95, 1e-8, 0.1},
              {w, w, w, w, F32({}), F32({}), I32({})});
}

// Rows and their length.
Sample LayerNorm(const std::string& kernel, At at) {
  const TensorType x = F32({at[0], at[1]}), row = F32({at[1]}), column = F32({at[0]});
  if (kernel == "layer_norm") return OfOp(kernel, LayerNormAttributes(), {x, row, row});
  if (kernel == "layer_norm_gradient") {
    return OfOp(kernel, LayerNormAttributes(), {x, x, row, column, column});
  }
  if (kernel == "layer_norm_parameter_gradient") {
    return OfOp(kernel, NoAttributes(), {x, x, column, column});
  }
  return NoInputs(kernel);
}
Sample Softmax(const std::string& kernel, At at) {
  return OfOp(kernel, NoAttributes(), {F32({at[0], at[1]})});
}
Sample Reduce(const std::string& kernel, At at) {
  return OfOp(kernel, ReduceAttributes{Reduction::kSum, false, {0}}, {F32({at[0], at[1]})});
}
Sample CrossEntropy(const std::string& kernel, At at) {
  const TensorType x = F32({at[0], at[1]}), column = F32({at[0]}), labels = I32({at[0]});
  if (kernel == "ce_max") return OfOp(kernel, NoAttributes(), {x});
  if (kernel == "ce_sum_exp") return OfOp(kernel, NoAttributes(), {x, column});
  if (kernel == "ce_gradient") {
    return OfOp(kernel, NoAttributes(), {x, column, column, labels, column}, at[1]);
  }
  return NoInputs(kernel);
}
Sample Embedding(const std::string& kernel, At at) {
  constexpr int64_t kRows = 256;
  const TensorType table = F32({kRows, at[1]}), ids = I32({at[0]});
  if (kernel == "embedding") return OfOp(kernel, NoAttributes(), {table, ids}, kRows);
  if (kernel == "add_sparse") {
    return OfOp(kernel, NoAttributes(), {table, ids, F32({at[0], at[1]})}, kRows);
  }
  return NoInputs(kernel);
}

// Instructions that are no op: what the compiler says of them (compiler/lower_boxing.cc).
KernelSample OfBox(const std::string& op, std::vector<Shape> inputs, Shape output) {
  KernelSample sample;
  sample.spec.op = op;
  for (const Shape& shape : inputs) {
    sample.spec.inputs.push_back(Shard::Whole(DType::kF32, shape));
  }
  sample.spec.outputs.push_back(Shard::Whole(DType::kF32, output));
  return sample;
}
// Bytes of the result, bytes of a contiguous run: half the rows of a matrix are copied into
// another.
Sample BoxCopy(const std::string&, At at) {
  const int64_t row = at[1] / 4, rows = at[0] / at[1];
  KernelSample sample = OfBox("fold", {{rows, 2 * row}}, {rows, row});
  FoldRegion region;
  region.extent = {rows, row};
  region.sources = region.fold = {0};
  region.source_offsets = {0};
  region.source_strides = {{2 * row, 1}};
  region.strides = {row, 1};
  sample.spec.regions = {region};
  sample.sizes = {2 * at[0], at[1]};
  return sample;
}
// Bytes of the result, and how many are summed up, a power of two.
Sample BoxFold(const std::string&, At at) {
  const int64_t elements = at[0] / 4;
  KernelSample sample = OfBox("fold", std::vector<Shape>(at[1], Shape{elements}), {elements});
  sample.spec.reduction = Reduction::kSum;
  FoldRegion region;
  region.extent = {elements};
  for (int source = 0; source < at[1]; ++source) {
    region.sources.push_back(source);
    region.fold.push_back(source);
    if (source > 0) region.fold.push_back(-1);
    region.source_offsets.push_back(0);
    region.source_strides.push_back({1});
  }
  region.strides = {1};
  sample.spec.regions = {region};
  sample.sizes = {at[0] * (at[1] + 1), at[1]};
  return sample;
}
Sample Accumulate(const std::string& kernel, At at) {
  KernelSample sample = OfBox(kernel, {{at[0]}}, {at[0]});
  sample.spec.reduction = Reduction::kSum;
  sample.sizes = {3 * 4 * at[0]};
  return sample;
}

}  // namespace

std::vector<KernelGrid> KernelGrids() {
  const std::vector<int64_t> few = {32, 128, 512}, many = {32, 128, 512, 2048};
  const std::vector<std::vector<int64_t>> elements = {{256, 4096, 32768, 262144, 2097152}};
  const std::vector<std::vector<int64_t>> rows = {{32, 256, 2048}, {64, 256, 1024}};
  const std::vector<std::vector<int64_t>> heads = {{4, 64}, {32, 64, 128, 256}, {16, 32, 64}};
  return {{"matmul", {many, few, few}, MatMul},
          {"matmul_input_gradient", {many, few, few}, InputGradient},
          {"matmul_weight_gradient", {few, few, many}, WeightGradient},
          {"attention", heads, Attention},
          {"attention_gradient", heads, Attention},
          {"add", elements, Binary},
          {"add_n", elements, AddN},
          {"multiply", elements, Binary},
          {"scale", elements, Unary},
          {"gelu", elements, Unary},
          {"gelu_gradient", elements, Binary},
          {"dropout", elements, Dropout},
          {"fill", elements, Fill},
          {"sum_squares", elements, Unary},
          {"adamw", elements, AdamW},
          {"layer_norm", rows, LayerNorm},
          {"layer_norm_gradient", rows, LayerNorm},
          {"layer_norm_parameter_gradient", rows, LayerNorm},
          {"softmax", rows, Softmax},
          {"reduce", rows, Reduce},
          {"ce_max", rows, CrossEntropy},
          {"ce_sum_exp", rows, CrossEntropy},
          {"ce_gradient", rows, CrossEntropy},
          {"embedding", rows, Embedding},
          {"add_sparse", rows, Embedding},
          {"fold",
           {{4096, 65536, 1048576, 4194304}, {64, 128, 256, 512, 1024, 4096}},
           BoxCopy,
           /*may_fall=*/1},
          {"fold_many", {{4096, 65536, 1048576, 4194304}, {2, 4}}, BoxFold},
          {"accumulate", elements, Accumulate}};
}

absl::Span<const OpWithoutGrid> OpsWithoutGrid() {
  static constexpr char kView[] = "a view: no instruction and no bytes";
  static constexpr char kBytes[] = "passes over its bytes once, as the flat rate of memory says";
  static constexpr char kScalars[] = "works on a few scalars, and takes no more than its launch";
  static constexpr char kUnused[] = "no model of ours has it: it gets a grid with the first one";
  static constexpr OpWithoutGrid ops[] = {
      {"reshape", kView},
      {"subtract", kBytes},
      {"divide", kBytes},
      {"cast", kBytes},
      {"slice", kBytes},
      {"pad", kBytes},
      {"concat", kBytes},
      {"broadcast", kBytes},
      {"transpose", kBytes},
      {"transpose_gradient", kBytes},
      {"sgd", kBytes},
      {"sgd_sparse", kBytes},
      {"sum_squares_sparse", kBytes},
      {"ce_pick", kBytes},
      {"ce_combine", kBytes},
      {"sqrt", kScalars},
      {"clip_factor", kScalars},
      {"matmul_right_gradient", kUnused},
      {"relu", kUnused},
      {"relu_gradient", kUnused},
      {"silu", kUnused},
      {"silu_gradient", kUnused},
      {"softmax_gradient", kUnused},
      {"embedding_gradient", kUnused},
      {"adamw_sparse", kUnused},
      {"sgd_value", kBytes},
      {"sgd_sparse_value", kUnused},
      {"adamw_value", kBytes},
      {"adamw_sparse_value", kUnused},
      {"assign", kBytes},
      {"assign_sparse", kUnused},
  };
  return ops;
}

std::vector<std::vector<int64_t>> PointsOf(const std::vector<std::vector<int64_t>>& axes) {
  std::vector<std::vector<int64_t>> points = {{}};
  for (const std::vector<int64_t>& axis : axes) {
    std::vector<std::vector<int64_t>> longer;
    for (const std::vector<int64_t>& point : points) {
      for (int64_t size : axis) {
        longer.push_back(point);
        longer.back().push_back(size);
      }
    }
    points = std::move(longer);
  }
  return points;
}

}  // namespace sluice
