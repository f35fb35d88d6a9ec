#include "models/gpt/text.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/base/stop.h"
#include "framework/data/text_corpus.h"
#include "framework/data/text_dataset.h"
#include "framework/data/text_windows.h"
#include "framework/data/token_file.h"
#include "framework/train/run_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kTokens[] = ".bin";
constexpr int64_t kHeldOutPart = 10;

absl::StatusOr<TextCorpus> ReadCorpus(const AppOptions& options, bool raw_bytes) {
  if (!options.data.empty()) {
    return ReadTextCorpus(options.data, {.skip = RunFolders(options.out),
                                         .any_bytes = raw_bytes,
                                         .advice = "--raw_bytes learns its bytes as they are"});
  }
  if (options.bundled.empty()) {
    return absl::NotFoundError(absl::StrCat("data: expected ", kGptCorpus,
                                            " beside the program, found none; start it with bazel "
                                            "run, or name text with --data"));
  }
  return ReadPackedCorpus(options.bundled);
}

// Files of tokens: one that is split, or two.
struct TokenPaths {
  std::string training, held_out;
};

// Empty where `path` is text.
TokenPaths FindTokenFiles(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error) && absl::EndsWith(path, kTokens)) return {path, ""};
  std::vector<std::string> training, held_out;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().string();
    if (absl::EndsWith(name, absl::StrCat("train", kTokens))) training.push_back(name);
    if (absl::EndsWith(name, absl::StrCat("val", kTokens))) held_out.push_back(name);
  }
  if (training.size() != 1 || held_out.size() != 1) return {};
  return {training[0], held_out[0]};
}

absl::StatusOr<std::vector<int32_t>> ReadTokens(const std::string& path,
                                                const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(TokenFile file, ReadTokenFile(path));
  for (size_t i = 0; i < file.tokens.size(); ++i) {
    if (file.tokens[i] >= 0 && file.tokens[i] < tokenizer.size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", path, ", token ", i, ": expected 0 to ", tokenizer.size() - 1,
                     ", as of ", tokenizer.name(), ", got ", file.tokens[i]));
  }
  return std::move(file.tokens);
}

absl::Status SetData(std::vector<int32_t> training, std::vector<int32_t> held_out, int64_t length,
                     const char* what, AppData* data) {
  ASSIGN_OR_RETURN(TokenDataset seen, TokenDataset::Create(absl::StrCat("training ", what),
                                                           std::move(training), length));
  ASSIGN_OR_RETURN(TokenDataset unseen, TokenDataset::Create(absl::StrCat("held-out ", what),
                                                             std::move(held_out), length));
  data->training = std::make_unique<TokenDataset>(std::move(seen));
  data->held_out = std::make_unique<TextWindows>(std::make_unique<TokenDataset>(std::move(unseen)));
  return absl::OkStatus();
}

absl::StatusOr<GptData> OpenTokens(const TokenPaths& paths, const GptConfig& config,
                                   const Tokenizer& tokenizer) {
  GptData opened;
  ASSIGN_OR_RETURN(std::vector<int32_t> training, ReadTokens(paths.training, tokenizer));
  std::vector<int32_t> held_out;
  if (paths.held_out.empty()) {
    const auto cut = static_cast<int64_t>(training.size()) -
                     static_cast<int64_t>(training.size()) / kHeldOutPart;
    held_out.assign(training.begin() + cut, training.end());
    training.resize(cut);
  } else {
    ASSIGN_OR_RETURN(held_out, ReadTokens(paths.held_out, tokenizer));
  }
  if (tokenizer.has_text() && !held_out.empty()) {
    opened.bytes_per_token =
        static_cast<double>(tokenizer.CountBytes(held_out)) / static_cast<double>(held_out.size());
  }
  opened.data.lines = {absl::StrFormat("tokens     %d to learn from, %d held out, of %s",
                                       training.size(), held_out.size(), paths.training)};
  opened.data.held_out_name = "held-out tokens";
  RETURN_IF_ERROR(SetData(std::move(training), std::move(held_out), config.sequence_length,
                          "tokens", &opened.data));
  return opened;
}

