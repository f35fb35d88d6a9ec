// Held-out data that another framework evaluates, too: a model with its initial values, on every
// sample of a small data set once. The figures of a layout must not depend on the batch, and must
// be those of the peer. For tests. One thread.
#ifndef SLUICE_FRAMEWORK_TESTING_REFERENCE_EVALUATION_H_
#define SLUICE_FRAMEWORK_TESTING_REFERENCE_EVALUATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/dataset.h"
#include "framework/graph/graph.h"
#include "framework/train/metrics.h"

namespace sluice {

struct ReferenceEvaluation {
  std::string name;  // of its folder, and in the record
  // The program "eval" for batches of this size.
  std::function<absl::Status(int64_t batch, Graph* graph)> build;
  std::function<absl::StatusOr<std::shared_ptr<const Dataset>>()> open_data;
  std::vector<Metric> metrics;
  // Sizes that the peer has to know.
  std::map<std::string, std::string> options;
};

// How an evaluation is run.
struct EvaluationLayout {
  std::string mesh = "data=1";
  int64_t micro_batches = 1, batch = 1;
};

// Writes what a peer needs into a folder, <folder>/<name>/: a checkpoint of the initial values with
// the options, step-000000, and held_out.safetensors, the fields of all samples [samples, ...].
absl::Status WriteReferenceEvaluation(const ReferenceEvaluation& of, const std::string& folder);

// Evaluates in a layout. DataLoss names the first figure that is further from the peer's than
// `bound`, relative to it; `record` is the file that the peer's script has written, with
//   "evaluations": {"<name>": {"samples": 47, "loss": 5.5, ..}}
absl::Status CheckReferenceEvaluation(const ReferenceEvaluation& of, const std::string& record,
                                      const EvaluationLayout& layout, double bound);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_REFERENCE_EVALUATION_H_
