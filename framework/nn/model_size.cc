#include "framework/nn/model_size.h"

#include <vector>

namespace sluice {

ModelSize SizeOfModel(const Graph& forward) {
  ModelSize size;
  for (const auto& [tensor, of] : forward.TensorsOf(Role::kParameter)) {
    size.parameters += forward.tensor(tensor).type.shape.NumElements();
  }
  std::vector<TensorType> inputs, outputs;
  for (const Node& node : forward.nodes()) {
    // What the precision is chosen for is what multiplies.
    if (node.op->computes_in != ComputesIn::kLow || node.op->cost == nullptr) continue;
    inputs.clear();
    outputs.clear();
    for (const TensorId id : node.inputs) inputs.push_back(forward.tensor(id).type);
    for (const TensorId id : node.outputs) outputs.push_back(forward.tensor(id).type);
    const int64_t flops = node.op->cost({node.attributes, inputs, outputs}).flops;
    size.flops += flops;
    if (node.op->name == "conv2d") size.convolution_flops += flops;
  }
  return size;
}

}  // namespace sluice
