#include "framework/data/token_sequence.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/data/file.h"
#include "framework/data/list_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// What is read at once of many tokens, and of a few, whose bytes stand on the stack.
constexpr int64_t kPiece = 1 << 16, kFewBytes = 1 << 13, kMostTokenBytes = 8;

bool IsTokenName(absl::string_view path) {
  return absl::EndsWith(path, ".bin") || absl::EndsWith(path, ".npy");
}

// The last word of a name that is no number: "train" of fineweb_train_000001.bin and of
// train-00000-of-00004.npy.
std::string PartOfName(const fs::path& path) {
  const std::string stem = absl::AsciiStrToLower(path.stem().string());
  const std::vector<absl::string_view> words = absl::StrSplit(stem, absl::ByAnyChar("_-. "));
  for (size_t i = words.size(); i > 0; --i) {
    const absl::string_view word = words[i - 1];
    const bool number = std::ranges::all_of(word, absl::ascii_isdigit);
    if (!number && word != "of") return std::string(word);
  }
  return {};
}

bool IsHeldOut(absl::string_view part) {
  return absl::EndsWith(part, "val") || part == "valid" || part == "validation";
}

}  // namespace

absl::StatusOr<TokenPaths> FindTokenFiles(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const bool tokens = IsTokenName(path) && fs::is_regular_file(path, error);
    return tokens ? TokenPaths{{path}, {}} : TokenPaths();
  }
  ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> entries, ListFolder(path));
  TokenPaths paths;
  std::string first;
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().string(), part = PartOfName(entry.path());
    const bool training = absl::EndsWith(part, "train");
    if (!IsTokenName(name) || !entry.is_regular_file(error) || (!training && !IsHeldOut(part))) {
      continue;
    }
    if (first.empty()) first = name;
    if (entry.path().extension() != fs::path(first).extension()) {
      return absl::InvalidArgumentError(
          absl::StrCat("data: ", name, ": expected tokens in files of one kind, as ", first,
                       " is one, got both .bin and .npy in the folder"));
    }
    (training ? paths.training : paths.held_out).push_back(name);
  }
  if (!paths.training.empty() || paths.held_out.empty()) return paths;
  return absl::InvalidArgumentError(
      absl::StrCat("data: ", path, ": expected tokens to learn from, NAME_train.bin or ",
                   "NAME_train_000001.bin, next to ", paths.held_out[0], ", got none"));
}

struct TokenSequence::Files {
  struct Shard {
    OpenTokenFile opened;
    int64_t begin = 0;  // its first token's place in all of them

    int64_t end() const { return begin + opened.layout.count; }
  };

  // The shard that has a token.
  const Shard& At(int64_t token) const {
    return *(std::ranges::upper_bound(shards, token, {}, &Shard::begin) - 1);
  }
  // Copies tokens of one shard. `bytes` has room for what they are in their file.
  absl::Status Read(const Shard& shard, int64_t first, int64_t count, char* bytes,
                    int32_t* to) const;

  TokenVocabulary vocabulary;
  std::vector<Shard> shards;  // none is empty
};

absl::Status TokenSequence::Files::Read(const Shard& shard, int64_t first, int64_t count,
                                        char* bytes, int32_t* to) const {
  const auto& [file, layout] = shard.opened;
  const int64_t size = BytesOf(layout.type), place = first - shard.begin;
  RETURN_IF_ERROR(file.ReadAt(layout.begin + place * size, count * size, bytes));
  constexpr int64_t kMost = int64_t{1} << 31;
  const int64_t limit = vocabulary.size == 0 ? kMost : vocabulary.size;
  const int64_t bad = CopyTokens(layout.type, bytes, count, limit, to);
  if (bad < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data: ", file.path(), ", token ", place + bad, ": expected 0 to ", limit - 1, ", as of ",
      vocabulary.name, ", got ", TokenAt(layout.type, bytes + bad * size), vocabulary.advice));
}

