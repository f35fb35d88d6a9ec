// Times steps of pre-training a BERT on constant samples without padding: AdamW, no dropout.

#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "bench/step_models.h"
#include "bench/step_timing.h"
#include "framework/base/status.h"
#include "framework/nn/model_size.h"
#include "framework/tensor/array.h"
#include "models/bert/bert.h"

ABSL_FLAG(std::string, size, "base", "small, base or large: a preset of //models/bert:train");
ABSL_FLAG(int64_t, batch, 8, "samples of each device of axis data");

namespace sluice {
namespace {

// One batch. Every word of the vocabulary is as likely as any other, in text and labels.
class SampleBatch {
 public:
  explicit SampleBatch(const BertConfig& c)
      : tokens_(DType::kI32, {c.batch, c.sequence_length}),
        segments_(DType::kI32, {c.batch, c.sequence_length}),
        length_(DType::kI32, {c.batch}),
        positions_(DType::kI32, {c.batch, c.predictions}),
        labels_(DType::kI32, {c.batch, c.predictions}),
        weights_(DType::kF32, {c.batch, c.predictions}),
        next_(DType::kI32, {c.batch}) {
    const auto word = [&](int64_t i) { return static_cast<int32_t>(i * 7919 % c.vocabulary); };
    for (int64_t i = 0; i < c.batch * c.sequence_length; ++i) {
      tokens_.data<int32_t>()[i] = word(i);
      segments_.data<int32_t>()[i] = i % c.sequence_length < c.sequence_length / 2 ? 0 : 1;
    }
    for (int64_t i = 0; i < c.batch * c.predictions; ++i) {
      positions_.data<int32_t>()[i] =
          static_cast<int32_t>(i % c.predictions * c.sequence_length / c.predictions);
      labels_.data<int32_t>()[i] = word(i + 1);
      weights_.data<float>()[i] = 1.0f / static_cast<float>(c.predictions);
    }
    for (int64_t i = 0; i < c.batch; ++i) {
      length_.data<int32_t>()[i] = static_cast<int32_t>(c.sequence_length);
      next_.data<int32_t>()[i] = static_cast<int32_t>(i % 2);
    }
    *rate_.data<float>() = 1e-4f;
  }

  Feeds StepFeeds(int64_t step) {
    *step_.data<int32_t>() = static_cast<int32_t>(step);
    return {{"tokens", &tokens_},       {"segments", &segments_},  {"length", &length_},
            {"positions", &positions_}, {"labels", &labels_},      {"weights", &weights_},
            {"next", &next_},           {"learning_rate", &rate_}, {"step", &step_}};
  }

 private:
  HostTensor tokens_, segments_, length_, positions_, labels_, weights_, next_;
  HostTensor rate_{DType::kF32, {}}, step_{DType::kI32, {}};
};

absl::StatusOr<TimedModel> Model(const StepSetting& setting) {
  TimedModel model;
  model.size = absl::StrCat("bert_", absl::GetFlag(FLAGS_size));
  ASSIGN_OR_RETURN(BertConfig config, BertOfStep(absl::GetFlag(FLAGS_size)));
  config.batch = absl::GetFlag(FLAGS_batch) * setting.mesh.AxisSize("data");
  config.precision = setting.precision;
  RETURN_IF_ERROR(CheckBert(config, /*stages=*/1));
  Graph loss;
  RETURN_IF_ERROR(BuildBertLoss(config, &loss));
  model.SetSize(SizeOfModel(loss));
  model.units_per_step = static_cast<double>(config.batch * config.sequence_length);
  model.build = [config](Graph* graph) {
    return BuildBertTrain(config, OptimizerOptions(), graph);
  };
  model.feeds = [batch = std::make_shared<SampleBatch>(config)](int64_t step) {
    return batch->StepFeeds(step);
  };
  return model;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunStepBenchmark({"bert_step",
                                   "Times steps of pre-training a BERT",
                                   "tokens",
                                   {{"size", "NAME", ""}, {"batch", "N", ""}},
                                   sluice::Model},
                                  argc, argv);
}
