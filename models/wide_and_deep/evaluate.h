// What a model makes of a whole data set. The session's thread.
#ifndef SLUICE_MODELS_WIDE_AND_DEEP_EVALUATE_H_
#define SLUICE_MODELS_WIDE_AND_DEEP_EVALUATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/dataset.h"
#include "framework/session/session.h"
#include "framework/train/evaluation.h"

namespace sluice {

// The logit of each sample that was evaluated; of several ranks, on the first.
struct Judged {
  std::vector<int64_t> samples;
  std::vector<float> logits;
};

// Runs the program "eval". OutOfRange names a sample whose logit is NaN; Cancelled where
// options.stop has ended it. No step may be under way.
absl::StatusOr<Judged> LogitsOf(Session* session, const Dataset& data,
                                const EvaluationOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_WIDE_AND_DEEP_EVALUATE_H_
