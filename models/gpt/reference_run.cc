#include "models/gpt/reference_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/data/text_corpus.h"
#include "framework/data/text_dataset.h"
#include "framework/nn/learning_rate.h"
#include "models/gpt/gpt.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kDataSeed = 2;
constexpr int kTokens = 0, kLabels = 1;  // the fields of a text
constexpr int64_t kRecordLimit = 1'000'000;

GptConfig Config() {
  return {.sequence_length = 64, .layers = 4, .heads = 4, .hidden = 128, .batch = 8, .dropout = 0};
}

OptimizerOptions Optimizer() {
  OptimizerOptions options;
  options.weight_decay = 0.1;
  options.clip = 1;
  return options;
}

LearningRateSchedule WarmUp() {
  return {.peak = 1e-3, .warmup = 20, .steps = kReferenceRunSteps, .floor_fraction = 1};
}

float RateOf(int64_t step) { return static_cast<float>(LearningRate(WarmUp(), step)); }

// Under the trainer's names where it has a flag of the same meaning.
std::map<std::string, std::string> Options() {
  const GptConfig c = Config();
  const OptimizerOptions o = Optimizer();
  return {{"layers", absl::StrCat(c.layers)},
          {"hidden", absl::StrCat(c.hidden)},
          {"heads", absl::StrCat(c.heads)},
          {"sequence_length", absl::StrCat(c.sequence_length)},
          {"vocabulary", absl::StrCat(c.vocabulary)},
          {"batch", absl::StrCat(c.batch)},
          {"beta1", absl::StrCat(o.beta1)},
          {"beta2", absl::StrCat(o.beta2)},
          {"epsilon", absl::StrCat(o.epsilon)},
          {"weight_decay", absl::StrCat(o.weight_decay)},
          {"clip", absl::StrCat(o.clip)}};
}

absl::StatusOr<double> Scalar(const Fetches& fetches, absl::string_view name) {
  const auto found = fetches.find(name);
  if (found == fetches.end()) return absl::NotFoundError(absl::StrCat("no output ", name));
  return found->second.data<float>()[0];
}

// One field of all batches, the steps outermost.
HostTensor Stack(const std::vector<Batch>& batches, int field) {
  const Shape& one = batches[0].tensors[field].shape;
  HostTensor all(DType::kI32, {static_cast<int64_t>(batches.size()), one[0], one[1]});
  auto to = all.bytes.begin();
  for (const Batch& batch : batches) {
    const std::vector<std::byte>& bytes = batch.tensors[field].bytes;
    to = std::copy(bytes.begin(), bytes.end(), to);
  }
  return all;
}

HostTensor Rates() {
  HostTensor rates(DType::kF32, {kReferenceRunSteps});
  for (int64_t step = 0; step < kReferenceRunSteps; ++step)
    rates.data<float>()[step] = RateOf(step);
  return rates;
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

}  // namespace

absl::StatusOr<std::unique_ptr<ReferenceRun>> ReferenceRun::Start(const std::string& text_path) {
  std::unique_ptr<ReferenceRun> reference_run(new ReferenceRun);
  const GptConfig config = Config();
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(text_path));
  ASSIGN_OR_RETURN(const TextDataset text,
                   TextDataset::Create(text_path, std::move(bytes), config.sequence_length));
  StableHasher hasher;
  for (int64_t step = 0; step < kReferenceRunSteps; ++step) {
    Batch batch(text, config.batch);
    RETURN_IF_ERROR(
        ReadBatch(text, {SampleOrder::kRandom, kDataSeed}, step * config.batch, &batch));
    for (const HostTensor& tensor : batch.tensors) {
      hasher.Add({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
    }
    reference_run->batches_.push_back(std::move(batch));
  }
  reference_run->batches_digest_ = HashText(hasher.digest());
  Graph graph;
  RETURN_IF_ERROR(BuildGptTrain(config, Optimizer(), &graph));
  const std::vector<ProgramGraph> programs = {{"train", &graph}};
  ASSIGN_OR_RETURN(reference_run->session_, Session::Start(programs, SessionOptions()));
  return absl::StatusOr<std::unique_ptr<ReferenceRun>>(std::move(reference_run));
}

absl::Status ReferenceRun::WriteInputs(const std::string& folder) {
  RETURN_IF_ERROR(CreateDirectories(folder));
  CheckpointMeta meta;
  meta.seed = SessionOptions().seed;
  meta.options = Options();
  meta.options["batches_digest"] = batches_digest_;
  ASSIGN_OR_RETURN(meta.options["initial_digest"], InitialDigest());
  std::vector<TensorEntry> variables;
  for (const VariableInfo& v : session_->variables()) {
    variables.push_back({v.name, v.dtype, v.shape});
  }
  RETURN_IF_ERROR(SaveCheckpoint(folder, meta, variables, [this](const TensorEntry& entry) {
                    return session_->Read(entry.name);
                  }).status());
  const std::map<std::string, HostTensor> values = {{"labels", Stack(batches_, kLabels)},
                                                    {"learning_rate", Rates()},
                                                    {"tokens", Stack(batches_, kTokens)}};
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
    hasher.Add({reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()});
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
    RETURN_IF_ERROR(session_->Step("train", {{"tokens", &batches_[step].tensors[kTokens]},
                                             {"labels", &batches_[step].tensors[kLabels]},
                                             {"learning_rate", &rate},
                                             {"step", &count}}));
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

}  // namespace sluice
