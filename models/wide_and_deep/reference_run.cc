#include "models/wide_and_deep/reference_run.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "models/wide_and_deep/click_data.h"
#include "models/wide_and_deep/parity.h"

namespace sluice {
namespace {

constexpr uint64_t kDataSeed = 2;
constexpr double kWideRate = 50;

WideAndDeepConfig Config() { return ClickLayout{.mesh = "data=1"}.Config(); }

OptimizerOptions Optimizer() {
  OptimizerOptions options;
  options.clip = 0.1;  // below the norms, so that it takes part
  options.l1 = 1e-3;
  options.l2 = 1e-2;
  options.groups = {WideGroup(kWideRate)};
  return options;
}

std::map<std::string, std::string> Options() {
  const OptimizerOptions o = Optimizer();
  return {{"beta1", absl::StrCat(o.beta1)},     {"beta2", absl::StrCat(o.beta2)},
          {"epsilon", absl::StrCat(o.epsilon)}, {"clip", absl::StrCat(o.clip)},
          {"l1", absl::StrCat(o.l1)},           {"l2", absl::StrCat(o.l2)},
          {"beta", absl::StrCat(o.beta)},       {"wide_rate", absl::StrCat(kWideRate)}};
}

}  // namespace

ReferenceRunCase WideAndDeepReferenceRun() {
  ReferenceRunCase click;
  click.build = [](Graph* graph) { return BuildWideAndDeepTrain(Config(), Optimizer(), graph); };
  click.open_data = [] {
    return std::shared_ptr<const Dataset>(DrawnClicks(Config(), 500, /*seed=*/1));
  };
  click.order = {SampleOrder::kRandom, kDataSeed};
  click.batch = Config().batch;
  click.schedule = {.peak = 3e-3, .warmup = 20, .steps = kReferenceRunSteps, .floor_fraction = 1};
  click.options = Options();
  return click;
}

}  // namespace sluice
