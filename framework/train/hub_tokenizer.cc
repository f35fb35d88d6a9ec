#include "framework/train/hub_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/checkpoint/file.h"
#include "framework/train/paths.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kSpecialFile[] = "special_tokens_map.json", kAddedFile[] = "added_tokens.json";

bool IsSpecial(const AddedToken& token, const TokenizerConfig& config) {
  const auto is_this = [&token](const auto& named) { return named.second == token.content; };
  return token.special || std::any_of(config.special.begin(), config.special.end(), is_this) ||
         std::find(config.more_special.begin(), config.more_special.end(), token.content) !=
             config.more_special.end();
}

// The text of a file of the folder; null where there is none.
absl::StatusOr<std::optional<std::string>> TextOf(const std::string& path) {
  if (!PathExists(path)) return std::nullopt;
  return ReadText(path, kTokenizerLimit);
}

}  // namespace

std::string TokenizerFolder(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return path;
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::string& folder) {
  const auto in = [&folder](const char* name) { return absl::StrCat(folder, "/", name); };
  TokenizerConfig config;
  ASSIGN_OR_RETURN(std::optional<std::string> text, TextOf(in(kTokenizerConfigFile)));
  if (text) {
    ASSIGN_OR_RETURN(config, ParseTokenizerConfig(*text, in(kTokenizerConfigFile)));
  }
  ASSIGN_OR_RETURN(text, TextOf(in(kSpecialFile)));
  if (text) {
    ASSIGN_OR_RETURN(const TokenizerConfig more, ParseTokenizerConfig(*text, in(kSpecialFile)));
    config.special.insert(more.special.begin(), more.special.end());
    config.more_special.insert(config.more_special.end(), more.more_special.begin(),
                               more.more_special.end());
  }
  ASSIGN_OR_RETURN(text, TextOf(in(kAddedFile)));
  if (text && config.added.empty()) {
    ASSIGN_OR_RETURN(config.added, ParseAddedTokens(*text, in(kAddedFile)));
  }
  return config;
}

absl::Status CheckAddedTokens(const std::string& where, const std::vector<AddedToken>& added,
                              const TokenizerConfig& config) {
  for (const AddedToken& token : added) {
    if (IsSpecial(token, config)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected special tokens alone to be added to the vocabulary, got ",
                     Quoted(PrintableLine(token.content)), " of id ", token.id,
                     ", which would be looked for in texts before words are cut"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
