#include "framework/session/test_model.h"

#include "framework/ops/ops.h"
#include "framework/passes/optimizer.h"

namespace sluice {
namespace {

constexpr int64_t kInner = 12;

}  // namespace

absl::Status BuildTestModel(Graph* graph, int stages, bool training) {
  Tensor ids = graph->Input("ids", DType::kI32, {kTestModelBatch}, "data:S0");
  Tensor labels = graph->Input("labels", DType::kI32, {kTestModelBatch}, "data:S0");
  VariableAttributes normal;
  normal.init = "normal";
  normal.stddev = 0.3;
  const Scope first = Scope(graph).Stage(0) / "first";
  const Scope last = Scope(graph).Stage(stages - 1) / "last";
  Tensor x;
  {
    const InScope here(first);
    x = Embedding(first.Param("table", {kTestModelWords, kTestModelWidth}, "", normal), ids);
    x = MatMul(x, first.Param("up", {kTestModelWidth, kInner}, "model:S1", normal)) +
        first.Param("up_bias", {kInner}, "model:S0");
    x = Gelu(x);
    if (training) x = Dropout(x, 0.25);
  }
  x = MatMul(x, last.Param("down", {kInner, kTestModelWidth}, "model:S0", normal)) +
      last.Param("down_bias", {kTestModelWidth}, "");
  Tensor loss = Mean(SoftmaxCrossEntropy(x, labels));
  if (training) {
    OptimizerOptions options;
    options.clip = 0.5;
    options.weight_decay = 0.1;
    const absl::Status status = AddTraining(graph, loss, options);
    if (!status.ok()) return status;
  } else {
    graph->Output("loss", loss);
  }
  return graph->Finish();
}

}  // namespace sluice