// Samples of bytes.
absl::Status SetBytes(TextCorpus corpus, int64_t length, const Stop& stop, AppData* data) {
  ASSIGN_OR_RETURN(TextDataset training,
                   TextDataset::Create("training text", std::move(corpus.training), length));
  RETURN_IF_ERROR(CheckStop(stop));
  ASSIGN_OR_RETURN(TextDataset held_out,
                   TextDataset::Create("held-out text", std::move(corpus.held_out), length));
  data->training = std::make_unique<TextDataset>(std::move(training));
  data->held_out =
      std::make_unique<TextWindows>(std::make_unique<TextDataset>(std::move(held_out)));
  return absl::OkStatus();
}

// Samples of byte pairs; `text` is set free once they are there.
absl::Status SetBytePairs(TextCorpus corpus, const Tokenizer& tokenizer, int64_t length,
                          const Stop& stop, GptData* opened) {
  const auto bytes = static_cast<double>(corpus.held_out.size());
  ASSIGN_OR_RETURN(std::vector<int32_t> training, tokenizer.Encode(corpus.training));
  corpus.training = std::string();
  RETURN_IF_ERROR(CheckStop(stop));
  ASSIGN_OR_RETURN(std::vector<int32_t> held_out, tokenizer.Encode(corpus.held_out));
  RETURN_IF_ERROR(CheckStop(stop));
  if (!held_out.empty()) opened->bytes_per_token = bytes / static_cast<double>(held_out.size());
  opened->data.lines.push_back(
      absl::StrFormat("tokens     %d to learn from, %d held out, of %.2f bytes each",
                      training.size(), held_out.size(), opened->bytes_per_token));
  return SetData(std::move(training), std::move(held_out), length, "text", &opened->data);
}

}  // namespace

absl::StatusOr<GptData> OpenGptText(const AppOptions& options, const GptConfig& config,
                                    const RunTokenizer& run, bool raw_bytes) {
  const Stop& stop = options.session.stop;
  GptData opened;
  const TokenPaths paths = raw_bytes ? TokenPaths() : FindTokenFiles(options.data);
  if (!paths.training.empty()) {
    ASSIGN_OR_RETURN(opened, OpenTokens(paths, config, run.tokenizer));
  } else {
    if (!run.tokenizer.has_text()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data: expected --tokenizer, the folder of the byte pairs that text is made of, or a "
          "file of tokens, NAME",
          kTokens, ", for a model of ", config.vocabulary, " tokens"));
    }
    ASSIGN_OR_RETURN(TextCorpus corpus, ReadCorpus(options, raw_bytes));
    RETURN_IF_ERROR(CheckStop(stop));
    const double bigram = BigramLoss(corpus.training, corpus.held_out);
    RETURN_IF_ERROR(CheckStop(stop));
    const std::string digest = HashText(corpus.digest);
    opened.data.lines = {
        absl::StrFormat("text       %d bytes to learn from, %d held out, digest %s",
                        corpus.training.size(), corpus.held_out.size(), digest),
        absl::StrFormat("baseline   a bigram model of the same text: %.4f nats a byte on what is "
                        "held out",
                        bigram)};
    opened.data.facts = {{"corpus", digest}, {"bigram_loss", absl::StrFormat("%.9g", bigram)}};
    opened.bytes_per_token = 1;
    const int64_t length = config.sequence_length;
    RETURN_IF_ERROR(run.tokenizer.is_bytes()
                        ? SetBytes(std::move(corpus), length, stop, &opened.data)
                        : SetBytePairs(std::move(corpus), run.tokenizer, length, stop, &opened));
    opened.data.baseline = Baseline{"a bigram model", bigram * opened.bytes_per_token};
    opened.data.held_out_name = "held-out text";
  }
  if (!run.where.empty()) {
    opened.data.lines.push_back(
        absl::StrFormat("tokenizer  %s, of %s", run.tokenizer.name(), run.where));
    opened.data.facts.emplace_back("tokenizer", HashText(run.digest));
    opened.data.files = run.files;
  }
  return opened;
}

}  // namespace sluice
