// Tokens in files, as nanoGPT, llm.c and Megatron-LM keep them. Pure but for reading and writing.
#ifndef SLUICE_FRAMEWORK_DATA_TOKEN_FILE_H_
#define SLUICE_FRAMEWORK_DATA_TOKEN_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

// What a file of llm.c's tokens begins with: of tokens of 16 bits, as GPT-2 has them, and of 32
// bits, as Llama 3 has them.
constexpr int32_t kLlmCTokens16 = 20240520, kLlmCTokens32 = 20240801;

enum class TokenFormat : uint8_t {
  kNanoGpt,   // .bin: u16 after u16
  kLlmC,      // .bin: 256 i32, of which the first three say 20240520, 1, count; then count u16
  kMegatron,  // .bin: the tokens of all sequences; .idx beside it: their type, lengths, documents
};

struct TokenFile {
  TokenFormat format = TokenFormat::kNanoGpt;
  std::vector<int32_t> tokens;
  // Of Megatron's alone; else all tokens are one sequence and one document.
  std::vector<int64_t> sequences;  // where each begins in tokens, and where the last ends
  std::vector<int64_t> documents;  // at which sequence each begins, and with which the last ends
  std::vector<int8_t> modes;       // of each sequence, or empty
};

// By what they hold: `bin` alone is llm.c's if it begins as such, else nanoGPT's. DataLoss: which
// of the two, with what names they are given, at which byte, what was expected, and got.
absl::StatusOr<TokenFile> ParseTokens(absl::string_view bin_name, absl::string_view bin);
absl::StatusOr<TokenFile> ParseMegatron(absl::string_view bin_name, absl::string_view bin,
                                        absl::string_view idx_name, absl::string_view idx);
// `path` is that of the .bin; it is Megatron's if there is an .idx beside it.
absl::StatusOr<TokenFile> ReadTokenFile(const std::string& path);

// The bytes of the files; `idx` is empty but for Megatron's, whose tokens take 2 bytes where the
// vocabulary has fewer than 65,500 tokens, else 4, as its own writer has it. InvalidArgument: a
// token that is none, or does not fit.
struct TokenFileBytes {
  std::string bin, idx;
};
absl::StatusOr<TokenFileBytes> BytesOfTokens(const TokenFile& file, int64_t vocabulary);
// `path` is that of the .bin.
absl::Status WriteTokenFile(const std::string& path, const TokenFile& file, int64_t vocabulary);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TOKEN_FILE_H_
