#include "models/gpt/parity_layouts.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/passes/pass.h"
#include "framework/passes/recompute.h"
#include "framework/sbp/mesh.h"

namespace sluice {

std::string GptLayout::Name() const {
  std::string name = mesh;
  if (micro_batches > 1) absl::StrAppend(&name, " micro=", micro_batches);
  if (script_length > 0) absl::StrAppend(&name, " script_length=", script_length);
  if (sequence_split) absl::StrAppend(&name, " sequence_split");
  if (chunks > 1) absl::StrAppend(&name, " chunks=", chunks);
  if (recompute) absl::StrAppend(&name, " recompute");
  if (zero > 0) absl::StrAppend(&name, " zero=", zero);
  if (precision.compute != DType::kF32) absl::StrAppend(&name, " ", DTypeName(precision.compute));
  if (precision.residual != DType::kF32) {
    absl::StrAppend(&name, " residual=", DTypeName(precision.residual));
  }
  if (attention_dropout > 0) absl::StrAppend(&name, " attention_dropout");
  return name;
}

std::string GptLayout::Stem() const { return absl::StrReplaceAll(Name(), {{" ", "_"}, {"=", ""}}); }

int64_t GptLayout::Stages() const {
  const auto parsed = Mesh::Parse(mesh);
  SLUICE_CHECK(parsed.ok()) << mesh;
  return parsed->num_stages() * chunks;
}

GptConfig GptLayout::Config() const {
  GptConfig config;
  config.vocabulary = 256;
  config.sequence_length = 64;
  config.layers = 4;
  config.heads = 4;
  config.hidden = 128;
  config.batch = batch;
  config.dropout = 0.1;
  config.attention_dropout = attention_dropout;
  config.sequence_split = sequence_split;
  config.precision = precision;
  return config;
}

OptimizerOptions GptLayout::Optimizer(OptimizerOptions of_setting) const {
  const auto parsed = Mesh::Parse(mesh);
  SLUICE_CHECK(parsed.ok()) << mesh;
  of_setting.zero.level = zero;
  of_setting.zero.mesh = *parsed;
  return of_setting;
}

absl::Status GptLayout::BuildTrain(const OptimizerOptions& of_setting, Graph* graph) const {
  RETURN_IF_ERROR(BuildGptTrain(Config(), Optimizer(of_setting), graph));
  if (!recompute) return absl::OkStatus();
  return ApplyPasses({Recompute(RecomputedRegions::kBlocks)}, graph);
}

GptLayout ReferenceLayout(int64_t batch) { return {"data=1", 1, batch}; }

GptLayout ReferenceOf(const GptLayout& layout) {
  GptLayout one = ReferenceLayout(layout.batch);
  one.attention_dropout = layout.attention_dropout;
  return one;
}

std::vector<GptLayout> WithAttentionDropout(std::vector<GptLayout> layouts) {
  for (GptLayout& layout : layouts) layout.attention_dropout = 0.2;
  return layouts;
}

std::vector<GptLayout> ParityLayouts() {
  return {
      {"data=2"},
      {"data=3"},  // 3, 3, 2 samples
      {"data=4"},
      {"model=2"},
      {"model=4"},
      {"model=2", 1, 8, 0, true},
      {"pipe=2"},
      {"pipe=2", 4},
      {"pipe=4", 4},
      {"data=1", 2, 8, 0, false, 2},  // two pieces of the model in turn on one device
      {"pipe=2", 4, 8, 0, false, 2},
      {"data=2 model=2", 2, 8, 0, false, 1, true},
      {"data=2 model=2"},
      {"data=2 model=2 pipe=2"},
      {"data=2 model=2 pipe=2", 2},
      {"data=1", 2},
      {"data=1", 3, 12},
      {"data=1", 4},
      {"data=2", 2},
      {"data=2", 3, 12},
      {"data=2", 4},
      {"data=2", 1, 8, 1},
      {"data=2 model=2 pipe=2", 2, 8, 1},
      {"data=2", 1, 8, 0, false, 1, false, 1},
      {"data=2 model=2", 1, 8, 0, false, 1, false, 1},
      {"data=2", 2, 8, 0, false, 1, false, 2},
      {"data=2 model=2", 2, 8, 0, false, 1, true, 3},
      {"data=4", 1, 8, 0, false, 1, false, 3},
      {"data=2 model=2 pipe=2", 2, 8, 1, false, 1, false, 1},
      {"data=2 pipe=2", 4, 8, 0, false, 1, false, 3},
  };
}

}  // namespace sluice
