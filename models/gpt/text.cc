#include "models/gpt/text.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/base/stop.h"
#include "framework/data/file_kind.h"
#include "framework/data/packed.h"
#include "framework/data/text_corpus.h"
#include "framework/data/text_dataset.h"
#include "framework/data/text_windows.h"
#include "framework/data/token_sequence.h"
#include "framework/train/run_folder.h"

namespace sluice {
namespace {

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

// The error that there are too few samples, with the data that has them.
absl::Status OfData(const AppOptions& options, const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) || options.data.empty()) return status;
  return AddContext(status, absl::StrCat("data: ", options.data));
}

template <typename Sequence>
absl::Status SetData(Sequence training, Sequence held_out, int64_t length, const char* what,
                     AppData* data) {
  using Samples = SequenceDataset<Sequence>;
  ASSIGN_OR_RETURN(Samples seen,
                   Samples::Create(absl::StrCat("training ", what), std::move(training), length));
  ASSIGN_OR_RETURN(Samples unseen,
                   Samples::Create(absl::StrCat("held-out ", what), std::move(held_out), length));
  data->training = std::make_unique<Samples>(std::move(seen));
  data->held_out = std::make_unique<TextWindows>(std::make_unique<Samples>(std::move(unseen)));
  return absl::OkStatus();
}

// Bytes that a token stands for in the mean: of all tokens, or of a sample of very many.
absl::StatusOr<double> BytesPerToken(const TokenSequence& tokens, const Tokenizer& tokenizer) {
  constexpr int64_t kMost = int64_t{1} << 28;
  int64_t bytes = 0, count = 0;
  RETURN_IF_ERROR(tokens.ForEachPieceOf(kMost, [&](absl::Span<const int32_t> piece) {
    bytes += tokenizer.CountBytes(piece);
    count += static_cast<int64_t>(piece.size());
    return absl::OkStatus();
  }));
  return count == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(count);
}

// What is learned from and what is held out: the last tenth, unless there are files for it.
struct TokenParts {
  TokenSequence training, held_out;
};
absl::StatusOr<TokenParts> OpenParts(const TokenPaths& paths, const TokenVocabulary& of) {
  ASSIGN_OR_RETURN(TokenSequence training, TokenSequence::Open(paths.training, of));
  if (!paths.held_out.empty()) {
    ASSIGN_OR_RETURN(TokenSequence held_out, TokenSequence::Open(paths.held_out, of));
    return TokenParts{std::move(training), std::move(held_out)};
  }
  const int64_t cut = training.size() - training.size() / kHeldOutPart;
  return TokenParts{training.Part(0, cut), training.Part(cut, training.size())};
}

std::string Described(const TokenPaths& paths, const std::string& data) {
  if (paths.training.size() + paths.held_out.size() == 1) return data;
  return absl::StrFormat("%s: %d files to learn from, %d held out", data, paths.training.size(),
                         paths.held_out.size());
}

absl::StatusOr<GptData> OpenTokenData(const TokenPaths& paths, const AppOptions& options,
                                      const GptConfig& config, const Tokenizer& tokenizer) {
  const Stop& stop = options.session.stop;
  GptData opened;
  ASSIGN_OR_RETURN(TokenParts parts,
                   OpenParts(paths, {tokenizer.size(), tokenizer.name(),
                                     "; --vocabulary says how many tokens there are"}));
  TokenSequence &training = parts.training, &held_out = parts.held_out;
  RETURN_IF_ERROR(training.Identify(stop));
  RETURN_IF_ERROR(held_out.Identify(stop));
  if (tokenizer.has_text()) {
    ASSIGN_OR_RETURN(opened.bytes_per_token, BytesPerToken(held_out, tokenizer));
  }
  opened.data.lines = {absl::StrFormat(
      "tokens     %d to learn from, %d held out, of %d bits, of %s", training.size(),
      held_out.size(), training.bits(), Described(paths, options.data))};
  if (training.is_sampled() || held_out.is_sampled()) {
    opened.data.lines.push_back(absl::StrFormat(
        "           too many to check all of them now: %d are, others when they are learned",
        TokenSequence::kSampled));
  }
  opened.data.held_out_name = "held-out tokens";
  RETURN_IF_ERROR(OfData(options, SetData(std::move(training), std::move(held_out),
                                          config.sequence_length, "tokens", &opened.data)));
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

// Why data that has no tokens, such as text, is nothing to a model that is given no tokenizer.
absl::Status NoTokens(const std::string& data, int64_t vocabulary) {
  std::string name = "data", got = "the text of this repository";
  std::error_code error;
  if (std::filesystem::is_directory(data, error)) {
    absl::StrAppend(&name, ": ", data), got = "a folder without such files";
  } else if (!data.empty()) {
    ASSIGN_OR_RETURN(const std::string begin, ReadUnpackedBegin(data, kRecognizedBytes));
    absl::StrAppend(&name, ": ", data), got = DescribeFile(RecognizeBytes(begin), data);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": expected tokens for a model of ", vocabulary,
      ", a file NAME.bin or NAME.npy or a folder of files NAME_train.bin and NAME_val.bin, or "
      "--tokenizer, the folder of the byte pairs that text is made of; got ",
      got));
}

}  // namespace

absl::StatusOr<GptData> OpenGptText(const AppOptions& options, const GptConfig& config,
                                    const RunTokenizer& run, bool raw_bytes) {
  const Stop& stop = options.session.stop;
  GptData opened;
  TokenPaths paths;
  if (!raw_bytes && !options.data.empty()) {
    ASSIGN_OR_RETURN(paths, FindTokenFiles(options.data));
  }
  if (!paths.training.empty()) {
    ASSIGN_OR_RETURN(opened, OpenTokenData(paths, options, config, run.tokenizer));
  } else {
    if (!run.tokenizer.has_text()) return NoTokens(options.data, config.vocabulary);
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
    RETURN_IF_ERROR(OfData(
        options, run.tokenizer.is_bytes()
                     ? SetBytes(std::move(corpus), length, stop, &opened.data)
                     : SetBytePairs(std::move(corpus), run.tokenizer, length, stop, &opened)));
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
