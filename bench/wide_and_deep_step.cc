// Times steps of training a Wide & Deep model on drawn samples: 26 features of a million rows, 16
// elements each, layers of 1024, 512 and 256. The deep part has AdamW, the wide part AdaGrad, which
// PyTorch has, too.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "bench/step_timing.h"
#include "framework/base/status.h"
#include "framework/data/batch.h"
#include "framework/nn/model_size.h"
#include "framework/tensor/array.h"
#include "models/wide_and_deep/click_data.h"
#include "models/wide_and_deep/wide_and_deep.h"

ABSL_FLAG(int64_t, vocabulary, 1000000, "rows of a table, for all features");
ABSL_FLAG(int64_t, width, 16, "elements of an embedding");
ABSL_FLAG(int64_t, batch, 4096, "samples of each device of axes data and model");
ABSL_FLAG(bool, split_columns, false, "split the deep table by columns instead of rows");
ABSL_FLAG(double, clip, 0, "largest norm of the gradient; 0 never clips");

namespace sluice {
namespace {

// A few batches that take turns: the rows of one step are not in the caches of the next.
class ClickBatches {
 public:
  explicit ClickBatches(const WideAndDeepConfig& config) {
    const std::unique_ptr<Dataset> data = DrawnClicks(config, kBatches * config.batch, /*seed=*/1);
    const SampleOrder order = {SampleOrder::kSpread, /*seed=*/0, kBatches * config.batch};
    for (int64_t i = 0; i < kBatches && read_.ok(); ++i) {
      batches_.emplace_back(*data, config.batch);
      read_ = ReadBatch(*data, order, i * config.batch, &batches_.back());
    }
    *rate_.data<float>() = 1e-3f;
  }
  absl::Status read() const { return read_; }

  Feeds StepFeeds(int64_t step) {
    *step_.data<int32_t>() = static_cast<int32_t>(step);
    const Batch& batch = batches_[step % kBatches];
    Feeds feeds = {{"learning_rate", &rate_}, {"step", &step_}};
    for (size_t i = 0; i < batch.names.size(); ++i) {
      feeds.emplace_back(batch.names[i], &batch.tensors[i]);
    }
    return feeds;
  }

 private:
  static constexpr int64_t kBatches = 8;
  absl::Status read_;
  std::vector<Batch> batches_;
  HostTensor rate_{DType::kF32, {}}, step_{DType::kI32, {}};
};

absl::StatusOr<TimedModel> Model(const StepSetting& setting) {
  WideAndDeepConfig config = LogTables(absl::GetFlag(FLAGS_vocabulary));
  config.tables[0].width = absl::GetFlag(FLAGS_width);
  config.split_columns = absl::GetFlag(FLAGS_split_columns);
  config.batch =
      absl::GetFlag(FLAGS_batch) * setting.mesh.AxisSize("data") * setting.mesh.AxisSize("model");
  config.precision = setting.precision;
  OptimizerOptions optimizer;
  optimizer.clip = absl::GetFlag(FLAGS_clip);
  optimizer.groups = {WideGroup(10)};
  optimizer.groups[0].kind = OptimizerOptions::kAdagrad;
  Graph loss;
  RETURN_IF_ERROR(BuildWideAndDeepLoss(config, &loss));
  const ModelSize size = SizeOfModel(loss);
  TimedModel model;
  model.size = absl::StrCat("vocabulary", config.wide.rows);
  model.parameters = size.parameters;
  model.units_per_step = static_cast<double>(config.batch);
  model.flops_per_step = 3 * static_cast<double>(size.flops);
  model.build = [config, optimizer](Graph* graph) {
    return BuildWideAndDeepTrain(config, optimizer, graph);
  };
  auto batches = std::make_shared<ClickBatches>(config);
  RETURN_IF_ERROR(batches->read());
  model.feeds = [batches](int64_t step) { return batches->StepFeeds(step); };
  return model;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunStepBenchmark({"wide_and_deep_step",
                                   "Times steps of training a Wide & Deep model on drawn samples",
                                   "samples",
                                   {{"vocabulary", "N", ""},
                                    {"width", "N", ""},
                                    {"batch", "N", ""},
                                    {"split_columns", "", ""},
                                    {"clip", "X", ""}},
                                   sluice::Model},
                                  argc, argv);
}
