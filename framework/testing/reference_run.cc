#include "framework/testing/reference_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr int64_t kRecordLimit = 1'000'000;

absl::string_view BytesOf(const HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

absl::StatusOr<double> Scalar(const Fetches& fetches, absl::string_view name) {
  const auto found = fetches.find(name);
  if (found == fetches.end()) return absl::NotFoundError(absl::StrCat("no output ", name));
  return found->second.data<float>()[0];
}

// One field of all batches, the steps outermost.
HostTensor Stack(const std::vector<Batch>& batches, size_t field) {
  const HostTensor& one = batches[0].tensors[field];
  Shape shape = {static_cast<int64_t>(batches.size())};
  for (const int64_t extent : one.shape) shape.Append(extent);
  HostTensor all(one.dtype, shape);
  auto to = all.bytes.begin();
  for (const Batch& batch : batches) {
    const std::vector<std::byte>& bytes = batch.tensors[field].bytes;
    to = std::copy(bytes.begin(), bytes.end(), to);
  }
  return all;
}

absl::StatusOr<std::vector<double>> Numbers(const std::string& path, const Json& json,
                                            const char* key) {
  std::vector<double> values;
  if (json.contains(key) && json[key].is_array()) {
    for (const Json& value : json[key]) {
      if (value.is_number()) values.push_back(value.get<double>());
    }
  }
  if (static_cast<int64_t>(values.size()) == kReferenceRunSteps) return values;
  return absl::DataLossError(absl::StrCat(path, ": ", key, ": expected ", kReferenceRunSteps,
                                          " numbers, got ", values.size()));
}

double Relative(double expected, double got) {
  const double difference = std::fabs(got - expected) / std::fabs(expected);
  return std::isnan(difference) ? HUGE_VAL : difference;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReferenceRun>> ReferenceRun::Start(const ReferenceRunCase& of) {
  std::unique_ptr<ReferenceRun> run(new ReferenceRun(of));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data, of.open_data());
  StableHasher hasher;
  for (int64_t step = 0; step < kReferenceRunSteps; ++step) {
    Batch batch(*data, of.batch);
    RETURN_IF_ERROR(ReadBatch(*data, of.order, step * of.batch, &batch));
    for (const HostTensor& tensor : batch.tensors) hasher.Add(BytesOf(tensor));
    run->batches_.push_back(std::move(batch));
  }
  run->batches_digest_ = HashText(hasher.digest());
  Graph graph;
  RETURN_IF_ERROR(of.build(&graph));
  const std::vector<ProgramGraph> programs = {{"train", &graph}};
  ASSIGN_OR_RETURN(run->session_, Session::Start(programs, SessionOptions()));
  return absl::StatusOr<std::unique_ptr<ReferenceRun>>(std::move(run));
}

absl::Status ReferenceRun::WriteInputs(const std::string& folder) {
  RETURN_IF_ERROR(CreateDirectories(folder));
  CheckpointMeta meta;
  meta.seed = SessionOptions().seed;
  meta.options = case_.options;
  meta.options["batches_digest"] = batches_digest_;
  ASSIGN_OR_RETURN(meta.options["initial_digest"], InitialDigest());
  std::vector<TensorEntry> variables;
  for (const VariableInfo& v : session_->variables()) {
    variables.push_back({v.name, v.dtype, v.shape});
  }
  RETURN_IF_ERROR(SaveCheckpoint(folder, meta, variables, [this](const TensorEntry& entry) {
                    return session_->Read(entry.name);
                  }).status());
  HostTensor rates(DType::kF32, {kReferenceRunSteps});
  for (int64_t step = 0; step < kReferenceRunSteps; ++step) {
    rates.data<float>()[step] = RateOf(step);
  }
  std::map<std::string, HostTensor> values = {{"learning_rate", std::move(rates)}};
  for (size_t field = 0; field < batches_[0].names.size(); ++field) {
    values[batches_[0].names[field]] = Stack(batches_, field);
  }
  std::vector<TensorEntry> entries;
  for (const auto& value : values) {
    entries.push_back({value.first, value.second.dtype, value.second.shape});
  }
  return WriteSafetensors(folder + "/batches.safetensors", entries, {},
                          [&values](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
                            return values.at(entry.name);
                          });
}

absl::StatusOr<std::string> ReferenceRun::InitialDigest() {
  StableHasher hasher;
  for (const VariableInfo& variable : session_->variables()) {
    ASSIGN_OR_RETURN(const HostTensor value, session_->Read(variable.name));
    hasher.Add(variable.name);
    hasher.Add(BytesOf(value));
  }
  return HashText(hasher.digest());
}

absl::StatusOr<ReferenceRunFigures> ReferenceRun::Train() {
  ReferenceRunFigures figures;
  Fetches fetches;
  for (int64_t step = 0; step < kReferenceRunSteps; ++step) {
    HostTensor rate(DType::kF32, {}), count(DType::kI32, {});
    *rate.data<float>() = RateOf(step);
    *count.data<int32_t>() = static_cast<int32_t>(step + 1);
    Feeds feeds = {{"learning_rate", &rate}, {"step", &count}};
    const Batch& batch = batches_[step];
    for (size_t field = 0; field < batch.names.size(); ++field) {
      feeds.emplace_back(batch.names[field], &batch.tensors[field]);
    }
    RETURN_IF_ERROR(session_->Step("train", feeds));
    RETURN_IF_ERROR(session_->Next(&fetches));
    ASSIGN_OR_RETURN(const double loss, Scalar(fetches, "loss"));
    ASSIGN_OR_RETURN(const double norm, Scalar(fetches, "grad_norm"));
    figures.losses.push_back(loss);
    figures.grad_norms.push_back(norm);
  }
  return figures;
}

absl::StatusOr<ReferenceRunRecord> ReadReferenceRunRecord(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, kRecordLimit));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::DataLossError(absl::StrCat(path, ": expected a JSON object"));
  }
  const auto word = [&json](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  ReferenceRunRecord record;
  ASSIGN_OR_RETURN(record.figures.losses, Numbers(path, json, "losses"));
  ASSIGN_OR_RETURN(record.figures.grad_norms, Numbers(path, json, "grad_norms"));
  record.peer = word("peer");
  record.date = word("date");
  record.batches_digest = word("batches_digest");
  record.initial_digest = word("initial_digest");
  return record;
}

