// What a model makes of held-out data under the "eval" program of a session. The session's thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_
#define SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/data/batch.h"
#include "framework/session/session.h"
#include "framework/train/metrics.h"

namespace sluice {

// Runs "eval" on `batches` batches spread evenly over a data set, whose fields are its inputs, and
// gives the mean of each metric. `batch` is of the program's shape and is overwritten. No step may
// be under way.
absl::StatusOr<std::vector<double>> MeanMetrics(Session* session, const Dataset& data,
                                                absl::Span<const Metric> metrics, int64_t batches,
                                                Batch* batch);

// The element of a fetched scalar; NotFound if there is none of that name.
absl::StatusOr<double> FetchedScalar(const Fetches& fetches, absl::string_view name);

// Feeds of the batch's tensors, by their fields' names; good while it lives.
Feeds FeedsOf(const Batch& batch);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_
