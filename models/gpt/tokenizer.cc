#include "models/gpt/tokenizer.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/train/hub_byte_pairs.h"
#include "framework/train/token_rows.h"

namespace sluice {
namespace {

constexpr int64_t kBytes = 256;

absl::Status CheckSize(const HubBytePairs& read, int64_t vocabulary) {
  if (read.pairs.size() <= vocabulary) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--vocabulary: expected at least the ",
                                                 read.pairs.size(), " tokens of ", read.where,
                                                 ", got ", vocabulary));
}

absl::StatusOr<RunTokenizer> ReadTokenizer(const std::string& folder, int64_t vocabulary) {
  ASSIGN_OR_RETURN(HubBytePairs read, ReadBytePairs(folder));
  RETURN_IF_ERROR(CheckSize(read, vocabulary));
  RunTokenizer found;
  found.where = folder;
  found.digest = read.pairs.digest();
  found.files = std::move(read.files);
  found.tokenizer = Tokenizer(std::move(read.pairs));
  return found;
}

// Rows of a table that --init brings must not stand for other byte pairs than those of its run.
absl::Status CheckSamePairs(const std::string& init, const RunTokenizer& named,
                            int64_t vocabulary) {
  const std::string run = RunFolderOf(init);
  if (!HasBytePairs(run)) return absl::OkStatus();  // nobody knows which they are
  ASSIGN_OR_RETURN(const HubBytePairs own, ReadBytePairs(run));
  return CheckSameTokens("--tokenizer", "byte pairs", {named.digest, named.where}, init,
                         {own.pairs.digest(), run}, vocabulary);
}

}  // namespace

Tokenizer Tokenizer::OfNumbers(int64_t size) {
  Tokenizer tokenizer;
  tokenizer.numbers_ = true;
  tokenizer.size_ = size;
  return tokenizer;
}

std::string Tokenizer::name() const {
  if (pairs_) return absl::StrCat(size(), " byte pairs");
  return numbers_ ? absl::StrCat(size(), " tokens without a text") : "bytes";
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text) const {
  std::vector<int32_t> tokens;
  if (pairs_) {
    pairs_->Encode(text, &tokens);
    return tokens;
  }
  if (!numbers_) {
    tokens.reserve(text.size());
    for (const char byte : text) tokens.push_back(static_cast<uint8_t>(byte));
    return tokens;
  }
  for (const absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" \n\t"), absl::SkipEmpty())) {
    int32_t token = 0;
    if (!absl::SimpleAtoi(word, &token) || token < 0 || token >= size_) {
      return absl::InvalidArgumentError(absl::StrCat("expected numbers of tokens, 0 to ", size_ - 1,
                                                     ", got \"", PrintableLine(word), "\""));
    }
    tokens.push_back(token);
  }
  return tokens;
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const int32_t> tokens) const {
  if (pairs_) return pairs_->Decode(tokens);
  if (numbers_) return absl::StrJoin(tokens, " ");
  std::string text;
  text.reserve(tokens.size());
  for (const int32_t token : tokens) text += static_cast<char>(token);
  return text;
}

int64_t Tokenizer::CountBytes(absl::Span<const int32_t> tokens) const {
  if (!pairs_) return static_cast<int64_t>(tokens.size());
  int64_t bytes = 0;
  for (const int32_t token : tokens) bytes += static_cast<int64_t>(pairs_->bytes(token).size());
  return bytes;
}

absl::StatusOr<RunTokenizer> FindTokenizer(const AppOptions& options, const std::string& folder,
                                           int64_t vocabulary) {
  if (!options.resume.checkpoint.empty()) {
    const std::string run = RunFolderOf(options.resume.checkpoint);
    if (HasBytePairs(run)) return ReadTokenizer(run, vocabulary);
  }
  if (!folder.empty()) {
    ASSIGN_OR_RETURN(RunTokenizer named, ReadTokenizer(folder, vocabulary));
    if (!options.init.empty()) {
      RETURN_IF_ERROR(CheckSamePairs(options.init, named, vocabulary));
    }
    return named;
  }
  if (!options.init.empty()) {
    const std::string run = RunFolderOf(options.init);
    if (HasBytePairs(run)) return ReadTokenizer(run, vocabulary);
  }
  RunTokenizer found;
  if (vocabulary != kBytes) found.tokenizer = Tokenizer::OfNumbers(vocabulary);
  return found;
}

absl::StatusOr<RunFiles> TokenizerFiles(const std::string& folder, int64_t vocabulary) {
  RunFiles files = {{kEncoderFile, std::nullopt}, {kMergesFile, std::nullopt}};
  if (!HasBytePairs(folder)) return files;
  ASSIGN_OR_RETURN(HubBytePairs read, ReadBytePairs(folder));
  RETURN_IF_ERROR(CheckSize(read, vocabulary));
  for (auto& [name, text] : read.files) files[name] = std::move(text);
  return files;
}

}  // namespace sluice
