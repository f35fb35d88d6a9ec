// What a model makes of a whole data set. The session's thread.
#ifndef SLUICE_MODELS_WIDE_AND_DEEP_EVALUATE_H_
#define SLUICE_MODELS_WIDE_AND_DEEP_EVALUATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/data/dataset.h"
#include "framework/session/session.h"

namespace sluice {

// The logit of each sample, or of as many, spread evenly, as `batches` have; by the program "eval"
// of this batch. `samples`: which. Cancelled where `stop` has ended it. No step may be under way.
struct Judged {
  std::vector<int64_t> samples;
  std::vector<float> logits;
};
absl::StatusOr<Judged> LogitsOf(Session* session, const Dataset& data, int64_t batch,
                                int64_t batches, const Stop& stop = {});

}  // namespace sluice

#endif  // SLUICE_MODELS_WIDE_AND_DEEP_EVALUATE_H_
