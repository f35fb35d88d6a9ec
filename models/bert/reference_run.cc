#include "models/bert/reference_run.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
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

}  // namespace

ReferenceRunCase BertReferenceRun() {
  ReferenceRunCase bert;
  bert.build = [](Graph* graph) { return BuildBertTrain(Config(), Optimizer(), graph); };
  bert.open_data = [] { return FixedSamples(Config()); };
  bert.order = {SampleOrder::kRandom, kDataSeed};
  bert.batch = Config().batch;
  bert.schedule = {.peak = 3e-3, .warmup = 20, .steps = kReferenceRunSteps, .floor_fraction = 1};
  bert.options = Options();
  return bert;
}

}  // namespace sluice
