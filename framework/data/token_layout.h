// Where the tokens are in a file, and of which type: .bin of nanoGPT, llm.c and Megatron-LM, and
// .npy of NumPy. Pure, but for reading.
#ifndef SLUICE_FRAMEWORK_DATA_TOKEN_LAYOUT_H_
#define SLUICE_FRAMEWORK_DATA_TOKEN_LAYOUT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/file.h"

namespace sluice {

enum class TokenFormat : uint8_t {
  kNanoGpt,   // .bin without a header: u16 after u16, or u32 after u32
  kLlmC,      // .bin: 256 i32, of which the first three are magic, version, count; then the tokens
  kMegatron,  // .bin: the tokens of all sequences; .idx next to it: their type, lengths, documents
  kNpy,       // .npy: an array of integers in one dimension
};

// What a file of llm.c's begins with: 20240520 and version 1 before tokens of 16 bits, as GPT-2's
// are, 20240801 and version 7 before tokens of 32 bits, as Llama 3's are.
constexpr int32_t kLlmCTokens16 = 20240520, kLlmCTokens32 = 20240801;
constexpr int32_t kLlmCVersion16 = 1, kLlmCVersion32 = 7;
constexpr int64_t kLlmCHeader = 256 * 4;

// Integers of files, little-endian.
enum class TokenType : uint8_t { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64 };
int64_t BytesOf(TokenType type);

struct TokenLayout {
  TokenFormat format = TokenFormat::kNanoGpt;
  TokenType type = TokenType::kU16;
  int64_t begin = 0, count = 0;          // the byte of the first token, and how many there are
  int64_t sequences = 1, documents = 1;  // of Megatron's; else all tokens are one
};

// A vocabulary of more tokens than 16 bits tell apart.
constexpr int64_t kMost16BitVocabulary = 1 << 16;

// Finds the tokens of a file, whose name begins errors, by its bytes. A file without a header is
// read by its `vocabulary`, how many tokens there may be: with 16 bits a token or, if that is more
// than 65,536, with 32. Where it is 0, as nobody knows it, the bytes decide.
// DataLoss: a header that is damaged, and at which byte. InvalidArgument: a file that holds no
// tokens, or tokens of 16 bits where the vocabulary needs 32, or the other way round.
absl::StatusOr<TokenLayout> FindTokens(absl::string_view name, const RandomAccessFile& file,
                                       int64_t vocabulary);

// InvalidArgument where the vocabulary needs more bits than a token of this type has.
absl::Status CheckTokenType(absl::string_view name, TokenType type, int64_t vocabulary);

// The file of the path, and where its tokens are. It is Megatron's if there is an .idx next to it.
struct OpenTokenFile {
  RandomAccessFile file;
  TokenLayout layout;
};
absl::StatusOr<OpenTokenFile> OpenTokens(const std::string& path, int64_t vocabulary);

// Copies `count` tokens of a type. Returns the place of the first one that is not below `limit`,
// which is at most 2^31, or -1 where there is none.
int64_t CopyTokens(TokenType type, const char* from, int64_t count, int64_t limit, int32_t* to);
// The token at `from`, whatever it is.
int64_t TokenAt(TokenType type, const char* from);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TOKEN_LAYOUT_H_
