// What a model makes of held-out data under the "eval" program of a session. The session's thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_
#define SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/data/dataset.h"
#include "framework/session/session.h"
#include "framework/train/metrics.h"

namespace sluice {

// Runs "eval" on `batches` batches spread evenly over a data set, whose fields are its inputs, and
// gives the mean of each metric; of several ranks, on the first. `rows` is the program's batch. No
// step may be under way, nor is one afterwards where `stop` has ended it: Cancelled.
absl::StatusOr<std::vector<double>> MeanMetrics(Session* session, const Dataset& data,
                                                absl::Span<const Metric> metrics, int64_t batches,
                                                int64_t rows, const Stop& stop = {});

// The element of a fetched scalar; NotFound if there is none of that name.
absl::StatusOr<double> FetchedScalar(const Fetches& fetches, absl::string_view name);

// The samples from a position of an order on, field by field, by their names; good while the data
// set lives.
Feeds FeedsOf(const Dataset& data, const SampleOrder& order, int64_t first);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_