absl::Status WriteReferenceRunRecord(const std::string& path, const ReferenceRunRecord& record) {
  const Json json = {{"peer", record.peer},
                     {"date", record.date},
                     {"batches_digest", record.batches_digest},
                     {"initial_digest", record.initial_digest},
                     {"losses", record.figures.losses},
                     {"grad_norms", record.figures.grad_norms}};
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path));
  RETURN_IF_ERROR(file.Append(json.dump(1) + "\n"));
  return file.Close();
}

absl::Status WriteReferenceRun(const ReferenceRunCase& of, const std::string& folder) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReferenceRun> run, ReferenceRun::Start(of));
  RETURN_IF_ERROR(run->WriteInputs(folder));
  ReferenceRunRecord record;
  record.peer = "sluice";
  record.batches_digest = run->batches_digest();
  ASSIGN_OR_RETURN(record.initial_digest, run->InitialDigest());
  ASSIGN_OR_RETURN(record.figures, run->Train());
  for (const ReferenceEvaluation& evaluation : of.evaluations) {
    RETURN_IF_ERROR(WriteReferenceEvaluation(evaluation, folder));
  }
  return WriteReferenceRunRecord(folder + "/sluice.json", record);
}

absl::Status CheckReferenceRun(const ReferenceRunCase& of, const ReferenceRunRecord& record,
                               double bound, ReferenceRunDifferences* differences) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReferenceRun> run, ReferenceRun::Start(of));
  if (run->batches_digest() != record.batches_digest) {
    return absl::FailedPreconditionError(absl::StrCat("the record is of other batches: expected ",
                                                      record.batches_digest, ", got ",
                                                      run->batches_digest()));
  }
  ASSIGN_OR_RETURN(const std::string initial, run->InitialDigest());
  ASSIGN_OR_RETURN(const ReferenceRunFigures figures, run->Train());
  absl::Status first;
  const auto compare = [&](int64_t step, const char* what, double expected, double got,
                           double* largest) {
    const double difference = Relative(expected, got);
    *largest = std::max(*largest, difference);
    if (difference <= bound || !first.ok()) return;
    first = absl::DataLossError(absl::StrFormat(
        "step %d, %s: expected %.9g within %.1e, got %.9g, %s the record's initial values", step,
        what, expected, bound, got, initial == record.initial_digest ? "from" : "not from"));
  };
  for (int64_t step = 0; step < kReferenceRunSteps; ++step) {
    compare(step, "loss", record.figures.losses[step], figures.losses[step], &differences->loss);
    compare(step, "grad_norm", record.figures.grad_norms[step], figures.grad_norms[step],
            &differences->grad_norm);
  }
  return first;
}

}  // namespace sluice
