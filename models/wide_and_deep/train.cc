// Trains a Wide & Deep model and judges held-out samples, on the devices of one machine.

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/data/tabular.h"
#include "framework/nn/model_size.h"
#include "framework/train/app.h"
#include "models/wide_and_deep/click_data.h"
#include "models/wide_and_deep/evaluate.h"
#include "models/wide_and_deep/metrics.h"
#include "models/wide_and_deep/options.h"
#include "models/wide_and_deep/wide_and_deep.h"

namespace sluice {
namespace {

absl::StatusOr<AppModel> Describe(const WideAndDeepConfig& c) {
  Graph loss;
  RETURN_IF_ERROR(BuildWideAndDeepLoss(c, &loss));
  const ModelSize size = SizeOfModel(loss);
  AppModel model;
  model.summary =
      absl::StrFormat("%.2fM parameters: wide %d features of %d rows, deep",
                      static_cast<double>(size.parameters) / 1e6, c.wide.features, c.wide.rows);
  for (const EmbeddingTable& table : c.tables) {
    absl::StrAppendFormat(&model.summary, " %d of %d x %d,", table.features, table.rows,
                          table.width);
  }
  absl::StrAppend(&model.summary, " ", c.numbers, " numbers, layers of");
  for (const int64_t width : c.hidden) absl::StrAppend(&model.summary, " ", width);
  model.flops_per_sample = 3.0 * static_cast<double>(size.flops) / static_cast<double>(c.batch);
  model.metrics = {{.name = "auc", .larger_is_better = true, .may_be_undefined = true},
                   {"log_loss", "nats"}};
  return model;
}

absl::Status Build(const AppOptions& options, const WideAndDeepOptions& model,
                   std::vector<std::unique_ptr<AppProgram>>* programs) {
  for (const char* name : {"train", "eval"}) {
    programs->push_back(std::make_unique<AppProgram>());
    programs->back()->name = name;
  }
  // As many as training takes, so that evaluating needs no more memory and fills the pipeline.
  (*programs)[1]->micro_batches = options.session.micro_batches;
  RETURN_IF_ERROR(BuildWideAndDeepTrain(model.config, model.optimizer, &(*programs)[0]->graph));
  return BuildWideAndDeepEval(model.config, &(*programs)[1]->graph);
}

absl::StatusOr<Evaluation> Evaluate(Session* session, const Tabular& held_out,
                                    const EvaluationOptions& options) {
  ASSIGN_OR_RETURN(const Judged judged, LogitsOf(session, held_out, options));
  ASSIGN_OR_RETURN(const std::vector<float> labels, held_out.Labels(judged.samples));
  Evaluation evaluation;
  evaluation.samples = SamplesToEvaluate(held_out, options);
  evaluation.all_samples = held_out.num_samples();
  if (!judged.logits.empty()) {
    evaluation.values = {AreaUnderCurve(judged.logits, labels), LogLoss(judged.logits, labels)};
  }
  return evaluation;
}

int Main(int argc, char** argv) {
  WideAndDeepOptions model;  // as `read` leaves it for the others
  App app;
  app.name = "train";
  app.flags = WideAndDeepFlags();
  app.read = [&](const AppOptions& options) -> absl::StatusOr<AppModel> {
    ASSIGN_OR_RETURN(model, ReadWideAndDeepFlags(options));
    return Describe(model.config);
  };
  app.build = [&model](const AppOptions& options, auto* programs) {
    return Build(options, model, programs);
  };
  app.open_data = [&](const AppOptions& options) {
    model.data.stop = options.session.stop;
    return OpenClickData(options.data, model.data, model.config);
  };
  // What is held out is of no other kind: drawn samples have none.
  app.evaluate = [](Session* session, const AppData& data, const EvaluationOptions& how) {
    return Evaluate(session, static_cast<const Tabular&>(*data.held_out), how);
  };
  return RunApp(app, argc, argv);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
