// Pre-trains a BERT, or has one tell texts apart, on the devices of one machine.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/nn/model_size.h"
#include "framework/train/app.h"
#include "framework/train/job_flags.h"
#include "models/bert/bert.h"
#include "models/bert/options.h"
#include "models/bert/text.h"

namespace sluice {
namespace {

absl::StatusOr<AppModel> Describe(const BertConfig& c) {
  Graph loss;
  RETURN_IF_ERROR(BuildBertLoss(c, &loss));
  const ModelSize size = SizeOfModel(loss);
  AppModel model;
  model.summary = absl::StrFormat(
      "%.2fM parameters: %d layers, hidden %d, %d heads, sequences of %d, %d word pieces",
      static_cast<double>(size.parameters) / 1e6, c.layers, c.hidden, c.heads, c.sequence_length,
      c.vocabulary);
  model.throughput = {"tokens", static_cast<double>(c.sequence_length)};
  model.flops_per_sample = 3.0 * static_cast<double>(size.flops) / static_cast<double>(c.batch);
  if (c.classes > 0) {
    model.metrics = {{"loss", "nats"}, {.name = "accuracy", .larger_is_better = true}};
  } else {
    model.metrics = {{"masked_loss", "nats a word piece", /*weight=*/"masked_words"},
                     {.name = "next_accuracy", .larger_is_better = true}};
  }
  return model;
}

absl::Status Build(const AppOptions& options, const BertConfig& config,
                   std::vector<std::unique_ptr<AppProgram>>* programs) {
  for (const char* name : {"train", "eval"}) {
    programs->push_back(std::make_unique<AppProgram>());
    programs->back()->name = name;
  }
  // As many as training takes, so that evaluating needs no more memory and fills the pipeline.
  (*programs)[1]->micro_batches = options.session.micro_batches;
  RETURN_IF_ERROR(BuildBertTrain(config, options.optimizer, &(*programs)[0]->graph));
  return BuildBertEval(config, &(*programs)[1]->graph);
}

// Begins this program anew with other arguments, in this process, which then is the second run. Its
// flags are read afresh, and nothing of the first is left in memory. `folder` is where the first
// was begun, to which its name may be relative.
int Become(const char* program, const std::string& folder, std::vector<std::string> arguments,
           const NextStart& start) {
  arguments.insert(arguments.begin(), program);
  arguments.insert(arguments.end(), start.flags.begin(), start.flags.end());
  for (const auto& [name, value] : start.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  fflush(nullptr);
  if (chdir(folder.c_str()) == 0) execv("/proc/self/exe", argv.data());
  SLUICE_LOG(ERROR) << "train: cannot go on with --task=classify: " << strerror(errno);
  return 1;
}

int Main(int argc, char** argv) {
  std::error_code unknown;
  const std::string folder = std::filesystem::current_path(unknown).string();
  BertOptions bert;  // as `read` leaves it for the others
  std::vector<std::string> then;
  NextStart start;  // of that
  App app;
  app.name = "train";
  app.flags = BertFlags();
  app.read = [&bert](const AppOptions& options) -> absl::StatusOr<AppModel> {
    ASSIGN_OR_RETURN(bert, ReadBertFlags(options));
    return Describe(bert.config);
  };
  app.build = [&bert](const AppOptions& options, auto* programs) {
    return Build(options, bert.config, programs);
  };
  app.open_data = [&bert](const AppOptions& options) -> absl::StatusOr<AppData> {
    ASSIGN_OR_RETURN(AppData data, OpenBertText(options, bert.config, bert.vocabulary_file));
    if (bert.later_classes > 0) RETURN_IF_ERROR(CheckClasses(options, bert.later_classes));
    return data;
  };
  app.use = [&](Session* session, const AppOptions& options,
                const std::function<bool()>&) -> absl::Status {
    if (bert.task != BertTask::kBoth) return absl::OkStatus();
    // Before ranks meet: the first one to begin anew makes the folder that all look for.
    then = ClassifyingRun(options, options.out, options.schedule.steps);
    absl::StatusOr<NextStart> next = MeetAgain(options.job, session);
    if (next.ok()) start = *std::move(next);
    return next.status();
  };
  const int code = RunApp(app, argc, argv);
  return code == 0 && !then.empty() ? Become(argv[0], folder, std::move(then), start) : code;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
