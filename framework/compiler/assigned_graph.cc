#include "framework/compiler/assigned_graph.h"

#include <algorithm>
#include <utility>

namespace sluice {

AssignedGraph::AssignedGraph(const Graph& graph, const SbpAssignment& sbp)
    : graph_(graph), sbp_(sbp), readers_(graph.num_tensors()), kept_(graph.num_tensors()) {
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i) readers_[node.inputs[i]].push_back({&node, i});
  }
  for (const auto& output : graph.outputs()) kept_[output.second] = true;
}

bool AssignedGraph::ReadsAsMade(const Node& node, size_t input) const {
  const TensorId tensor = node.inputs[input];
  const GridSbp& sbp = ChoiceOf(node).inputs[input];
  return sbp == sbp_.produced[tensor] && sbp == sbp_.consumed[tensor] &&
         MakerOf(node, input).stage == node.stage;
}

bool AssignedGraph::ReadsInPlace(const Node& node, size_t input) const {
  return ReadsAsMade(node, input) && MakerOf(node, input).phase == node.phase;
}

bool AssignedGraph::KeepsLayout(const Node& node) const {
  const Choice& choice = ChoiceOf(node);
  for (const GridSbp& sbp : choice.inputs) {
    if (sbp != choice.outputs[0]) return false;
  }
  return true;
}

bool AssignedGraph::AreOfOneType(const Node& node) const {
  for (const TensorId input : node.inputs) {
    if (!(graph_.tensor(input).type == graph_.tensor(node.outputs[0]).type)) return false;
  }
  return true;
}

bool IsOnCuda(const Grid& grid, const Node& node) {
  const std::vector<DeviceId>& devices = grid.stage(std::max(node.stage, 0)).devices();
  return std::all_of(devices.begin(), devices.end(),
                     [](DeviceId device) { return device.kind == DeviceKind::kCuda; });
}

void AppendInput(const Choice& from, size_t input, size_t to, Choice* choice) {
  choice->inputs.insert(choice->inputs.begin() + to, from.inputs[input]);
  for (size_t a = 0; a < choice->signatures.size(); ++a) {
    std::vector<Sbp>& inputs = choice->signatures[a].inputs;
    inputs.insert(inputs.begin() + to, from.signatures[a].inputs[input]);
  }
}

void AppendInputLikeOutput(const Choice& from, size_t output, Choice* choice) {
  choice->inputs.push_back(from.outputs[output]);
  for (size_t a = 0; a < choice->signatures.size(); ++a) {
    choice->signatures[a].inputs.push_back(from.signatures[a].outputs[output]);
  }
}

void AppendOutputLikeInput(const Choice& from, size_t input, Choice* choice) {
  choice->outputs.push_back(from.inputs[input]);
  for (size_t a = 0; a < choice->signatures.size(); ++a) {
    choice->signatures[a].outputs.push_back(from.signatures[a].inputs[input]);
  }
}

void AppendOutput(const Choice& from, size_t output, Choice* choice) {
  choice->outputs.push_back(from.outputs[output]);
  for (size_t a = 0; a < choice->signatures.size(); ++a) {
    choice->signatures[a].outputs.push_back(from.signatures[a].outputs[output]);
  }
}

void Assigner::Assign(const Node& node, Choice choice, GraphRewriter& rewriter) {
  if (!rewriter.to()->status().ok()) return;
  new_.choices.push_back(std::move(choice));
  for (const TensorId tensor : node.outputs) {
    new_.produced.push_back(old_.produced[tensor]);
    new_.consumed.push_back(old_.consumed[tensor]);
  }
}

void Assigner::AssignAsMade(Choice choice, GraphRewriter& rewriter) {
  if (!rewriter.to()->status().ok()) return;
  for (const GridSbp& output : choice.outputs) {
    new_.produced.push_back(output);
    new_.consumed.push_back(output);
  }
  new_.choices.push_back(std::move(choice));
}

void Assigner::Copy(const Node& node, const std::vector<Tensor>& inputs, Choice choice,
                    GraphRewriter* rewriter) {
  rewriter->Copy(node, inputs);
  Assign(node, std::move(choice), *rewriter);
}

}  // namespace sluice
