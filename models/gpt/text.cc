#include "models/gpt/text.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/base/stop.h"
#include "framework/data/text_corpus.h"
#include "framework/data/text_dataset.h"
#include "framework/train/run_folder.h"

namespace sluice {
namespace {

absl::StatusOr<TextCorpus> ReadCorpus(const AppOptions& options) {
  if (!options.data.empty()) return ReadTextCorpus(options.data, RunFolders(options.out));
  if (options.bundled.empty()) {
    return absl::NotFoundError(absl::StrCat("data: expected ", kGptCorpus,
                                            " beside the program, found none; start it with bazel "
                                            "run, or name text with --data"));
  }
  return ReadPackedCorpus(options.bundled);
}

}  // namespace

absl::StatusOr<AppData> OpenGptText(const AppOptions& options, int64_t length) {
  const Stop& stop = options.session.stop;
  ASSIGN_OR_RETURN(TextCorpus corpus, ReadCorpus(options));
  RETURN_IF_ERROR(CheckStop(stop));
  const double bigram = BigramLoss(corpus.training, corpus.held_out);
  RETURN_IF_ERROR(CheckStop(stop));
  const std::string digest = HashText(corpus.digest);
  AppData data;
  data.lines = {
      absl::StrFormat("text       %d bytes to learn from, %d held out, digest %s",
                      corpus.training.size(), corpus.held_out.size(), digest),
      absl::StrFormat("baseline   a bigram model of the same text: %.4f nats a byte on what is "
                      "held out",
                      bigram)};
  data.facts = {{"corpus", digest}, {"bigram_loss", absl::StrFormat("%.9g", bigram)}};
  data.baseline = Baseline{"a bigram model", bigram};
  ASSIGN_OR_RETURN(TextDataset training,
                   TextDataset::Create("training text", std::move(corpus.training), length));
  RETURN_IF_ERROR(CheckStop(stop));
  ASSIGN_OR_RETURN(TextDataset held_out,
                   TextDataset::Create("held-out text", std::move(corpus.held_out), length));
  data.training = std::make_unique<TextDataset>(std::move(training));
  data.held_out = std::make_unique<TextDataset>(std::move(held_out));
  data.held_out_name = "held-out text";
  return data;
}

}  // namespace sluice
