// The mean loss of a text under the "eval" program of a session. The session's thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_
#define SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/data/text_batches.h"
#include "framework/session/session.h"

namespace sluice {

// Runs "eval" (inputs tokens and labels, output loss) on `batches` batches spread evenly over the
// text. `batch` is of the program's shape and is overwritten. No step may be under way.
absl::StatusOr<double> MeanLoss(Session* session, const TextBatches& text, int64_t batches,
                                TokenBatch* batch);

// The element of a fetched scalar; NotFound if there is none of that name.
absl::StatusOr<double> FetchedScalar(const Fetches& fetches, absl::string_view name);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_EVALUATION_H_
