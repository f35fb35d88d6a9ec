#include "bench/step_models.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/gpt_sizes.h"
#include "framework/base/status.h"
#include "framework/nn/layers.h"
#include "framework/nn/model_size.h"
#include "framework/passes/pass.h"
#include "models/bert/presets.h"
#include "models/gpt/gpt.h"
#include "models/wide_and_deep/click_data.h"

namespace sluice {

absl::StatusOr<BertConfig> BertOfStep(const std::string& preset) {
  for (const BertPreset& known : BertPresets()) {
    if (known.name != preset || known.task != BertTask::kPretrain) continue;
    BertConfig config = known.config;
    config.batch = 8;
    config.classes = 0;
    config.dropout = 0;
    return config;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--size: expected small, base or large, got \"", preset, "\""));
}

ResNetConfig ResNetOfStep(int64_t depth) {
  ResNetConfig config;
  config.depth = depth;
  config.batch = 8;
  return config;
}

OptimizerOptions ResNetOptimizer() {
  OptimizerOptions optimizer;
  optimizer.kind = OptimizerOptions::kSgd;
  optimizer.momentum = 0.9;
  return optimizer;
}

WideAndDeepConfig WideAndDeepOfStep(int64_t vocabulary) {
  WideAndDeepConfig config = LogTables(vocabulary);
  config.tables[0].width = 16;
  config.batch = 4096;
  return config;
}

OptimizerOptions WideAndDeepOptimizer() {
  OptimizerOptions optimizer;
  optimizer.groups = {WideGroup(10)};
  optimizer.groups[0].kind = OptimizerOptions::kAdagrad;
  return optimizer;
}

FaceConfig ArcFaceOfStep(int64_t classes) {
  FaceConfig config;
  config.embedding = 512;
  config.classes = classes;
  config.batch = 128;
  return config;
}

OptimizerOptions ArcFaceOptimizer() { return ResNetOptimizer(); }

absl::Status BuildArcFaceLoss(const FaceConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckSize<int64_t>("embedding", config.embedding, 1, 1 << 14));
  RETURN_IF_ERROR(CheckSize<int64_t>("classes", config.classes, 2, 1 << 30));
  RETURN_IF_ERROR(CheckSize<int64_t>("batch", config.batch, 1, 1 << 20));
  const Scope s(graph);
  const Tensor features =
      graph->Input("features", DType::kF32, {config.batch, config.embedding}, "data:S0 model:S0");
  const Tensor labels = graph->Input("labels", DType::kI32, {config.batch}, "data:S0 model:B");
  const Tensor embedding =
      Linear(s / "embedding", features, config.embedding, "", "", KaimingInit(config.embedding));
  graph->Output("loss", MarginSoftmaxLoss(s, embedding, labels, config));
  return FinishIn(config.precision, graph);
}

absl::Status BuildArcFaceTrain(const FaceConfig& config, const OptimizerOptions& options,
                               Graph* graph) {
  Graph loss;
  RETURN_IF_ERROR(BuildArcFaceLoss(config, &loss));
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> train, RunPasses(loss, {Train(options)}));
  *graph = std::move(*train);
  return absl::OkStatus();
}

absl::Status BuildNamedStep(const std::string& name, DType precision, Graph* graph) {
  if (name == "bert_base") {
    ASSIGN_OR_RETURN(BertConfig config, BertOfStep("base"));
    config.precision.compute = precision;
    return BuildBertTrain(config, OptimizerOptions(), graph);
  }
  if (name == "resnet50") {
    ResNetConfig config = ResNetOfStep(50);
    config.precision.compute = precision;
    return BuildResNetTrain(config, ResNetOptimizer(), graph);
  }
  if (name == "wide_and_deep") {
    WideAndDeepConfig config = WideAndDeepOfStep(1000000);
    config.precision.compute = precision;
    return BuildWideAndDeepTrain(config, WideAndDeepOptimizer(), graph);
  }
  if (name == "arcface") {
    FaceConfig config = ArcFaceOfStep(100000);
    config.precision.compute = precision;
    return BuildArcFaceTrain(config, ArcFaceOptimizer(), graph);
  }
  if (name != "tiny" && name != "default" && name != "small") {
    return absl::InvalidArgumentError(
        absl::StrCat("--size: expected tiny, default, small, bert_base, resnet50, wide_and_deep or "
                     "arcface, got \"",
                     name, "\""));
  }
  ASSIGN_OR_RETURN(GptConfig config, GptOfSize(name));
  config.precision.compute = precision;
  return BuildGptTrain(config, OptimizerOptions(), graph);
}

}  // namespace sluice
