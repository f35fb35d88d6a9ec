// Small models that tests of several packages share.
#ifndef SLUICE_FRAMEWORK_TESTING_MODELS_H_
#define SLUICE_FRAMEWORK_TESTING_MODELS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/graph/graph.h"
#include "framework/passes/optimizer.h"
#include "framework/tensor/array.h"

namespace sluice {

// A multi-layer perceptron with softmax cross entropy. Each layer is a block.
struct MlpOptions {
  int64_t batch = 8;
  std::vector<int64_t> widths = {6, 10, 12, 8};  // of input, hidden layers, classes
  DType dtype = DType::kF32;
  // SBP annotations of the weight and bias of layer i; missing ones are empty.
  std::vector<std::pair<std::string, std::string>> annotation;
  double dropout = 0;
  bool training = true;
  OptimizerOptions optimizer;
};

// Inputs "x" [batch, width] and "label" i32 [batch], both data:S0; outputs "loss" (and
// "grad_norm"). The graph is finished.
absl::Status BuildMlp(Graph* graph, const MlpOptions& options);

// Column annotations on even layers, row annotations on odd ones: the pair needs one reduction.
std::vector<std::pair<std::string, std::string>> MegatronAnnotations(int layers);

// A learnable batch: labels are the largest of some inputs. A function of the step alone.
std::vector<std::pair<std::string, HostTensor>> MlpBatch(const MlpOptions& options, int64_t step,
                                                         double learning_rate);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_MODELS_H_
