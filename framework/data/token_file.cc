#include "framework/data/token_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/file.h"
#include "framework/data/little_endian.h"
#include "framework/data/megatron_index.h"
#include "framework/data/npy.h"

namespace sluice {
namespace {

constexpr int64_t kMegatronTwoByteVocabulary = 65500;
constexpr int64_t kMostToken = std::numeric_limits<int32_t>::max();

// All tokens of a file, a piece at a time, so that they are copied but once.
absl::Status TakeTokens(absl::string_view name, const RandomAccessFile& file,
                        const TokenLayout& layout, std::vector<int32_t>* tokens) {
  constexpr int64_t kAtOnce = 1 << 16;
  const int64_t bytes = BytesOf(layout.type);
  std::string piece(kAtOnce * bytes, '\0');
  tokens->resize(layout.count);
  for (int64_t first = 0; first < layout.count; first += kAtOnce) {
    const int64_t count = std::min(kAtOnce, layout.count - first);
    const int64_t at = layout.begin + first * bytes;
    RETURN_IF_ERROR(file.ReadAt(at, count * bytes, piece.data()));
    const int64_t bad =
        CopyTokens(layout.type, piece.data(), count, kMostToken + 1, tokens->data() + first);
    if (bad < 0) continue;
    return absl::DataLossError(absl::StrCat(name, ", byte ", at + bad * bytes,
                                            ": expected a token from 0 to ", kMostToken, ", got ",
                                            TokenAt(layout.type, piece.data() + bad * bytes)));
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenFile> ReadOne(absl::string_view name, const RandomAccessFile& file,
                                  int64_t vocabulary) {
  ASSIGN_OR_RETURN(const TokenLayout layout, FindTokens(name, file, vocabulary));
  TokenFile result;
  result.format = layout.format;
  RETURN_IF_ERROR(TakeTokens(name, file, layout, &result.tokens));
  result.sequences = {0, layout.count};
  result.documents = {0, 1};
  return result;
}

absl::StatusOr<TokenFile> ReadMegatron(absl::string_view bin_name, const RandomAccessFile& bin,
                                       absl::string_view idx_name, const RandomAccessFile& idx) {
  MegatronParts parts;
  ASSIGN_OR_RETURN(const TokenLayout layout,
                   FindMegatronTokens(bin_name, bin, idx_name, idx, &parts));
  TokenFile result;
  result.format = layout.format;
  RETURN_IF_ERROR(TakeTokens(bin_name, bin, layout, &result.tokens));
  result.sequences = std::move(parts.sequences);
  result.documents = std::move(parts.documents);
  result.modes = std::move(parts.modes);
  return result;
}

RandomAccessFile OfBytes(absl::string_view name, absl::string_view bytes) {
  return RandomAccessFile::OfBytes(std::string(name), std::string(bytes));
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("data: cannot write ", path, ": ", strerror(errno)));
}

// What stands before the tokens of llm.c's.
absl::StatusOr<std::string> LlmCHeader(int64_t count, bool wide) {
  if (count > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: expected at most 2^31 - 1 tokens for llm.c, got ", count));
  }
  std::string header;
  Put(wide ? kLlmCTokens32 : kLlmCTokens16, &header);
  Put(wide ? kLlmCVersion32 : kLlmCVersion16, &header);
  Put(static_cast<int32_t>(count), &header);
  header.resize(kLlmCHeader);
  return header;
}

}  // namespace

absl::StatusOr<TokenFile> ParseTokens(absl::string_view bin_name, absl::string_view bin,
                                      int64_t vocabulary) {
  return ReadOne(bin_name, OfBytes(bin_name, bin), vocabulary);
}

absl::StatusOr<TokenFile> ParseMegatron(absl::string_view bin_name, absl::string_view bin,
                                        absl::string_view idx_name, absl::string_view idx) {
  return ReadMegatron(bin_name, OfBytes(bin_name, bin), idx_name, OfBytes(idx_name, idx));
}

absl::StatusOr<TokenFile> ReadTokenFile(const std::string& path, int64_t vocabulary) {
  const std::string name = absl::StrCat("data: ", path), idx_path = MegatronIndexPath(path);
  ASSIGN_OR_RETURN(const RandomAccessFile bin, RandomAccessFile::Open(path));
  std::error_code error;
  if (!std::filesystem::exists(idx_path, error)) return ReadOne(name, bin, vocabulary);
  ASSIGN_OR_RETURN(const RandomAccessFile idx, RandomAccessFile::Open(idx_path));
  return ReadMegatron(name, bin, absl::StrCat("data: ", idx_path), idx);
}

absl::StatusOr<TokenFileBytes> BytesOfTokens(const TokenFile& file, int64_t vocabulary) {
  const bool megatron = file.format == TokenFormat::kMegatron;
  const bool wide =
      vocabulary > kMost16BitVocabulary || (megatron && vocabulary >= kMegatronTwoByteVocabulary);
  const int64_t most = wide ? kMostToken : std::numeric_limits<uint16_t>::max();
  TokenFileBytes result;
  const auto count = static_cast<int64_t>(file.tokens.size());
  if (file.format == TokenFormat::kLlmC) {
    ASSIGN_OR_RETURN(result.bin, LlmCHeader(count, wide));
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t token = file.tokens[i];
    if (token < 0 || token > most) {
      return absl::InvalidArgumentError(absl::StrCat("data: expected tokens from 0 to ", most,
                                                     ", which the file has room for, got ", token,
                                                     " at place ", i));
    }
    if (wide) {
      Put(token, &result.bin);
    } else {
      Put(static_cast<uint16_t>(token), &result.bin);
    }
  }
  if (file.format == TokenFormat::kNpy) {
    result.bin = NpyBytes({'u', wide ? 4 : 2, {count}, std::move(result.bin)});
  }
  if (!megatron) return result;
  if (file.sequences.empty() || file.sequences.back() != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: expected sequences of tokens that are ", count, " in all, got others"));
  }
  ASSIGN_OR_RETURN(result.idx, MegatronIndexBytes({file.sequences, file.documents, file.modes},
                                                  wide ? TokenType::kI32 : TokenType::kU16));
  return result;
}

absl::Status WriteTokenFile(const std::string& path, const TokenFile& file, int64_t vocabulary) {
  ASSIGN_OR_RETURN(const TokenFileBytes bytes, BytesOfTokens(file, vocabulary));
  RETURN_IF_ERROR(WriteFile(path, bytes.bin));
  return bytes.idx.empty() ? absl::OkStatus() : WriteFile(MegatronIndexPath(path), bytes.idx);
}

}  // namespace sluice
