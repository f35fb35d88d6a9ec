#include "framework/train/evaluation.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {

absl::StatusOr<double> FetchedScalar(const Fetches& fetches, absl::string_view name) {
  auto found = fetches.find(std::string(name));
  if (found == fetches.end()) {
    return absl::NotFoundError(absl::StrCat("the program has no output \"", name, "\""));
  }
  return LoadElement(found->second.dtype, found->second.bytes.data(), 0);
}

absl::StatusOr<double> MeanLoss(Session* session, const TextBatches& text, int64_t batches,
                                TokenBatch* batch) {
  Fetches fetches;
  double sum = 0;
  int64_t begun = 0;
  for (int64_t done = 0; done < batches; ++done) {
    for (; begun < batches && begun < done + 2; ++begun) {  // two steps in flight
      text.Spread(begun, batches, batch);
      RETURN_IF_ERROR(
          session->Step("eval", {{"tokens", &batch->tokens}, {"labels", &batch->labels}}));
    }
    RETURN_IF_ERROR(session->Next(&fetches));
    ASSIGN_OR_RETURN(const double loss, FetchedScalar(fetches, "loss"));
    sum += loss;
  }
  return sum / static_cast<double>(batches);
}

}  // namespace sluice
