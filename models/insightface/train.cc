// Trains a face network and verifies held-out pairs, on the devices of one machine.

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/nn/model_size.h"
#include "framework/train/app.h"
#include "framework/train/evaluation.h"
#include "framework/train/plot.h"
#include "models/insightface/face_data.h"
#include "models/insightface/insightface.h"
#include "models/insightface/options.h"

namespace sluice {
namespace {

// Two of either kind in each fold.
constexpr int64_t kFewestPairs = 4 * kFolds;

absl::StatusOr<AppModel> Describe(const FaceOptions& options) {
  const FaceConfig& c = options.config;
  Graph loss;
  RETURN_IF_ERROR(BuildFaceLoss(c, &loss));
  const ModelSize size = SizeOfModel(loss);
  AppModel model;
  model.summary =
      absl::StrFormat("%.2fM parameters: %s of width %d, %d x %d x %d to %d features, %d classes",
                      static_cast<double>(size.parameters) / 1e6, c.network, c.width, c.image_size,
                      c.image_size, c.channels, c.embedding, c.classes);
  const int64_t sampled = c.sample_groups * SampledOfGroup(c);
  if (sampled < c.classes) absl::StrAppend(&model.summary, ", of which a step has ", sampled);
  model.throughput = {"images", 1};
  model.flops_per_sample = 3.0 * static_cast<double>(size.flops) / static_cast<double>(c.batch);
  std::vector<std::string> names = {"accuracy", "tpr_1e-2", "tpr_1e-3"};
  if (options.data.verification.empty()) names.insert(names.end(), {"printed", "handwriting"});
  model.metrics.clear();
  for (const std::string& name : names) {
    model.metrics.push_back({.name = name, .larger_is_better = true});
  }
  return model;
}

absl::Status Build(const AppOptions& options, const FaceConfig& config,
                   std::vector<std::unique_ptr<AppProgram>>* programs) {
  for (const char* name : {"train", "embed"}) {
    programs->push_back(std::make_unique<AppProgram>());
    programs->back()->name = name;
  }
  // As many as training takes, so that embedding needs no more memory and fills the pipeline.
  (*programs)[1]->micro_batches = options.session.micro_batches;
  RETURN_IF_ERROR(BuildFaceTrain(config, options.optimizer, &(*programs)[0]->graph));
  return BuildFaceEmbed(config, &(*programs)[1]->graph);
}

// Each set counts as many pairs as the first, if it has them.
absl::StatusOr<Evaluation> Evaluate(Session* session, const std::vector<VerificationSet>& sets,
                                    EvaluationOptions options) {
  // A smaller test would have folds without a pair of either kind.
  options.most_samples = std::max(options.most_samples, kFewestPairs);
  Evaluation evaluation;
  std::vector<double>& values = evaluation.values;
  for (const VerificationSet& set : sets) {
    evaluation.samples += static_cast<int64_t>(SpreadPairs(set.pairs, options.most_samples).size());
    evaluation.all_samples += static_cast<int64_t>(set.pairs.size());
    ASSIGN_OR_RETURN(const Verification verified, VerifyBy(session, set, options));
    values.push_back(verified.accuracy);
    if (values.size() > 1) continue;
    values.push_back(TruePositivesAt(1e-2, verified.roc));
    values.push_back(TruePositivesAt(1e-3, verified.roc));
  }
  return evaluation;
}

// In the terminal, and as a picture in the folder of the run.
absl::Status PrintRoc(Session* session, const std::vector<VerificationSet>& sets,
                      const AppOptions& options, const Stop& stop) {
  for (const VerificationSet& set : sets) {
    ASSIGN_OR_RETURN(const Verification verified,
                     VerifyBy(session, set, {.batch = options.batch, .stop = stop}));
    std::vector<PlotPoint> curve;
    for (const RocPoint& point : verified.roc) {
      curve.push_back({point.false_positives, point.true_positives});
    }
    const std::array<std::string, 2> title = {
        absl::StrFormat("%s: accuracy %.4f (of pixels %.4f)", set.name, verified.accuracy,
                        VerifyByPixels(set).accuracy),
        absl::StrFormat("true positives %.4f at 1e-2 and %.4f at 1e-3 false ones",
                        TruePositivesAt(1e-2, verified.roc), TruePositivesAt(1e-3, verified.roc))};
    absl::PrintF("\n%s          %s, %s\n", DrawPlot(curve, {}, {.x_name = "false positives"}),
                 title[0], title[1]);
    if (options.use) continue;
    const std::string path = absl::StrCat(options.out, "/roc_", set.name, ".svg");
    std::ofstream file(path);
    file << RocAsSvg(verified.roc, title);
    file.close();
    if (!file) return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  FaceOptions face;  // as `read` leaves it for the others
  std::vector<VerificationSet> sets;
  App app;
  app.name = "train";
  app.flags = FaceFlags();
  app.read = [&face](const AppOptions& options) -> absl::StatusOr<AppModel> {
    ASSIGN_OR_RETURN(face, ReadFaceFlags(options));
    return Describe(face);
  };
  app.build = [&face](const AppOptions& options, auto* programs) {
    return Build(options, face.config, programs);
  };
  app.open_data = [&](const AppOptions& options) -> absl::StatusOr<AppData> {
    FaceDataOptions data_options = face.data;
    data_options.stop = options.session.stop;
    ASSIGN_OR_RETURN(FaceData data, OpenFaceData(options.data, data_options));
    sets = std::move(data.sets);
    return std::move(data.app);
  };
  app.evaluate = [&sets](Session* session, const AppData&, const EvaluationOptions& how) {
    return Evaluate(session, sets, how);
  };
  app.use_reads_data = true;
  app.use = [&](Session* session, const AppOptions& options,
                const std::function<bool()>& stop) -> absl::Status {
    return PrintRoc(session, sets, options, stop);
  };
  return RunApp(app, argc, argv);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
