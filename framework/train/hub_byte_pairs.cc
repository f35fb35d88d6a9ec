#include "framework/train/hub_byte_pairs.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/train/hub_tokenizer.h"
#include "framework/train/paths.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kHubEncoderFile[] = "vocab.json", kHubMergesFile[] = "merges.txt";

// The two files of byte pairs in a folder; empty: it has none.
std::pair<std::string, std::string> FindPairOfFiles(const std::string& folder) {
  for (const auto& [encoder, merges] :
       {std::pair{kHubEncoderFile, kHubMergesFile}, std::pair{kEncoderFile, kMergesFile}}) {
    if (PathExists(PathIn(folder, encoder)))
      return {PathIn(folder, encoder), PathIn(folder, merges)};
  }
  return {};
}

absl::StatusOr<HubBytePairs> ReadPairOfFiles(const std::string& encoder_path,
                                             const std::string& merges_path) {
  ASSIGN_OR_RETURN(std::string encoder, ReadText(encoder_path, kTokenizerLimit));
  ASSIGN_OR_RETURN(std::string merges, ReadText(merges_path, kTokenizerLimit));
  ASSIGN_OR_RETURN(BytePair pairs, BytePair::Parse(encoder_path, encoder, merges_path, merges));
  return HubBytePairs{std::move(pairs),
                      encoder_path,
                      {{kEncoderFile, std::move(encoder)}, {kMergesFile, std::move(merges)}}};
}

// The end of a text is a token of GPT-2's vocabulary, and in other tokenizer.json an added one.
std::string WithEndOfText(const BytePairJson& json) {
  Json vocabulary = Json::parse(json.encoder);
  for (const AddedToken& token : json.added) {
    const bool next = token.id == static_cast<int64_t>(vocabulary.size());
    if (token.content == "<|endoftext|>" && next) vocabulary[token.content] = token.id;
  }
  return vocabulary.dump();
}

absl::StatusOr<HubBytePairs> ReadJson(const std::string& path, const TokenizerConfig& config) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, kTokenizerLimit));
  ASSIGN_OR_RETURN(const BytePairJson json, ParseBytePairJson(text, path));
  RETURN_IF_ERROR(CheckAddedTokens(path, json.added, config));
  std::string encoder = WithEndOfText(json);
  ASSIGN_OR_RETURN(BytePair pairs,
                   BytePair::Parse(absl::StrCat(path, ": model: vocab"), encoder,
                                   absl::StrCat(path, ": model: merges"), json.merges));
  return HubBytePairs{std::move(pairs),
                      path,
                      {{kEncoderFile, std::move(encoder)},
                       {kMergesFile, absl::StrCat("#version: 0.2\n", json.merges)}}};
}

}  // namespace

bool HasBytePairs(const std::string& folder) {
  return !FindPairOfFiles(folder).first.empty() || PathExists(PathIn(folder, kTokenizerFile));
}

absl::StatusOr<HubBytePairs> ReadBytePairs(const std::string& path) {
  if (!PathExists(path)) {
    return absl::NotFoundError(
        absl::StrCat(path, ": expected a folder of byte pairs, which does not exist"));
  }
  const std::string folder = TokenizerFolder(path);
  ASSIGN_OR_RETURN(const TokenizerConfig config, ReadTokenizerConfig(folder));
  if (config.add_prefix_space) {
    return absl::InvalidArgumentError(
        absl::StrCat(PathIn(folder, kTokenizerConfigFile),
                     ": add_prefix_space: expected false, as GPT-2 has it, got true"));
  }
  RETURN_IF_ERROR(CheckAddedTokens(folder, config.added, config));
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return ReadJson(path, config);
  const auto [encoder, merges] = FindPairOfFiles(path);
  const std::string json = PathIn(path, kTokenizerFile);
  if (encoder.empty() && PathExists(json)) return ReadJson(json, config);
  if (encoder.empty()) {
    return absl::NotFoundError(absl::StrCat(
        path, ": expected byte pairs, ", kHubEncoderFile, " and ", kHubMergesFile, ", ",
        kEncoderFile, " and ", kMergesFile, ", or ", kTokenizerFile, ", got none of them"));
  }
  ASSIGN_OR_RETURN(HubBytePairs pairs, ReadPairOfFiles(encoder, merges));
  if (!PathExists(json)) return pairs;
  ASSIGN_OR_RETURN(const HubBytePairs other, ReadJson(json, config));
  if (other.pairs.digest() == pairs.pairs.digest()) return pairs;
  return absl::InvalidArgumentError(
      absl::StrCat(json, ": expected the byte pairs of ", encoder,
                   ", got others; one of the two is another model's"));
}

std::map<std::string, std::string> BytePairHubFiles(const HubBytePairs& pairs) {
  const Json config = {{"tokenizer_class", "GPT2Tokenizer"}, {"add_prefix_space", false}};
  return {{kHubEncoderFile, pairs.files.at(kEncoderFile)},
          {kHubMergesFile, pairs.files.at(kMergesFile)},
          {kTokenizerConfigFile, config.dump(2) + "\n"}};
}

}  // namespace sluice
