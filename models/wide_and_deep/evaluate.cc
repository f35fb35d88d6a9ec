#include "models/wide_and_deep/evaluate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/sample_order.h"
#include "framework/train/evaluation.h"

namespace sluice {

// Batches are whole: what the last one lacks are samples that others have, and each counts once.
absl::StatusOr<Judged> LogitsOf(Session* session, const Dataset& data, int64_t batch,
                                int64_t batches, const Stop& stop) {
  const int64_t all = (data.num_samples() + batch - 1) / batch;
  batches = std::min(batches, all);
  const SampleOrder order = {SampleOrder::kSpread, /*seed=*/0, batches * batch};
  Judged judged;
  Fetches fetches;
  int64_t begun = 0;
  absl::Status stopped;
  for (int64_t done = 0; done < batches; ++done) {
    if (stopped.ok()) stopped = CheckStop(stop);
    for (; stopped.ok() && begun < std::min(batches, done + Session::kStepsAhead); ++begun) {
      RETURN_IF_ERROR(session->Step("eval", FeedsOf(data, order, begun * batch)));
    }
    if (done == begun) break;
    RETURN_IF_ERROR(session->Next(&fetches));
    if (fetches.empty()) continue;  // of several ranks the first has the results
    const auto found = fetches.find("logits");
    if (found == fetches.end()) return absl::NotFoundError("the program has no output \"logits\"");
    for (int64_t i = 0; i < batch; ++i) {
      const int64_t sample = SampleAt(order, done * batch + i, data.num_samples());
      if (!judged.samples.empty() && sample <= judged.samples.back()) continue;
      judged.samples.push_back(sample);
      judged.logits.push_back(
          static_cast<float>(LoadElement(found->second.dtype, found->second.bytes.data(), i)));
    }
  }
  RETURN_IF_ERROR(stopped);
  return judged;
}

}  // namespace sluice
