#include "framework/testing/parity.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

absl::Status CompareOutputs(const ArrayMap& expected, const HostTensorMap& got, double tolerance) {
  for (const auto& output : expected) {
    const auto found = got.find(output.first);
    if (found == got.end()) {
      return absl::DataLossError(absl::StrCat("output ", output.first, " was not fetched"));
    }
    RETURN_IF_ERROR(CompareArrays(absl::StrCat("output ", output.first), output.second,
                                  found->second, tolerance));
  }
  return absl::OkStatus();
}

// Of an executor or a session.
template <typename T>
absl::Status CompareVariables(const ArrayMap& expected, T* executor, double tolerance) {
  for (const auto& variable : expected) {
    ASSIGN_OR_RETURN(const HostTensor value, executor->Read(variable.first));
    RETURN_IF_ERROR(CompareArrays(absl::StrCat("variable ", variable.first), variable.second, value,
                                  tolerance));
  }
  return executor->CheckReplicas();
}

}  // namespace

absl::StatusOr<InterpretedSteps> InterpretSteps(const Graph& graph,
                                                const std::vector<HostTensorMap>& feeds,
                                                uint64_t seed) {
  InterpretedSteps reference;
  ArrayMap variables = InitialVariables(graph, seed);
  for (size_t step = 0; step < feeds.size(); ++step) {
    ArrayMap arrays;
    for (const auto& feed : feeds[step]) arrays[feed.first] = ToArray(feed.second);
    InterpretOptions options;
    options.seed = seed;
    options.step = static_cast<int64_t>(step);
    ASSIGN_OR_RETURN(ArrayMap outputs, Interpret(graph, arrays, &variables, options));
    reference.outputs.push_back(std::move(outputs));
    reference.variables.push_back(variables);
  }
  return reference;
}

absl::Status CompareArrays(const std::string& name, const Array& expected, const HostTensor& got,
                           double tolerance) {
  if (expected.shape != got.shape) {
    return absl::DataLossError(absl::StrCat(name, ": expected shape ", expected.shape.ToString(),
                                            ", got ", got.shape.ToString()));
  }
  double largest = 0, difference = 0;
  size_t where = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double value = LoadElement(got.dtype, got.bytes.data(), static_cast<int64_t>(i));
    const double off = std::abs(value - expected.values[i]);
    largest = std::max(largest, std::abs(expected.values[i]));
    if (off <= difference) continue;
    where = i;
    difference = off;
    if (std::isnan(off)) break;  // stays: no comparison with it holds
  }
  if (difference <= tolerance * (1 + largest)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      name, ": element ", where, " is ", LoadElement(got.dtype, got.bytes.data(), where),
      ", expected ", expected.values[where], ", off by ", difference));
}

absl::Status CompareWithReference(const plan::Plan& plan, const std::vector<HostTensorMap>& feeds,
                                  const InterpretedSteps& reference, double tolerance,
                                  const PlanExecutorOptions& options, bool overlapped) {
  ASSIGN_OR_RETURN(const std::unique_ptr<PlanExecutor> executor,
                   PlanExecutor::Create(plan, options));
  std::vector<HostTensorMap> results;
  if (overlapped) {
    ASSIGN_OR_RETURN(results, executor->Steps(0, feeds, 0));
  }
  for (size_t step = 0; step < feeds.size(); ++step) {
    const std::string where = absl::StrCat("step ", step);
    if (!overlapped) {
      ASSIGN_OR_RETURN(HostTensorMap result,
                       executor->Step(0, feeds[step], static_cast<int64_t>(step)));
      results.push_back(std::move(result));
    }
    RETURN_IF_ERROR(
        AddContext(CompareOutputs(reference.outputs[step], results[step], tolerance), where));
    if (overlapped && step + 1 < feeds.size()) continue;
    RETURN_IF_ERROR(
        AddContext(CompareVariables(reference.variables[step], executor.get(), tolerance), where));
  }
  return absl::OkStatus();
}

absl::Status CompareSessionWithReference(Session* session, const std::vector<HostTensorMap>& feeds,
                                         const InterpretedSteps& reference, double tolerance) {
  for (const HostTensorMap& of_step : feeds) {
    Feeds step;
    for (const auto& feed : of_step) step.push_back({feed.first, &feed.second});
    RETURN_IF_ERROR(session->Step("train", step));
  }
  for (size_t step = 0; step < feeds.size(); ++step) {
    ASSIGN_OR_RETURN(const Fetches fetches, session->Next());
    RETURN_IF_ERROR(AddContext(CompareOutputs(reference.outputs[step], fetches, tolerance),
                               absl::StrCat("step ", step)));
  }
  return CompareVariables(reference.variables.back(), session, tolerance);
}

}  // namespace sluice
