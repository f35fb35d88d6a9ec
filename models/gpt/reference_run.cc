#include "models/gpt/reference_run.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/text_corpus.h"
#include "framework/data/text_dataset.h"
#include "framework/data/text_windows.h"
#include "models/gpt/gpt.h"

namespace sluice {
namespace {

constexpr uint64_t kDataSeed = 2;

GptConfig Config() {
  return {.sequence_length = 64, .layers = 4, .heads = 4, .hidden = 128, .batch = 8, .dropout = 0};
}

OptimizerOptions Optimizer() {
  OptimizerOptions options;
  options.weight_decay = 0.1;
  options.clip = 1;
  return options;
}

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

absl::StatusOr<std::shared_ptr<const Dataset>> OpenText(const std::string& path) {
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  ASSIGN_OR_RETURN(TextDataset text,
                   TextDataset::Create(path, std::move(bytes), Config().sequence_length));
  return std::make_shared<const TextDataset>(std::move(text));
}

// So many bytes that the last of 47 windows is cut short.
ReferenceEvaluation HeldOut(const std::string& text_path) {
  constexpr int64_t kHeldOutBytes = 3000;
  constexpr double kBytesPerToken = 1;
  ReferenceEvaluation held_out;
  held_out.name = "held_out";
  held_out.build = [](int64_t batch, Graph* graph) {
    GptConfig config = Config();
    config.batch = batch;
    config.bytes_per_token = kBytesPerToken;
    return BuildGptEval(config, graph);
  };
  held_out.open_data = [text_path]() -> absl::StatusOr<std::shared_ptr<const Dataset>> {
    ASSIGN_OR_RETURN(std::string bytes, ReadFile(text_path));
    bytes.resize(kHeldOutBytes);
    ASSIGN_OR_RETURN(TextDataset text,
                     TextDataset::Create(text_path, std::move(bytes), Config().sequence_length));
    return std::make_shared<const TextWindows>(std::make_unique<TextDataset>(std::move(text)));
  };
  held_out.metrics = {{"loss", "", "predicted"}, {"bits_per_byte", "", "predicted"}};
  held_out.options = Options();
  held_out.options["bytes_per_token"] = absl::StrCat(kBytesPerToken);
  return held_out;
}

}  // namespace

ReferenceRunCase GptReferenceRun(const std::string& text_path) {
  ReferenceRunCase gpt;
  gpt.build = [](Graph* graph) { return BuildGptTrain(Config(), Optimizer(), graph); };
  gpt.open_data = [text_path] { return OpenText(text_path); };
  gpt.order = {SampleOrder::kRandom, kDataSeed};
  gpt.batch = Config().batch;
  gpt.schedule = {.peak = 1e-3, .warmup = 20, .steps = kReferenceRunSteps, .floor_fraction = 1};
  gpt.options = Options();
  gpt.evaluations = {HeldOut(text_path)};
  return gpt;
}

}  // namespace sluice
