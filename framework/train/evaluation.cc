#include "framework/train/evaluation.h"

#include <algorithm>

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

Feeds FeedsOf(const Dataset& data, const SampleOrder& order, int64_t first) {
  Feeds feeds;
  for (size_t i = 0; i < data.fields().size(); ++i) {
    feeds.emplace_back(data.fields()[i].name, SampleRows{&data, static_cast<int>(i), order, first});
  }
  return feeds;
}

absl::StatusOr<std::vector<double>> MeanMetrics(Session* session, const Dataset& data,
                                                absl::Span<const Metric> metrics, int64_t batches,
                                                int64_t rows, const Stop& stop) {
  const SampleOrder order = {SampleOrder::kSpread, /*seed=*/0, batches * rows};
  Fetches fetches;
  std::vector<double> sums(metrics.size());
  int64_t begun = 0, end = batches;
  absl::Status stopped;
  for (int64_t done = 0; done < end; ++done) {
    if (stopped.ok() && begun < batches) stopped = CheckStop(stop);
    if (!stopped.ok()) end = begun;  // what has begun is taken
    for (; begun < end && begun < done + Session::kStepsAhead; ++begun) {
      RETURN_IF_ERROR(session->Step("eval", FeedsOf(data, order, begun * rows)));
    }
    if (done == end) break;
    RETURN_IF_ERROR(session->Next(&fetches));
    if (fetches.empty()) continue;  // of several ranks the first has the results
    for (size_t i = 0; i < metrics.size(); ++i) {
      ASSIGN_OR_RETURN(const double value, FetchedScalar(fetches, metrics[i].name));
      sums[i] += value;
    }
  }
  RETURN_IF_ERROR(stopped);
  for (double& sum : sums) sum /= static_cast<double>(batches);
  return sums;
}

}  // namespace sluice
