#include "framework/testing/reference_evaluation.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/data/batch.h"
#include "framework/session/session.h"
#include "framework/train/evaluation.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

absl::StatusOr<std::unique_ptr<Session>> StartSession(const ReferenceEvaluation& of,
                                                      const EvaluationLayout& layout) {
  Graph graph;
  RETURN_IF_ERROR(of.build(layout.batch, &graph));
  SessionOptions options;
  options.mesh = layout.mesh;
  options.micro_batches = layout.micro_batches;
  return Session::Start({{"eval", &graph}}, options);
}

absl::Status WriteInitialValues(const ReferenceEvaluation& of, const std::string& folder) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, StartSession(of, {}));
  std::vector<TensorEntry> variables;
  for (const VariableInfo& v : session->variables()) {
    variables.push_back({v.name, v.dtype, v.shape});
  }
  CheckpointMeta meta;
  meta.options = of.options;
  return SaveCheckpoint(folder, meta, variables,
                        [&session](const TensorEntry& entry) { return session->Read(entry.name); })
      .status();
}

absl::StatusOr<double> FigureOf(const std::string& path, const std::string& name,
                                const std::string& metric) {
  constexpr int64_t kRecordLimit = 1'000'000;
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, kRecordLimit));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer place("/evaluations/" + name + "/" + metric);
  if (!json.is_object() || !json.contains(place) || !json[place].is_number()) {
    return absl::DataLossError(absl::StrCat(path, ": expected the number evaluations, ", name, ", ",
                                            metric, ", got none"));
  }
  return json[place].get<double>();
}

}  // namespace

absl::Status WriteReferenceEvaluation(const ReferenceEvaluation& of, const std::string& folder) {
  const std::string own = absl::StrCat(folder, "/", of.name);
  RETURN_IF_ERROR(CreateDirectories(own));
  RETURN_IF_ERROR(WriteInitialValues(of, own));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data, of.open_data());
  const int64_t samples = data->num_samples();
  Batch batch(*data, samples);
  RETURN_IF_ERROR(ReadBatch(*data, {SampleOrder::kSpread, /*seed=*/0, samples}, 0, &batch));
  std::vector<TensorEntry> entries;
  std::map<std::string, const HostTensor*> values;
  for (size_t f = 0; f < batch.names.size(); ++f) {
    entries.push_back({batch.names[f], batch.tensors[f].dtype, batch.tensors[f].shape});
    values[batch.names[f]] = &batch.tensors[f];
  }
  return WriteSafetensors(own + "/held_out.safetensors", entries, {},
                          [&values](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
                            return *values.at(entry.name);
                          });
}

absl::Status CheckReferenceEvaluation(const ReferenceEvaluation& of, const std::string& record,
                                      const EvaluationLayout& layout, double bound) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data, of.open_data());
  ASSIGN_OR_RETURN(const double samples, FigureOf(record, of.name, "samples"));
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, StartSession(of, layout));
  ASSIGN_OR_RETURN(const Evaluation evaluation,
                   EvaluateMetrics(session.get(), *data, of.metrics, {.batch = layout.batch}));
  if (static_cast<double>(evaluation.samples) != samples || !evaluation.is_whole()) {
    return absl::DataLossError(
        absl::StrCat("expected ", samples, " samples, got ", evaluation.samples));
  }
  for (size_t i = 0; i < of.metrics.size(); ++i) {
    ASSIGN_OR_RETURN(const double expected, FigureOf(record, of.name, of.metrics[i].name));
    const double got = evaluation.values[i];
    if (std::abs(got - expected) <= bound * std::abs(expected)) continue;
    return absl::DataLossError(absl::StrFormat(
        "%s of %s on %s in batches of %d, %d micro-batches: expected %.9g within %.1e, got %.9g",
        of.metrics[i].name, of.name, layout.mesh, layout.batch, layout.micro_batches, expected,
        bound, got));
  }
  return absl::OkStatus();
}

}  // namespace sluice
