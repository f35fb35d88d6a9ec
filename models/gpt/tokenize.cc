#include "models/gpt/tokenize.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/base/status.h"
#include "framework/data/text_corpus.h"
#include "framework/train/run_folder.h"

namespace sluice {
namespace {

// One sequence, one document. Returns how many tokens.
absl::StatusOr<int64_t> WriteAll(absl::string_view text, const Tokenizer& tokenizer,
                                 TokenFormat format, const std::string& path, double* seconds) {
  const absl::Time begin = absl::Now();
  TokenFile file;
  file.format = format;
  ASSIGN_OR_RETURN(file.tokens, tokenizer.Encode(text));
  *seconds += absl::ToDoubleSeconds(absl::Now() - begin);
  const auto count = static_cast<int64_t>(file.tokens.size());
  if (format == TokenFormat::kMegatron) {
    file.sequences = {0, count};
    file.documents = {0, 1};
  }
  RETURN_IF_ERROR(WriteTokenFile(path, file, tokenizer.size()));
  return count;
}

}  // namespace

absl::StatusOr<TokenFormat> ParseTokenFormat(absl::string_view name) {
  if (name == "nanogpt") return TokenFormat::kNanoGpt;
  if (name == "llm.c") return TokenFormat::kLlmC;
  if (name == "megatron") return TokenFormat::kMegatron;
  return absl::InvalidArgumentError(
      absl::StrCat("--format: expected nanogpt, llm.c or megatron, got \"", name, "\""));
}

absl::StatusOr<TokenizedText> WriteTokensOf(const std::string& data, const Tokenizer& tokenizer,
                                            TokenFormat format, const std::string& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) return absl::UnavailableError(absl::StrCat("out: ", out, ": ", error.message()));
  ASSIGN_OR_RETURN(TextCorpus corpus, ReadTextCorpus(data, {.skip = RunFolders(out)}));
  TokenizedText made;
  made.bytes = static_cast<int64_t>(corpus.training.size() + corpus.held_out.size());
  ASSIGN_OR_RETURN(made.training, WriteAll(corpus.training, tokenizer, format,
                                           absl::StrCat(out, "/train.bin"), &made.seconds));
  ASSIGN_OR_RETURN(made.held_out, WriteAll(corpus.held_out, tokenizer, format,
                                           absl::StrCat(out, "/val.bin"), &made.seconds));
  return made;
}

}  // namespace sluice
