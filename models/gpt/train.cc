// The main job: trains a GPT on text, on the devices of one machine.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/train/app.h"
#include "models/gpt/gpt.h"
#include "models/gpt/options.h"
#include "models/gpt/sampler.h"
#include "models/gpt/text.h"

namespace sluice {
namespace {

AppModel Describe(const GptConfig& c, const Tokenizer& tokenizer) {
  AppModel model;
  model.summary =
      absl::StrFormat("%.2fM parameters: %d layers, hidden %d, %d heads, sequences of %d, over %s",
                      static_cast<double>(GptParameters(c)) / 1e6, c.layers, c.hidden, c.heads,
                      c.sequence_length, tokenizer.name());
  model.throughput = {"tokens", static_cast<double>(c.sequence_length)};
  model.flops_per_sample = GptFlopsPerToken(c) * static_cast<double>(c.sequence_length);
  model.metrics = {{"loss", tokenizer.is_bytes() ? "nats a byte" : "nats a token", "predicted"}};
  if (tokenizer.has_text()) model.metrics.push_back({"bits_per_byte", "", "predicted"});
  return model;
}

absl::Status Build(const AppOptions& options, const GptConfig& config,
                   std::vector<std::unique_ptr<AppProgram>>* programs) {
  for (const char* name : {"train", "eval", "decode", "prefill"}) {
    programs->push_back(std::make_unique<AppProgram>());
    programs->back()->name = name;
  }
  // As many as training takes, so that evaluating needs no more memory and fills the pipeline.
  (*programs)[1]->micro_batches = options.session.micro_batches;
  RETURN_IF_ERROR(BuildGptTrain(config, options.optimizer, &(*programs)[0]->graph));
  RETURN_IF_ERROR(BuildGptEval(config, &(*programs)[1]->graph));
  RETURN_IF_ERROR(BuildGptDecode(config, &(*programs)[2]->graph));
  return BuildGptPrefill(config, &(*programs)[3]->graph);
}

// Prints the prompt and what follows it, between two lines; nothing if its length is 0.
absl::Status PrintSample(Session* session, const GptOptions& gpt) {
  std::vector<int32_t> tokens = gpt.prompt;
  ASSIGN_OR_RETURN(const std::vector<int32_t> written,
                   SampleTokens(session, gpt.prompt, gpt.sample));
  if (gpt.sample.length == 0) return absl::OkStatus();
  tokens.insert(tokens.end(), written.begin(), written.end());
  ASSIGN_OR_RETURN(const std::string text, gpt.tokenizer.tokenizer.Decode(tokens));
  absl::PrintF("---\n%s\n---\n", Printable(text));
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  GptOptions gpt;  // as `read` leaves it for the others
  App app;
  app.name = "train";
  app.flags = GptFlags();
  app.bundled = kGptCorpus;
  app.read = [&gpt](const AppOptions& options) -> absl::StatusOr<AppModel> {
    ASSIGN_OR_RETURN(gpt, ReadGptFlags(options));
    return Describe(gpt.config, gpt.tokenizer.tokenizer);
  };
  app.build = [&gpt](const AppOptions& options, auto* programs) {
    return Build(options, gpt.config, programs);
  };
  app.open_data = [&gpt](const AppOptions& options) -> absl::StatusOr<AppData> {
    ASSIGN_OR_RETURN(GptData opened,
                     OpenGptText(options, gpt.config, gpt.tokenizer, gpt.raw_bytes));
    gpt.config.bytes_per_token = opened.bytes_per_token;
    return std::move(opened.data);
  };
  app.use = [&gpt](Session* session, const AppOptions&, const std::function<bool()>& stop) {
    gpt.sample.stop = stop;
    return PrintSample(session, gpt);
  };
  return RunApp(app, argc, argv);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
