// A tokenizer in a folder of Hugging Face's hub: what word pieces (hub_word_pieces.h) and byte
// pairs (hub_byte_pairs.h) have in common. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_HUB_TOKENIZER_H_
#define SLUICE_FRAMEWORK_TRAIN_HUB_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/train/tokenizer_json.h"

namespace sluice {

constexpr char kTokenizerFile[] = "tokenizer.json";
constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";
constexpr int64_t kTokenizerLimit = 256 << 20;  // bytes of any file

// The folder of a tokenizer that is named by a folder or by one of its files.
std::string TokenizerFolder(const std::string& path);

// Reads tokenizer_config.json, and what special_tokens_map.json and added_tokens.json say besides.
// Fields that no file has keep their defaults.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::string& folder);

// InvalidArgument, which begins with `where`, if a token that is not special was added to a
// vocabulary: it would have to be looked for in texts.
absl::Status CheckAddedTokens(const std::string& where, const std::vector<AddedToken>& added,
                              const TokenizerConfig& config);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_HUB_TOKENIZER_H_
