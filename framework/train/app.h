// The program that trains a model: all of it but the model. Flags, presets, what is told on the
// way, data, evaluation, checkpoints, resuming, looking inside, exit codes. A model's main fills an
// App and returns what RunApp returns.
#ifndef SLUICE_FRAMEWORK_TRAIN_APP_H_
#define SLUICE_FRAMEWORK_TRAIN_APP_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/data/dataset.h"
#include "framework/data/sample_order.h"
#include "framework/graph/graph.h"
#include "framework/session/session.h"
#include "framework/train/app_options.h"
#include "framework/train/evaluation.h"
#include "framework/train/metrics.h"

namespace sluice {

// What a model comes to once its flags are read.
struct AppModel {
  std::string summary;  // for people: "0.84M parameters: 4 layers, ..."
  Throughput throughput;
  double flops_per_sample = 0;  // of forward and backward; 0: not known
  // Of the program "eval", or what App::evaluate gives; the first is compared with the data's
  // baseline.
  std::vector<Metric> metrics = {{"loss", ""}};
};

// A program of the session. The first trains: its inputs are the fields of the training data,
// "learning_rate" and "step", its outputs "loss" and "grad_norm". One named "eval" evaluates,
// unless App::evaluate runs others.
struct AppProgram {
  std::string name;
  int64_t micro_batches = 0;  // 0: --micro_batches of the first program, 1 of others
  Graph graph;
};

// What any trained model should beat.
struct Baseline {
  std::string name;  // "a bigram model"
  double value = 0;  // of the first metric
};

struct AppData {
  std::unique_ptr<Dataset> training;
  SampleOrder::Kind order = SampleOrder::kRandom;  // in which that is seen: this, or kEpochs
  std::unique_ptr<Dataset> held_out;               // null: nothing is evaluated
  std::string held_out_name = "held-out data";     // for people
  std::vector<std::string> lines;                  // about it, for people
  std::vector<std::pair<std::string, std::string>> facts;  // for the log's first line
  std::optional<Baseline> baseline;
  // What a new run keeps beside its options, by file name: a vocabulary that was learned.
  std::map<std::string, std::string> files;
};

struct App {
  std::string name;  // begins its errors
  // The process ends with RunApp, as it does but in tests: nothing large is freed before, which
  // takes seconds of a plan of many devices, and Ctrl-C before a run begins ends it at once.
  bool ends_process = true;
  AppFlags flags;
  std::string bundled;  // a file that Bazel lays out beside the program; empty: none
  // Reads the model's own flags. Its errors are of the command line.
  std::function<absl::StatusOr<AppModel>(const AppOptions& options)> read;
  std::function<absl::Status(const AppOptions& options, std::vector<std::unique_ptr<AppProgram>>*)>
      build;
  // A NotFound error is told with how data is fetched, unless it names //tools:dataset itself. It
  // is Cancelled soon after options.session.stop says so, where it takes long.
  std::function<absl::StatusOr<AppData>(const AppOptions& options)> open_data;
  // Of a model whose metrics are no sums over samples: a value for each of AppModel::metrics, of
  // what the session's programs make of data.held_out. Called where data is held out, with no step
  // under way, on all ranks; only the values of the first are read. Cancelled where how.stop has
  // ended it, which all ranks ask at the same places. May be unset.
  std::function<absl::StatusOr<Evaluation>(Session* session, const AppData& data,
                                           const EvaluationOptions& how)>
      evaluate;
  // Whether AppFlags::use reads the data, which `open_data` then opens as for training.
  bool use_reads_data = false;
  // What follows training, such as a sample of what was learned; alone if AppFlags::use is given.
  // `stop` says that it should end soon. Of several ranks all do it together: `stop` is one that
  // they ask together, and what is printed is the first one's. May be unset.
  std::function<absl::Status(Session* session, const AppOptions& options,
                             const std::function<bool()>& stop)>
      use;
};

// What main returns: 0, 1 for an error of the work, 2 for one of the flags.
int RunApp(const App& app, int argc, char** argv);

// FailedPrecondition where data is not what a run has seen, by size or digest: both are named. A
// run that recorded none is not held to any.
absl::Status CheckSameData(const std::map<std::string, DataRecord>& seen,
                           const std::map<std::string, DataRecord>& now);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_APP_H_
