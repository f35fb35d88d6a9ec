#include "framework/train/evaluation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

absl::StatusOr<const HostTensor*> Fetched(const Fetches& fetches, absl::string_view name) {
  const auto found = fetches.find(name);
  if (found != fetches.end()) return &found->second;
  return absl::NotFoundError(absl::StrCat("the program has no output \"", name, "\""));
}

// The sum of the first `rows` values of an output that has one for each of `batch` rows.
absl::StatusOr<double> SumOfRows(const Fetches& fetches, const std::string& name, int64_t batch,
                                 int64_t rows) {
  ASSIGN_OR_RETURN(const HostTensor* output, Fetched(fetches, name));
  if (output->shape != Shape{batch}) {
    return absl::InvalidArgumentError(absl::StrCat("output \"", name,
                                                   "\": expected a value for each of ", batch,
                                                   " rows, got ", output->shape.ToString()));
  }
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    sum += LoadElement(output->dtype, output->bytes.data(), row);
  }
  return sum;
}

}  // namespace

absl::StatusOr<double> FetchedScalar(const Fetches& fetches, absl::string_view name) {
  ASSIGN_OR_RETURN(const HostTensor* output, Fetched(fetches, name));
  return LoadElement(output->dtype, output->bytes.data(), 0);
}

Feeds FeedsOf(const Dataset& data, const SampleOrder& order, int64_t first) {
  Feeds feeds;
  for (size_t i = 0; i < data.fields().size(); ++i) {
    feeds.emplace_back(data.fields()[i].name, SampleRows{&data, static_cast<int>(i), order, first});
  }
  return feeds;
}

absl::Status RunPipelined(Session* session, int64_t steps, const Stop& stop,
                          const std::function<absl::Status(int64_t step)>& begin,
                          const std::function<absl::Status(int64_t step, const Fetches&)>& take) {
  Fetches fetches;
  int64_t begun = 0, end = steps;
  absl::Status stopped;
  for (int64_t done = 0; done < end; ++done) {
    if (stopped.ok() && begun < steps) stopped = CheckStop(stop);
    if (!stopped.ok()) end = begun;  // what has begun is taken
    for (; begun < end && begun < done + Session::kStepsAhead; ++begun) {
      RETURN_IF_ERROR(begin(begun));
    }
    if (done == end) break;
    RETURN_IF_ERROR(session->Next(&fetches));
    RETURN_IF_ERROR(take(done, fetches));
  }
  return stopped;
}

int64_t SamplesToEvaluate(const Dataset& data, const EvaluationOptions& options) {
  return std::min(data.num_samples(), options.most_samples);
}

absl::Status RunOverSamples(
    Session* session, absl::string_view program, const Dataset& data,
    const EvaluationOptions& options,
    const std::function<absl::Status(absl::Span<const int64_t> samples, const Fetches&)>& take) {
  const int64_t count = SamplesToEvaluate(data, options), batch = options.batch;
  const SampleOrder order = {SampleOrder::kSpread, /*seed=*/0, count};
  std::vector<int64_t> samples;
  const auto begin = [&](int64_t step) {
    return session->Step(program, FeedsOf(data, order, step * batch));
  };
  const auto end = [&](int64_t step, const Fetches& fetches) -> absl::Status {
    const int64_t first = step * batch, last = std::min(first + batch, count);
    if (options.progress) options.progress(last, count);
    if (fetches.empty()) return absl::OkStatus();  // the first rank has the results
    samples.clear();
    for (int64_t at = first; at < last; ++at) {
      samples.push_back(SampleAt(order, at, data.num_samples()));
    }
    return take(samples, fetches);
  };
  return RunPipelined(session, (count + batch - 1) / batch, options.stop, begin, end);
}

absl::StatusOr<Evaluation> EvaluateMetrics(Session* session, const Dataset& data,
                                           absl::Span<const Metric> metrics,
                                           const EvaluationOptions& options) {
  struct Sums {
    double values = 0, weights = 0;
  };
  std::vector<Sums> sums(metrics.size());
  bool is_first = false;
  const auto add = [&](absl::Span<const int64_t> samples, const Fetches& fetches) -> absl::Status {
    const auto rows = static_cast<int64_t>(samples.size());
    is_first = true;
    for (size_t i = 0; i < metrics.size(); ++i) {
      ASSIGN_OR_RETURN(const double value,
                       SumOfRows(fetches, metrics[i].name, options.batch, rows));
      double weight = static_cast<double>(rows);
      if (!metrics[i].weight.empty()) {
        ASSIGN_OR_RETURN(weight, SumOfRows(fetches, metrics[i].weight, options.batch, rows));
      }
      sums[i].values += value;
      sums[i].weights += weight;
    }
    return absl::OkStatus();
  };
  Evaluation evaluation;
  evaluation.samples = SamplesToEvaluate(data, options);
  evaluation.all_samples = data.num_samples();
  RETURN_IF_ERROR(RunOverSamples(session, "eval", data, options, add));
  if (!is_first) return evaluation;
  for (const Sums& sum : sums) evaluation.values.push_back(sum.values / sum.weights);
  return evaluation;
}

}  // namespace sluice
