#include "models/wide_and_deep/parity.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/status.h"
#include "models/wide_and_deep/click_data.h"

namespace sluice {

std::string ClickLayout::Name() const {
  std::string name = mesh;
  if (split_columns) absl::StrAppend(&name, " columns");
  if (tables_apart) absl::StrAppend(&name, " apart");
  if (micro_batches > 1) absl::StrAppend(&name, " micro=", micro_batches);
  if (zero > 0) absl::StrAppend(&name, " zero=", zero);
  if (precision.compute != DType::kF32) absl::StrAppend(&name, " ", DTypeName(precision.compute));
  return name;
}

std::string ClickLayout::Stem() const {
  return absl::StrReplaceAll(Name(), {{" ", "_"}, {"=", ""}, {"@", ""}, {",", "_"}});
}

WideAndDeepConfig ClickLayout::Config() const {
  WideAndDeepConfig config;
  config.wide = {"wide", 97, 1, 6};
  config.tables = {{"small", 23, 5, 4}, {"large", 211, 8, 3}, {"tiny", 3, 4, 1}};
  config.split_columns = split_columns;
  config.tables_apart = tables_apart;
  config.numbers = 7;
  config.hidden = {24, 17, 12};
  config.batch = 36;
  config.precision = precision;
  return config;
}

ClickLayout ReferenceOf(const ClickLayout&) { return {.mesh = "data=1"}; }

std::vector<ClickLayout> ClickLayouts() {
  return {
      {.mesh = "data=2"},
      {.mesh = "data=5"},   // 8, 7, 7, 7, 7 samples
      {.mesh = "model=2"},  // tables by rows, samples by both
      {.mesh = "model=5"},  // two devices have no row of the smallest table
      {.mesh = "model=2", .split_columns = true},
      {.mesh = "model=3", .split_columns = true},  // 2, 2, 1 columns
      {.mesh = "table=2"},                         // every device has all samples
      {.mesh = "table=3", .split_columns = true},
      {.mesh = "data=2 model=2"},
      {.mesh = "data=2 model=2", .split_columns = true},
      {.mesh = "data=2 table=2"},
      {.mesh = "model=2 table=2"},
      {.mesh = "pipe=2"},
      {.mesh = "pipe=3", .micro_batches = 4},
      {.mesh = "pipe=2", .tables_apart = true},
      {.mesh = "data=1", .micro_batches = 3},
      {.mesh = "model=2", .micro_batches = 2},
      {.mesh = "table=2", .micro_batches = 2, .split_columns = true},
      {.mesh = "data=2 model=2 pipe=2", .micro_batches = 2},
      {.mesh = "data=2", .zero = 1},
      {.mesh = "data=2 model=2", .micro_batches = 2, .zero = 3},
  };
}

ParityCase ClickParity(const ClickLayout& layout) {
  ParityCase click;
  click.name = layout.Name();
  click.mesh = layout.mesh;
  click.micro_batches = layout.micro_batches;
  click.batch = layout.Config().batch;
  click.build = [layout](OptimizerOptions optimizer, Graph* graph) {
    ASSIGN_OR_RETURN(optimizer.zero.mesh, Mesh::Parse(layout.mesh));
    optimizer.zero.level = layout.zero;
    if (optimizer.kind != OptimizerOptions::kSgd) {
      optimizer.groups = {WideGroup(50)};
      optimizer.l1 = 1e-3, optimizer.l2 = 1e-2;
    }
    return BuildWideAndDeepTrain(layout.Config(), optimizer, graph);
  };
  click.open_data = [layout]() -> absl::StatusOr<std::shared_ptr<const Dataset>> {
    return std::shared_ptr<const Dataset>(DrawnClicks(layout.Config(), 500, /*seed=*/1));
  };
  if (layout.precision.compute == DType::kBF16) {
    click.bounds = Bf16Bounds();
    // Few samples, whose slopes nearly cancel: 5.1 % of what is left is rounding.
    click.bounds.gradient = click.bounds.first_moment = 1e-1;
  }
  // The rate of FTRL is fifty times that of weights elsewhere.
  click.bounds.early_parameter_norm *= 5;
  click.bounds.may_try_other_batches = true;  // for the ReLUs
  return click;
}

}  // namespace sluice
