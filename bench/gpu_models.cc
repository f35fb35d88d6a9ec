#include "bench/gpu_models.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/click_batches.h"
#include "bench/gpt_batch.h"
#include "bench/gpt_sizes.h"
#include "bench/step_models.h"
#include "framework/base/status.h"
#include "framework/nn/model_size.h"
#include "models/gpt/gpt.h"

namespace sluice {
namespace {

absl::StatusOr<int64_t> ParametersOf(const std::function<absl::Status(Graph* graph)>& build_loss) {
  Graph loss;
  RETURN_IF_ERROR(build_loss(&loss));
  return SizeOfModel(loss).parameters;
}

GpuModel Gpt(const std::string& title, const GptConfig& c) {
  GpuModel model;
  model.title = absl::StrCat(title, ", ", c.batch, " x ", c.sequence_length);
  model.unit = "tokens";
  model.units_per_step = c.batch * c.sequence_length;
  model.parameters = [c] { return GptParameters(c); };
  model.build = [c](Graph* graph) { return BuildGptTrain(c, OptimizerOptions(), graph); };
  model.feeds = [c]() -> absl::StatusOr<StepFeeds> {
    return [batch = std::make_shared<GptBatch>(c)](int64_t step) { return batch->StepFeeds(step); };
  };
  return model;
}

absl::StatusOr<GpuModel> GptTiny(const PrecisionOptions& precision, bool small) {
  ASSIGN_OR_RETURN(GptConfig config, GptOfSize("tiny"));
  if (small) {
    config.sequence_length = 16;
    config.layers = 1;
    config.heads = 2;
    config.hidden = 16;
    config.batch = 2;
  }
  config.precision = precision;
  return Gpt("GPT tiny", config);
}

GpuModel Gpt2(const std::string& title, int64_t layers, int64_t heads, int64_t hidden,
              int64_t batch, const PrecisionOptions& precision, bool small) {
  GptConfig config{.vocabulary = 50304,
                   .sequence_length = 1024,
                   .layers = layers,
                   .heads = heads,
                   .hidden = hidden,
                   .batch = batch,
                   .dropout = 0};
  if (small) {
    config.vocabulary = 300;
    config.sequence_length = 24;
    config.layers = layers / 12;
    config.hidden = hidden / 32;
    config.heads = 2;
    config.batch = 2;
  }
  config.precision = precision;
  return Gpt(title, config);
}

absl::StatusOr<GpuModel> Bert(const PrecisionOptions& precision, bool small) {
  ASSIGN_OR_RETURN(BertConfig c, BertOfStep("base"));
  c.batch = 64;
  if (small) {
    c.vocabulary = 300;
    c.sequence_length = 16;
    c.layers = 1;
    c.heads = 2;
    c.hidden = 32;
    c.predictions = 4;
    c.batch = 2;
  }
  c.precision = precision;
  GpuModel model;
  model.title = absl::StrCat("BERT base, ", c.batch, " x ", c.sequence_length);
  model.unit = "tokens";
  model.units_per_step = c.batch * c.sequence_length;
  model.parameters = [c] {
    return ParametersOf([&](Graph* graph) { return BuildBertLoss(c, graph); });
  };
  model.build = [c](Graph* graph) { return BuildBertTrain(c, OptimizerOptions(), graph); };
  model.feeds = [c]() -> absl::StatusOr<StepFeeds> { return BertFeeds(c); };
  return model;
}

absl::StatusOr<GpuModel> ResNet(const PrecisionOptions& precision, bool small) {
  ResNetConfig c = ResNetOfStep(small ? 18 : 50);
  c.batch = 128;
  if (small) {
    c.width = 4;
    c.classes = 10;
    c.image_size = 32;
    c.batch = 2;
  }
  c.precision = precision;
  GpuModel model;
  model.title = absl::StrCat("ResNet-50, ", c.batch, " x ", c.image_size, " x ", c.image_size);
  model.unit = "images";
  model.units_per_step = c.batch;
  model.parameters = [c] {
    return ParametersOf([&](Graph* graph) { return BuildResNetLoss(c, graph); });
  };
  model.build = [c](Graph* graph) { return BuildResNetTrain(c, ResNetOptimizer(), graph); };
  model.feeds = [c]() -> absl::StatusOr<StepFeeds> { return PictureFeeds(c); };
  return model;
}

absl::StatusOr<GpuModel> ArcFace(const PrecisionOptions& precision, bool small) {
  FaceConfig c = ArcFaceOfStep(small ? 50 : 100000);
  c.batch = 1024;
  if (small) {
    c.embedding = 16;
    c.batch = 4;
  }
  c.precision = precision;
  GpuModel model;
  model.title = absl::StrCat("ArcFace, ", c.batch, " of ", c.classes, " classes");
  model.unit = "samples";
  model.units_per_step = c.batch;
  model.parameters = [c] {
    return ParametersOf([&](Graph* graph) { return BuildArcFaceLoss(c, graph); });
  };
  model.build = [c](Graph* graph) { return BuildArcFaceTrain(c, ArcFaceOptimizer(), graph); };
  model.feeds = [c]() -> absl::StatusOr<StepFeeds> { return FeatureFeeds(c); };
  return model;
}

absl::StatusOr<GpuModel> WideAndDeep(const PrecisionOptions& precision, bool small) {
  WideAndDeepConfig c = WideAndDeepOfStep(small ? 520 : 1000000);
  c.batch = 65536;
  if (small) {
    c.tables[0].width = 4;
    c.hidden = {16, 8};
    c.batch = 8;
  }
  c.precision = precision;
  GpuModel model;
  model.title = absl::StrCat("Wide & Deep, ", c.batch, " samples");
  model.unit = "samples";
  model.units_per_step = c.batch;
  model.parameters = [c] {
    return ParametersOf([&](Graph* graph) { return BuildWideAndDeepLoss(c, graph); });
  };
  model.build = [c](Graph* graph) {
    return BuildWideAndDeepTrain(c, WideAndDeepOptimizer(), graph);
  };
  model.feeds = [c]() -> absl::StatusOr<StepFeeds> {
    ASSIGN_OR_RETURN(const std::shared_ptr<ClickBatches> batches, ClickBatches::Draw(c));
    return StepFeeds([batches](int64_t step) { return batches->StepFeeds(step); });
  };
  return model;
}

struct NamedModel {
  std::string name;
  std::function<absl::StatusOr<GpuModel>(const PrecisionOptions& precision, bool small)> make;
};

const std::vector<NamedModel>& Models() {
  static const auto* const models = new std::vector<NamedModel>{
      {"gpt_tiny", GptTiny},
      {"gpt2_124m",
       [](const PrecisionOptions& precision, bool small) {
         return Gpt2("GPT-2 124M", 12, 12, 768, 16, precision, small);
       }},
      {"gpt2_350m",
       [](const PrecisionOptions& precision, bool small) {
         return Gpt2("GPT-2 350M", 24, 16, 1024, 8, precision, small);
       }},
      {"bert_base", Bert},
      {"resnet50", ResNet},
      {"arcface", ArcFace},
      {"wide_and_deep", WideAndDeep},
  };
  return *models;
}

}  // namespace

const std::vector<std::string>& GpuModelNames() {
  static const auto* const names = [] {
    auto* const made = new std::vector<std::string>;
    for (const NamedModel& model : Models()) made->push_back(model.name);
    return made;
  }();
  return *names;
}

absl::StatusOr<GpuModel> GpuModelOf(const std::string& name, DType precision, bool small) {
  PrecisionOptions options;
  options.compute = precision;
  for (const NamedModel& known : Models()) {
    if (known.name != name) continue;
    ASSIGN_OR_RETURN(GpuModel model, known.make(options, small));
    model.name = name;
    return model;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--model: expected ", absl::StrJoin(GpuModelNames(), ", "), ", got \"", name, "\""));
}

}  // namespace sluice