TokenSequence::TokenSequence(std::shared_ptr<const Files> files) : files_(std::move(files)) {
  if (!files_->shards.empty()) end_ = files_->shards.back().end();
}

absl::StatusOr<TokenSequence> TokenSequence::Open(absl::Span<const std::string> paths,
                                                  const TokenVocabulary& vocabulary) {
  auto files = std::make_shared<Files>();
  files->vocabulary = vocabulary;
  AllowOpenFiles(static_cast<int64_t>(paths.size()));
  int64_t begin = 0;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(OpenTokenFile opened, OpenTokens(path, vocabulary.size));
    if (opened.layout.count == 0) continue;
    files->shards.push_back({std::move(opened), begin});
    begin = files->shards.back().end();
  }
  return TokenSequence(std::move(files));
}

int64_t TokenSequence::bits() const {
  return files_->shards.empty() ? 0 : 8 * BytesOf(files_->shards[0].opened.layout.type);
}

TokenSequence TokenSequence::Part(int64_t begin, int64_t end) const {
  TokenSequence part = *this;
  part.begin_ = begin_ + begin;
  part.end_ = begin_ + end;
  part.identity_ = {};
  return part;
}

absl::Status TokenSequence::Read(int64_t begin, int64_t count, int32_t* to) const {
  char bytes[kFewBytes];
  const int64_t end = begin_ + begin + count;
  for (int64_t at = begin_ + begin; at < end;) {
    const Files::Shard& shard = files_->At(at);
    const int64_t most = kFewBytes / BytesOf(shard.opened.layout.type);
    const int64_t some = std::min({most, end - at, shard.end() - at});
    RETURN_IF_ERROR(files_->Read(shard, at, some, bytes, to));
    at += some, to += some;
  }
  return absl::OkStatus();
}

absl::Status TokenSequence::ForEachPiece(
    absl::FunctionRef<absl::Status(absl::Span<const int32_t>)> fn) const {
  return ForEachPieceOf(size(), fn);
}

absl::Status TokenSequence::ForEachPieceOf(
    int64_t most, absl::FunctionRef<absl::Status(absl::Span<const int32_t>)> fn) const {
  std::vector<int32_t> tokens(std::min(kPiece, size()));
  std::string bytes(tokens.size() * kMostTokenBytes, '\0');
  const int64_t all = (size() + kPiece - 1) / kPiece;
  const int64_t pieces = std::min(all, std::max<int64_t>((most + kPiece - 1) / kPiece, 1));
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t first = begin_ + i * all / pieces * kPiece;
    const int64_t end = std::min(first + kPiece, end_);
    for (int64_t at = first; at < end;) {
      const Files::Shard& shard = files_->At(at);
      const int64_t some = std::min(end, shard.end()) - at;
      RETURN_IF_ERROR(files_->Read(shard, at, some, bytes.data(), tokens.data() + (at - first)));
      at += some;
    }
    RETURN_IF_ERROR(fn(absl::MakeConstSpan(tokens).subspan(0, end - first)));
  }
  return absl::OkStatus();
}

absl::Status TokenSequence::Identify(const Stop& stop) {
  StableByteHasher digest;
  // The digest of all tokens is that of a vector of them, as checkpoints of older runs have it.
  const int64_t count = size();
  if (is_sampled()) digest.Add(&count, sizeof(count));
  int64_t read = 0;
  RETURN_IF_ERROR(ForEachPieceOf(is_sampled() ? kSampled : count,
                                 [&](absl::Span<const int32_t> tokens) -> absl::Status {
                                   digest.Add(tokens.data(), tokens.size() * sizeof(int32_t));
                                   read += static_cast<int64_t>(tokens.size());
                                   return CheckStop(stop);
                                 }));
  constexpr auto kTokenBytes = static_cast<int64_t>(sizeof(int32_t));
  identity_ = {count * kTokenBytes, digest.digest(), is_sampled() ? read * kTokenBytes : 0};
  return absl::OkStatus();
}

}  // namespace sluice
