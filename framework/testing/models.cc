#include "framework/testing/models.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ops/ops.h"
#include "framework/tensor/random.h"

namespace sluice {

absl::Status BuildMlp(Graph* graph, const MlpOptions& options) {
  Tensor x = graph->Input("x", options.dtype, {options.batch, options.widths[0]}, "data:S0");
  Tensor label = graph->Input("label", DType::kI32, {options.batch}, "data:S0");
  const int layers = static_cast<int>(options.widths.size()) - 1;
  for (int i = 0; i < layers; ++i) {
    const Scope scope = Scope(graph).Block(absl::StrCat("layer", i));
    const InScope here(scope);
    const int64_t in = options.widths[i], out = options.widths[i + 1];
    const bool annotated = i < static_cast<int>(options.annotation.size());
    VariableAttributes init;
    init.init = "normal";
    init.stddev = 0.4;
    Tensor weight = graph->Variable(scope.path() + "/weight", options.dtype, {in, out}, init,
                                    annotated ? options.annotation[i].first : "");
    Tensor bias = graph->Variable(scope.path() + "/bias", options.dtype, {out}, {},
                                  annotated ? options.annotation[i].second : "");
    x = MatMul(x, weight) + bias;
    if (i + 1 < layers) x = Relu(x);
    if (i + 1 < layers && options.dropout > 0) x = Dropout(x, options.dropout);
  }
  Tensor loss;
  {
    const InScope here(Scope(graph) / "loss");
    loss = Mean(SoftmaxCrossEntropy(x, label));
  }
  if (options.training) {
    RETURN_IF_ERROR(AddTraining(graph, loss, options.optimizer));
  } else {
    graph->Output("loss", loss);
  }
  return graph->Finish();
}

std::vector<std::pair<std::string, std::string>> MegatronAnnotations(int layers) {
  std::vector<std::pair<std::string, std::string>> annotation;
  for (int i = 0; i < layers; ++i) {
    if (i % 2 == 0) {
      annotation.push_back({"model:S1", "model:S0"});
    } else {
      annotation.push_back({"model:S0", ""});
    }
  }
  return annotation;
}

std::vector<std::pair<std::string, HostTensor>> MlpBatch(const MlpOptions& options, int64_t step,
                                                         double learning_rate) {
  const int64_t width = options.widths[0], classes = options.widths.back();
  Array x(Shape{options.batch, width}), label(Shape{options.batch});
  for (int64_t b = 0; b < options.batch; ++b) {
    for (int64_t i = 0; i < width; ++i) {
      x.values[b * width + i] = RandomNormal(7, step, b * width + i);
    }
    const auto row = x.values.begin() + b * width;
    label.values[b] =
        static_cast<double>(std::max_element(row, row + std::min(width, classes)) - row);
  }
  Array rate(Shape{}, learning_rate), count(Shape{}, static_cast<double>(step + 1));
  std::vector<std::pair<std::string, HostTensor>> batch;
  batch.push_back({"x", FromArray(x, options.dtype)});
  batch.push_back({"label", FromArray(label, DType::kI32)});
  if (options.training) {
    batch.push_back({"learning_rate", FromArray(rate, DType::kF32)});
    batch.push_back({"step", FromArray(count, DType::kI32)});
  }
  return batch;
}

}  // namespace sluice
