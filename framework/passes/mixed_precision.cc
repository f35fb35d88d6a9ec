#include "framework/passes/mixed_precision.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/graph/rewriter.h"
#include "framework/ops/ops.h"

namespace sluice {
namespace {

class Casts {
 public:
  explicit Casts(const PrecisionOptions& options) : options_(options) {}

  void Visit(const Node& node, GraphRewriter* rewriter) {
    from_parameters_.resize(rewriter->from().num_tensors());
    std::vector<Tensor> inputs = rewriter->MapAll(node.inputs);
    const DType wanted = OperandType(node, inputs, rewriter->from());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool f32 = rewriter->from().tensor(node.inputs[i]).type.dtype == DType::kF32;
      if (!f32 || !IsOperand(node, inputs, i)) continue;
      inputs[i] = CastOnce(inputs[i], wanted, from_parameters_[node.inputs[i]], node, rewriter);
    }
    rewriter->Copy(node, inputs);
    const bool parameters = node.op == &VariableOp() || AllFromParameters(node);
    for (const TensorId output : node.outputs) from_parameters_[output] = parameters;
    // What the caller reads keeps its type.
    for (const auto& [name, output] : rewriter->from().outputs()) {
      if (rewriter->from().tensor(output).producer != node.id) continue;
      const Tensor made = rewriter->Map(output);
      const Tensor cast =
          CastOnce(made, rewriter->from().tensor(output).type.dtype, false, node, rewriter);
      if (cast && cast.id() != made.id()) rewriter->Replace(output, cast);
    }
  }

 private:
  bool AllFromParameters(const Node& node) const {
    return !node.inputs.empty() && std::ranges::all_of(node.inputs, [&](TensorId input) {
      return static_cast<bool>(from_parameters_[input]);
    });
  }

  static bool IsOperand(const Node& node, const std::vector<Tensor>& inputs, size_t i) {
    return IsFloat(inputs[i].dtype()) && !InputPort(*node.op, i).statistic;
  }

  // The type that operands which were f32 are to have.
  DType OperandType(const Node& node, const std::vector<Tensor>& inputs, const Graph& from) const {
    switch (node.op->computes_in) {
      case ComputesIn::kF32:
        return DType::kF32;
      case ComputesIn::kLow:
        return options_.compute;
      case ComputesIn::kEither:
        break;
    }
    if (!node.outputs.empty() && from.tensor(node.outputs[0]).role == Role::kResidual) {
      return options_.residual;
    }
    bool low = false, high_activation = false;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!IsOperand(node, inputs, k)) continue;
      low |= inputs[k].dtype() == options_.compute;
      high_activation |= inputs[k].dtype() != options_.compute && !from_parameters_[node.inputs[k]];
    }
    return low && !high_activation ? options_.compute : DType::kF32;
  }

  Tensor CastOnce(Tensor x, DType dtype, bool of_parameters, const Node& reader,
                  GraphRewriter* rewriter) {
    if (!x || x.dtype() == dtype) return x;
    Tensor& cast = cast_[{x.id(), dtype}];
    if (!cast) {
      // A parameter's cast is kept as the parameter is, not computed again with the reader.
      Node where = reader;
      if (of_parameters) where.region = -1;
      rewriter->Enter(where, DTypeName(dtype));
      cast = Cast(x, dtype);
    }
    return cast;
  }

  const PrecisionOptions options_;
  std::vector<bool> from_parameters_;  // by old tensor: computed from variables alone
  std::map<std::pair<TensorId, DType>, Tensor> cast_;  // of new tensors
};

}  // namespace

GraphPass MixedPrecision(const PrecisionOptions& options) {
  return {"mixed_precision", [options](const Graph& from) {
            Casts casts(options);
            return RewriteGraph(from, [&](const Node& node, GraphRewriter* rewriter) {
              casts.Visit(node, rewriter);
            });
          }};
}

absl::Status FinishIn(const PrecisionOptions& options, Graph* graph) {
  RETURN_IF_ERROR(graph->Finish());
  if (options.compute == DType::kF32) return absl::OkStatus();  // the pass would only copy
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> low, RunPasses(*graph, {MixedPrecision(options)}));
  *graph = std::move(*low);
  return absl::OkStatus();
}

}  // namespace sluice
