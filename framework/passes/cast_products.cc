#include "framework/passes/cast_products.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/rewriter.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"

namespace sluice {

GraphPass CastProducts(DType dtype) {
  return {"cast_products", [dtype](const Graph& from) {
            return RewriteGraph(from, [&](const Node& node, GraphRewriter* rewriter) {
              if (node.op != &MatMulOp()) return rewriter->Copy(node);
              std::vector<Tensor> inputs = rewriter->MapAll(node.inputs);
              rewriter->Enter(node, "cast");
              for (Tensor& input : inputs) {
                if (input.dtype() != dtype) input = Cast(input, dtype);
              }
              const TensorId y = node.outputs[0];
              rewriter->Copy(node, inputs);
              const DType before = from.tensor(y).type.dtype;
              if (before != dtype) rewriter->Replace(y, Cast(rewriter->Map(y), before));
            });
          }};
}

}  // namespace sluice
