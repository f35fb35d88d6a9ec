#include "models/wide_and_deep/evaluate.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {

absl::StatusOr<Judged> LogitsOf(Session* session, const Dataset& data,
                                const EvaluationOptions& options) {
  Judged judged;
  const auto add = [&](absl::Span<const int64_t> samples, const Fetches& fetches) -> absl::Status {
    const auto found = fetches.find("logits");
    if (found == fetches.end()) {
      return absl::NotFoundError("the program has no output \"logits\"");
    }
    for (size_t i = 0; i < samples.size(); ++i) {
      const double logit = LoadElement(found->second.dtype, found->second.bytes.data(), i);
      // It could not be sorted, and every figure made of it would be NaN.
      if (std::isnan(logit)) {
        return absl::OutOfRangeError(absl::StrCat("the logit of held-out sample ", samples[i],
                                                  " is NaN; a lower --lr may help"));
      }
      judged.samples.push_back(samples[i]);
      judged.logits.push_back(static_cast<float>(logit));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(RunOverSamples(session, "eval", data, options, add));
  return judged;
}

}  // namespace sluice
