// Runs a program of a session over held-out data. Each sample counts once, whatever the batch: the
// last batch is filled up with copies of the last sample, whose results are left out. The session's
// thread calls everything here; of several ranks all call it together, and the first has the
// results.
#ifndef SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_
#define SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/data/dataset.h"
#include "framework/data/sample_order.h"
#include "framework/session/session.h"
#include "framework/train/metrics.h"

namespace sluice {

struct EvaluationOptions {
  int64_t most_samples = INT64_MAX;  // spread evenly over the data; fewer than that are all taken
  int64_t batch = 1;                 // rows that the program takes at once
  Stop stop = {};                    // asked before each batch; may be empty
  // Called with the samples that are done and those that will be, on all ranks; may be empty.
  std::function<void(int64_t done, int64_t samples)> progress = {};
};

// How many samples of `data` an evaluation counts.
int64_t SamplesToEvaluate(const Dataset& data, const EvaluationOptions& options);

// Runs steps number 0 to `steps` - 1, as many at a time as a session holds. `begin` begins a step,
// and `take` gets its results, which are empty on all ranks but the first. No step may be under way
// before, and none is afterwards. Cancelled where `stop` ended it.
absl::Status RunPipelined(Session* session, int64_t steps, const Stop& stop,
                          const std::function<absl::Status(int64_t step)>& begin,
                          const std::function<absl::Status(int64_t step, const Fetches&)>& take);

// Runs `program`, whose inputs are the fields of `data`. `take` gets the results of each batch on
// the first rank: row i is of sample samples[i], and rows behind these are copies to leave out.
// Samples ascend, and none comes twice.
absl::Status RunOverSamples(
    Session* session, absl::string_view program, const Dataset& data,
    const EvaluationOptions& options,
    const std::function<absl::Status(absl::Span<const int64_t> samples, const Fetches&)>& take);

// The metrics under the program "eval". NotFound names an output that the program lacks;
// InvalidArgument one that has not a value a row.
absl::StatusOr<Evaluation> EvaluateMetrics(Session* session, const Dataset& data,
                                           absl::Span<const Metric> metrics,
                                           const EvaluationOptions& options);

// The element of a fetched scalar; NotFound if there is none of that name.
absl::StatusOr<double> FetchedScalar(const Fetches& fetches, absl::string_view name);

// The samples from a position of an order on, field by field, by their names; good while the data
// set lives.
Feeds FeedsOf(const Dataset& data, const SampleOrder& order, int64_t first);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_
