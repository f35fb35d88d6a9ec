#include "models/gpt/tokenizer.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/data/file.h"
#include "framework/train/run_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBytes = 256;
// As OpenAI published them; Hugging Face has the same under other names.
constexpr char kEncoder[] = "encoder.json", kMerges[] = "vocab.bpe";
constexpr char kHuggingFaceEncoder[] = "vocab.json", kHuggingFaceMerges[] = "merges.txt";

// The folder of the run that a checkpoint stands in.
std::string RunOf(const std::string& checkpoint) {
  return fs::path(checkpoint).lexically_normal().parent_path().parent_path().string();
}

bool HasFile(const std::string& folder, const char* name) {
  std::error_code error;
  return fs::exists(absl::StrCat(folder, "/", name), error);
}

absl::StatusOr<RunTokenizer> ReadBytePairs(const std::string& folder, int64_t vocabulary) {
  const bool theirs = HasFile(folder, kHuggingFaceEncoder);
  const std::string encoder_path =
      absl::StrCat(folder, "/", theirs ? kHuggingFaceEncoder : kEncoder);
  const std::string merges_path = absl::StrCat(folder, "/", theirs ? kHuggingFaceMerges : kMerges);
  RunTokenizer found;
  found.where = folder;
  ASSIGN_OR_RETURN(found.files[kEncoder], ReadFile(encoder_path));
  ASSIGN_OR_RETURN(found.files[kMerges], ReadFile(merges_path));
  ASSIGN_OR_RETURN(BytePair pairs, BytePair::Parse(encoder_path, found.files[kEncoder], merges_path,
                                                   found.files[kMerges]));
  if (pairs.size() > vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("--vocabulary: expected at least the ",
                                                   pairs.size(), " tokens of ", encoder_path,
                                                   ", got ", vocabulary));
  }
  found.digest = pairs.digest();
  found.tokenizer = Tokenizer(std::move(pairs));
  return found;
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
  const auto has_pairs = [](const std::string& run) { return HasFile(run, kEncoder); };
  if (!options.resume.checkpoint.empty()) {
    const std::string run = RunOf(options.resume.checkpoint);
    if (has_pairs(run)) return ReadBytePairs(run, vocabulary);
  }
  if (!folder.empty()) return ReadBytePairs(folder, vocabulary);
  if (!options.init.empty()) {
    const std::string run = RunOf(options.init);
    if (has_pairs(run)) return ReadBytePairs(run, vocabulary);
  }
  RunTokenizer found;
  if (vocabulary != kBytes) found.tokenizer = Tokenizer::OfNumbers(vocabulary);
  return found;
}

absl::StatusOr<bool> KeepTokenizer(const std::string& folder, const std::string& checkpoint,
                                   int64_t vocabulary) {
  if (!HasFile(folder, kEncoder) && !HasFile(folder, kHuggingFaceEncoder)) return false;
  ASSIGN_OR_RETURN(const RunTokenizer found, ReadBytePairs(folder, vocabulary));
  for (const auto& [name, text] : found.files) {
    RETURN_IF_ERROR(WriteRunFile(absl::StrCat(RunOf(checkpoint), "/", name), text));
  }
  return true;
}

}  // namespace sluice
