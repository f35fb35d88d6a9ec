// The main job: trains a GPT on text, on the devices of one machine.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/app.h"
#include "models/gpt/gpt.h"
#include "models/gpt/options.h"
#include "models/gpt/sampler.h"
#include "models/gpt/text.h"

namespace sluice {
namespace {

AppModel Describe(const GptConfig& c) {
  AppModel model;
  model.summary = absl::StrFormat(
      "%.2fM parameters: %d layers, hidden %d, %d heads, sequences of %d",
      static_cast<double>(GptParameters(c)) / 1e6, c.layers, c.hidden, c.heads, c.sequence_length);
  model.throughput = {"tokens", static_cast<double>(c.sequence_length)};
  model.flops_per_sample = GptFlopsPerToken(c) * static_cast<double>(c.sequence_length);
  model.metrics = {{"loss", "nats a byte"}};
  return model;
}

absl::Status Build(const AppOptions& options, const GptConfig& config,
                   std::vector<std::unique_ptr<AppProgram>>* programs) {
  for (const char* name : {"train", "eval", "sample"}) {
    programs->push_back(std::make_unique<AppProgram>());
    programs->back()->name = name;
  }
  // As many as training takes, so that evaluating needs no more memory and fills the pipeline.
  (*programs)[1]->micro_batches = options.session.micro_batches;
  RETURN_IF_ERROR(BuildGptTrain(config, options.optimizer, &(*programs)[0]->graph));
  RETURN_IF_ERROR(BuildGptEval(config, &(*programs)[1]->graph));
  return BuildGptSample(config, &(*programs)[2]->graph);
}

int Main(int argc, char** argv) {
  GptOptions gpt;  // as `read` leaves it for the others
  App app;
  app.name = "train";
  app.flags = GptFlags();
  app.bundled = kGptCorpus;
  app.read = [&gpt](const AppOptions& options) -> absl::StatusOr<AppModel> {
    ASSIGN_OR_RETURN(gpt, ReadGptFlags(options));
    return Describe(gpt.config);
  };
  app.build = [&gpt](const AppOptions& options, auto* programs) {
    return Build(options, gpt.config, programs);
  };
  app.open_data = [&gpt](const AppOptions& options) {
    return OpenGptText(options, gpt.config.sequence_length);
  };
  app.use = [&gpt](Session* session, const AppOptions&, const std::function<bool()>& stop) {
    gpt.sample.stop = stop;
    return PrintSample(session, gpt.sample);
  };
  return RunApp(app, argc, argv);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
