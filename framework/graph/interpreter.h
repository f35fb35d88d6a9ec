// Graph + reference implementations = the oracle of every other test: one device, the whole batch,
// f64.
#ifndef SLUICE_FRAMEWORK_GRAPH_INTERPRETER_H_
#define SLUICE_FRAMEWORK_GRAPH_INTERPRETER_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "framework/graph/graph.h"

namespace sluice {

using ArrayMap = std::map<std::string, Array, std::less<>>;

// Initial values of all variables of a graph, by name, under a seed.
ArrayMap InitialVariables(const Graph& graph, uint64_t seed);
// The initial values of one box of a variable; what every device computes for its own shard.
Array InitialShard(const std::string& name, const VariableAttributes& init, const Shape& logical,
                   const Box& box, uint64_t seed);

struct InterpretOptions {
  uint64_t seed = 0;
  int64_t step = 0;
  // Values of every tensor are kept under "tensor id" text if set; for finding the first
  // difference.
  std::map<TensorId, Array>* all = nullptr;
};
// Runs the graph once: returns its named outputs; variables change in place where ops update them.
absl::StatusOr<ArrayMap> Interpret(const Graph& graph, const ArrayMap& feeds, ArrayMap* variables,
                                   const InterpretOptions& options);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_GRAPH_INTERPRETER_H_
