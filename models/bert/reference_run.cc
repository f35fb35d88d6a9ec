#include "models/bert/reference_run.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/labelled_text.h"
#include "models/bert/parity.h"

namespace sluice {
namespace {

constexpr uint64_t kDataSeed = 2;

BertConfig Config() {
  BertConfig config = BertLayout{.mesh = "data=1"}.Config();
  config.dropout = 0;
  return config;
}

OptimizerOptions Optimizer() {
  OptimizerOptions options;
  options.weight_decay = 0.1;
  options.clip = 1;
  return options;
}

std::map<std::string, std::string> Options() {
  const BertConfig c = Config();
  const OptimizerOptions o = Optimizer();
  return {{"layers", absl::StrCat(c.layers)},
          {"heads", absl::StrCat(c.heads)},
          {"batch", absl::StrCat(c.batch)},
          {"beta1", absl::StrCat(o.beta1)},
          {"beta2", absl::StrCat(o.beta2)},
          {"epsilon", absl::StrCat(o.epsilon)},
          {"weight_decay", absl::StrCat(o.weight_decay)},
          {"clip", absl::StrCat(o.clip)}};
}

// Samples with fewer masked words than others are among them.
ReferenceEvaluation HeldOutWords() {
  constexpr size_t kDocuments = 12;
  ReferenceEvaluation words;
  words.name = "words";
  words.build = [](int64_t batch, Graph* graph) {
    BertConfig config = Config();
    config.batch = batch;
    return BuildBertEval(config, graph);
  };
  words.open_data = [] { return FixedSamples(Config(), kDocuments); };
  words.metrics = {{"masked_loss", "", "masked_words"}, {"next_accuracy", ""}};
  words.options = Options();
  return words;
}

ReferenceEvaluation HeldOutClasses() {
  constexpr int64_t kClasses = 3;
  constexpr size_t kTexts = 19;
  ReferenceEvaluation classes;
  classes.name = "classes";
  classes.build = [](int64_t batch, Graph* graph) {
    BertConfig config = Config();
    config.batch = batch;
    config.classes = kClasses;
    return BuildBertEval(config, graph);
  };
  classes.open_data = []() -> absl::StatusOr<std::shared_ptr<const Dataset>> {
    ASSIGN_OR_RETURN(const FixedText text, ReadFixedText(Config()));
    LabelledTexts texts;
    for (size_t i = 0; i < kTexts; ++i) {
      texts.texts.push_back(text.documents[i]);
      texts.labels.push_back(static_cast<int32_t>(i * i % kClasses));
    }
    ASSIGN_OR_RETURN(LabelledText data, LabelledText::Create("texts", texts, text.vocabulary,
                                                             Config().sequence_length));
    return std::make_shared<const LabelledText>(std::move(data));
  };
  classes.metrics = {{"loss", ""}, {"accuracy", ""}};
  classes.options = Options();
  return classes;
}

}  // namespace

ReferenceRunCase BertReferenceRun() {
  ReferenceRunCase bert;
  bert.build = [](Graph* graph) { return BuildBertTrain(Config(), Optimizer(), graph); };
  bert.open_data = [] { return FixedSamples(Config()); };
  bert.order = {SampleOrder::kRandom, kDataSeed};
  bert.batch = Config().batch;
  bert.schedule = {.peak = 3e-3, .warmup = 20, .steps = kReferenceRunSteps, .floor_fraction = 1};
  bert.options = Options();
  bert.evaluations = {HeldOutWords(), HeldOutClasses()};
  return bert;
}

}  // namespace sluice
