// Files of tokens (token_layout.h) as a whole, in memory: to convert and to write them. A data set
// reads them as a TokenSequence. Pure but for reading and writing.
#ifndef SLUICE_FRAMEWORK_DATA_TOKEN_FILE_H_
#define SLUICE_FRAMEWORK_DATA_TOKEN_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/token_layout.h"

namespace sluice {

struct TokenFile {
  TokenFormat format = TokenFormat::kNanoGpt;
  std::vector<int32_t> tokens;
  // Of Megatron's alone; else all tokens are one sequence and one document.
  std::vector<int64_t> sequences;  // where each begins in tokens, and where the last ends
  std::vector<int64_t> documents;  // at which sequence each begins, and with which the last ends
  std::vector<int8_t> modes;       // of each sequence, or empty
};

// By what they hold, and by how many tokens there may be (FindTokens). DataLoss: which of the two
// files, with what names they are given, at which byte, what was expected, and got.
absl::StatusOr<TokenFile> ParseTokens(absl::string_view bin_name, absl::string_view bin,
                                      int64_t vocabulary = 0);
absl::StatusOr<TokenFile> ParseMegatron(absl::string_view bin_name, absl::string_view bin,
                                        absl::string_view idx_name, absl::string_view idx);
// `path` is that of the .bin or .npy; it is Megatron's if there is an .idx beside it.
absl::StatusOr<TokenFile> ReadTokenFile(const std::string& path, int64_t vocabulary = 0);

// The bytes of the files; `idx` is empty but for Megatron's. Tokens take 2 bytes where these hold
// all of the vocabulary, else 4: of Megatron's from 65,500 tokens on, as its own writer has it.
// InvalidArgument: a token that is none, or does not fit.
struct TokenFileBytes {
  std::string bin, idx;
};
absl::StatusOr<TokenFileBytes> BytesOfTokens(const TokenFile& file, int64_t vocabulary);
// `path` is that of the .bin.
absl::Status WriteTokenFile(const std::string& path, const TokenFile& file, int64_t vocabulary);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TOKEN_FILE_H_
