#include "framework/passes/cast_products.h"

#include <vector>

#include "framework/graph/rewriter.h"
#include "framework/ops/ops.h"

namespace sluice {

GraphPass CastProducts(DType dtype) {
  return {"cast_products", [dtype](const Graph& from) {
            return RewriteGraph(from, [&](const Node& node, GraphRewriter* rewriter) {
              if (node.op->computes_in != ComputesIn::kLow) return rewriter->Copy(node);
              std::vector<Tensor> inputs = rewriter->MapAll(node.inputs);
              rewriter->Enter(node, "cast");
              for (Tensor& input : inputs) {
                if (IsFloat(input.dtype())) input = Cast(input, dtype);
              }
              rewriter->Copy(node, inputs);
              for (TensorId y : node.outputs) {
                const DType before = from.tensor(y).type.dtype;
                const Tensor low = rewriter->Map(y);
                if (low.dtype() != before) rewriter->Replace(y, Cast(low, before));
              }
            });
          }};
}

}  // namespace sluice
