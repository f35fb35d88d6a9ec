// A random model that trains: every op of the list that has a gradient, used as its cases and its
// index rule say and asked for any of its signatures, among patterns of several ops; an optimizer,
// random extents (uneven, 1), random SBP annotations on parameters and tensors, a random mesh of
// four devices. A function of the seed and the list of ops, which a new op changes in few places.
// Values stay small and away from the kinks of relu and sqrt, so that layouts differ from one
// device by rounding only. For tests; one thread.
#ifndef SLUICE_FRAMEWORK_TESTING_RANDOM_GRAPH_H_
#define SLUICE_FRAMEWORK_TESTING_RANDOM_GRAPH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/graph.h"
#include "framework/sbp/mesh.h"
#include "framework/testing/plan_executor.h"

namespace sluice {

struct RandomGraph {
  std::unique_ptr<Graph> graph;  // finished
  Mesh mesh;
  int64_t micro_batches = 1;
  int64_t script_length = 0;
  std::vector<HostTensorMap> feeds;  // of each step
};

// Everything is of `dtype`, f64 or f32, but ids, rates and counts. Errors: the graph's own, which
// would be a fault of this generator or of the ops.
absl::StatusOr<RandomGraph> MakeRandomGraph(uint64_t seed, int steps, DType dtype = DType::kF64);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_RANDOM_GRAPH_H_
