#include "framework/graph/interpreter.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/tensor/random.h"

namespace sluice {
namespace {

// The state of one run: the values that are still needed, by tensor.
class Run {
 public:
  Run(const Graph& graph, const InterpretOptions& options)
      : graph_(graph), options_(options), values_(graph.num_tensors()), readers_(values_.size()) {
    for (const Node& node : graph.nodes()) {
      for (TensorId id : node.inputs) ++readers_[id];
    }
    // Outputs and variables are read once more, at the end.
    for (const auto& output : graph.outputs()) ++readers_[output.second];
    for (NodeId variable : graph.variables()) ++readers_[graph.node(variable).outputs[0]];
  }

  absl::Status Load(NodeId source, const ArrayMap& from, absl::string_view what) {
    const Node& node = graph_.node(source);
    const TensorId id = node.outputs[0];
    const auto found = from.find(node.name);
    if (found == from.end()) {
      return absl::InvalidArgumentError(absl::StrCat(what, " ", node.name, " has no value"));
    }
    const Array& array = found->second;
    const Shape& shape = graph_.tensor(id).type.shape;
    if (array.shape != shape || static_cast<int64_t>(array.values.size()) != shape.NumElements()) {
      return absl::InvalidArgumentError(absl::StrCat(what, " ", node.name, ": expected shape ",
                                                     shape.ToString(), ", got ",
                                                     array.shape.ToString()));
    }
    values_[id] = array;
    return absl::OkStatus();
  }

  // Values move into the call and back, so that nothing is copied but a tensor that is read twice.
  absl::Status Execute(const Node& node) {
    if (node.op->reference == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat("op ", node.op->name, " has no reference implementation"));
    }
    std::vector<ShardArray> inputs, outputs;
    for (auto at = node.inputs.begin(); at != node.inputs.end(); ++at) {
      const auto first = std::find(node.inputs.begin(), at, *at);
      inputs.push_back(Whole(*at));
      inputs.back().array =
          first == at ? *std::move(values_[*at]) : Array(inputs[first - node.inputs.begin()].array);
    }
    for (TensorId id : node.outputs) {
      outputs.push_back(Whole(id));
      outputs.back().array = Array(graph_.tensor(id).type.shape);
    }
    const absl::Status status =
        node.op->reference({node.attributes, absl::MakeSpan(inputs), absl::MakeSpan(outputs),
                            options_.seed, options_.step});
    if (!status.ok()) return AddContext(status, node.name);
    for (size_t i = 0; i < node.outputs.size(); ++i) Keep(node.outputs[i], &outputs[i]);
    // Backwards, so that of a tensor that is read twice the first copy, the moved one, remains.
    for (size_t i = node.inputs.size(); i-- > 0;) Release(node.inputs[i], &inputs[i]);
    return absl::OkStatus();
  }

  const Array& value(TensorId id) const {
    SLUICE_CHECK(values_[id].has_value()) << "%" << id;
    return *values_[id];
  }

  void KeepAll(TensorId id) {
    if (options_.all != nullptr) (*options_.all)[id] = value(id);
  }

 private:
  ShardArray Whole(TensorId id) const {
    const TensorType& type = graph_.tensor(id).type;
    return {type, WholeBox(type.shape), Array()};
  }

  void Keep(TensorId id, ShardArray* shard) {
    if (options_.all != nullptr) (*options_.all)[id] = shard->array;
    if (readers_[id] > 0) values_[id] = std::move(shard->array);
  }

  void Release(TensorId id, ShardArray* shard) {
    if (--readers_[id] > 0) {
      values_[id] = std::move(shard->array);
    } else {
      values_[id].reset();
    }
  }

  const Graph& graph_;
  const InterpretOptions& options_;
  std::vector<std::optional<Array>> values_;
  std::vector<int64_t> readers_;  // reads to come
};

}  // namespace

Array InitialShard(const std::string& name, const VariableAttributes& init, const Shape& logical,
                   const Box& box, uint64_t seed) {
  const double alike = init.init == "constant" ? init.value : init.init == "ones" ? 1 : 0;
  Array shard(ShapeOf(box), alike);
  if (init.init == "ones" || init.init == "zeros" || init.init == "constant") return shard;
  SLUICE_CHECK(init.init == "normal" || init.init == "uniform") << name << ": init " << init.init;
  const auto draw = init.init == "normal" ? RandomNormal : RandomUniform;
  const int64_t key = RandomKey(name);
  size_t next = 0;
  ForEachRow(WholeBox(logical), box, [&](int64_t offset, int64_t length) {
    for (int64_t i = 0; i < length; ++i) {
      shard.values[next++] = init.stddev * draw(seed, key, offset + i);
    }
  });
  return shard;
}

ArrayMap InitialVariables(const Graph& graph, uint64_t seed) {
  ArrayMap variables;
  for (NodeId id : graph.variables()) {
    const Node& node = graph.node(id);
    const TensorType& type = graph.tensor(node.outputs[0]).type;
    const Array exact = InitialShard(node.name, std::get<VariableAttributes>(node.attributes),
                                     type.shape, WholeBox(type.shape), seed);
    variables[node.name] = ToArray(FromArray(exact, type.dtype));
  }
  return variables;
}

absl::StatusOr<ArrayMap> Interpret(const Graph& graph, const ArrayMap& feeds, ArrayMap* variables,
                                   const InterpretOptions& options) {
  RETURN_IF_ERROR(graph.status());
  Run run(graph, options);
  for (NodeId id : graph.inputs()) RETURN_IF_ERROR(run.Load(id, feeds, "input"));
  for (NodeId id : graph.variables()) RETURN_IF_ERROR(run.Load(id, *variables, "variable"));
  for (const auto& feed : feeds) {
    bool known = false;
    for (NodeId id : graph.inputs()) known = known || graph.node(id).name == feed.first;
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("there is no input ", feed.first));
    }
  }
  for (const Node& node : graph.nodes()) {
    if (node.op == &InputOp() || node.op == &VariableOp()) {
      run.KeepAll(node.outputs[0]);
    } else {
      RETURN_IF_ERROR(run.Execute(node));
    }
  }
  ArrayMap outputs;
  for (const auto& output : graph.outputs()) outputs[output.first] = run.value(output.second);
  for (NodeId id : graph.variables()) {
    (*variables)[graph.node(id).name] = run.value(graph.node(id).outputs[0]);
  }
  return outputs;
}

}  // namespace sluice
