#include "framework/data/token_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/file.h"
#include "framework/data/little_endian.h"

namespace sluice {
namespace {

constexpr int32_t kLlmCVersion = 1;
constexpr int64_t kLlmCHeader = 256 * 4;

// Little-endian, and not aligned:
//   0   "MMIDIDX\0\0"
//   9   u64 version, 1
//   17  u8 type of the tokens
//   18  u64 S, sequences
//   26  u64 D, documents and one
//   34  i32 [S] lengths in tokens; i64 [S] where each begins in the .bin, in bytes;
//       i64 [D] at which sequence each document begins, the first 0, the last S; i8 [S] or nothing
constexpr absl::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr uint64_t kMegatronVersion = 1;
constexpr int64_t kMegatronHeader = 34;
// Bytes of a token, by its type; 0: types of numbers that are no tokens, f64 and f32.
constexpr std::array<int64_t, 9> kTypeBytes = {0, 1, 1, 2, 4, 8, 0, 0, 2};
constexpr uint8_t kU8 = 1, kI8 = 2, kI16 = 3, kI32 = 4, kU16 = 8;
constexpr int64_t kTwoByteVocabulary = 65500;

template <typename... Words>
absl::Status Damaged(absl::string_view name, int64_t at, const Words&... words) {
  return absl::DataLossError(absl::StrCat(name, ", byte ", at, ": expected ", words...));
}

// All from a place in a file on, a piece at a time, so that they are copied but once.
absl::Status TakeU16(const RandomAccessFile& file, int64_t begin, std::vector<int32_t>* tokens) {
  constexpr int64_t kAtOnce = 1 << 16;
  std::vector<uint16_t> piece(kAtOnce);
  tokens->reserve((file.size() - begin) / 2);
  for (int64_t at = begin; at < file.size(); at += 2 * kAtOnce) {
    const int64_t count = std::min(kAtOnce, (file.size() - at) / 2);
    RETURN_IF_ERROR(file.ReadAt(at, 2 * count, reinterpret_cast<char*>(piece.data())));
    tokens->insert(tokens->end(), piece.begin(), piece.begin() + count);
  }
  return absl::OkStatus();
}

void MakeOneSequence(TokenFile* file) {
  file->sequences = {0, static_cast<int64_t>(file->tokens.size())};
  file->documents = {0, 1};
}

int64_t TokenAt(absl::string_view bin, int64_t at, uint8_t type) {
  switch (type) {
    case kU8:
      return Take<uint8_t>(bin, at);
    case kI8:
      return Take<int8_t>(bin, at);
    case kI16:
      return Take<int16_t>(bin, at);
    case kI32:
      return Take<int32_t>(bin, at);
    case kU16:
      return Take<uint16_t>(bin, at);
    default:
      return Take<int64_t>(bin, at);
  }
}

// What an .idx says, its arrays where they lie in it.
struct Index {
  uint8_t type = 0;
  int64_t sequences = 0, documents = 0;
  bool modes = false;
  int64_t lengths_at() const { return kMegatronHeader; }
  int64_t offsets_at() const { return lengths_at() + 4 * sequences; }
  int64_t documents_at() const { return offsets_at() + 8 * sequences; }
  int64_t modes_at() const { return documents_at() + 8 * documents; }
  int64_t size() const { return modes_at() + (modes ? sequences : 0); }
};

absl::StatusOr<Index> ReadHeader(absl::string_view name, absl::string_view idx) {
  const auto size = static_cast<int64_t>(idx.size());
  if (!absl::StartsWith(idx, kMegatronMagic)) return Damaged(name, 0, "MMIDIDX and two zeros");
  if (size < kMegatronHeader) {
    return Damaged(name, size, "a header of ", kMegatronHeader, " bytes, got the end");
  }
  const auto version = Take<uint64_t>(idx, 9);
  if (version != kMegatronVersion) {
    return Damaged(name, 9, "version ", kMegatronVersion, ", got ", version);
  }
  Index result;
  result.type = Take<uint8_t>(idx, 17);
  if (result.type >= kTypeBytes.size() || kTypeBytes[result.type] == 0) {
    return Damaged(name, 17, "a type of whole numbers, 1 to 5 or 8, got ", result.type);
  }
  const auto sequences = Take<uint64_t>(idx, 18), documents = Take<uint64_t>(idx, 26);
  // So few that nothing below can overflow.
  if (sequences > idx.size()) {
    return Damaged(name, 18, "as many sequences as ", size, " bytes can list, got ", sequences);
  }
  if (documents > idx.size()) {
    return Damaged(name, 26, "as many documents as ", size, " bytes can list, got ", documents);
  }
  result.sequences = static_cast<int64_t>(sequences);
  result.documents = static_cast<int64_t>(documents);
  result.modes = size == result.size() + result.sequences && result.sequences > 0;
  if (size != result.size()) {
    return Damaged(name, std::min(size, result.size()), "the end at byte ", result.size(),
                   ", or with modes at ", result.size() + result.sequences, ", got it at ", size);
  }
  return result;
}

absl::Status ReadSequences(absl::string_view name, absl::string_view idx, const Index& index,
                           TokenFile* file) {
  int64_t bytes = 0;
  file->sequences = {0};
  for (int64_t i = 0; i < index.sequences; ++i) {
    const int64_t length_at = index.lengths_at() + 4 * i, offset_at = index.offsets_at() + 8 * i;
    const auto length = Take<int32_t>(idx, length_at);
    const auto offset = Take<int64_t>(idx, offset_at);
    if (length < 0) return Damaged(name, length_at, "a length of 0 or more, got ", length);
    if (offset != bytes) {
      return Damaged(name, offset_at, "sequence ", i, " at byte ", bytes,
                     ", behind the one before, got ", offset);
    }
    bytes += length * kTypeBytes[index.type];
    file->sequences.push_back(file->sequences.back() + length);
  }
  for (int64_t i = 0; i < index.documents; ++i) {
    const int64_t at = index.documents_at() + 8 * i;
    const auto bound = Take<int64_t>(idx, at);
    const int64_t least = i == 0 ? 0 : file->documents.back();
    const int64_t most = i == 0 ? 0 : index.sequences;
    if (bound < least || bound > most) {
      return Damaged(name, at, "a document's bound from ", least, " to ", most, ", got ", bound);
    }
    file->documents.push_back(bound);
  }
  if (index.documents == 0 || file->documents.back() != index.sequences) {
    return Damaged(name, index.documents_at(), "bounds of documents that end with sequence ",
                   index.sequences);
  }
  for (int64_t i = 0; index.modes && i < index.sequences; ++i) {
    file->modes.push_back(Take<int8_t>(idx, index.modes_at() + i));
  }
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("data: cannot write ", path, ": ", strerror(errno)));
}

std::string IndexBytes(const TokenFile& file, uint8_t type) {
  const auto sequences = static_cast<int64_t>(file.sequences.size()) - 1;
  std::string idx(kMegatronMagic);
  Put(kMegatronVersion, &idx);
  Put(type, &idx);
  Put(static_cast<uint64_t>(sequences), &idx);
  Put(static_cast<uint64_t>(file.documents.size()), &idx);
  for (int64_t i = 0; i < sequences; ++i) {
    Put(static_cast<int32_t>(file.sequences[i + 1] - file.sequences[i]), &idx);
  }
  for (int64_t i = 0; i < sequences; ++i) Put(file.sequences[i] * kTypeBytes[type], &idx);
  for (const int64_t bound : file.documents) Put(bound, &idx);
  for (const int8_t mode : file.modes) Put(mode, &idx);
  return idx;
}

// That sequences and documents are bounds of what they part.
absl::Status CheckParts(const TokenFile& file) {
  const auto bounds = [](const std::vector<int64_t>& values, size_t last) {
    return !values.empty() && values.front() == 0 && values.back() == static_cast<int64_t>(last) &&
           std::ranges::is_sorted(values);
  };
  const bool sequences = bounds(file.sequences, file.tokens.size());
  const bool modes = file.modes.empty() || file.modes.size() + 1 == file.sequences.size();
  if (sequences && modes && bounds(file.documents, file.sequences.size() - 1))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      "data: expected sequences of tokens, documents of sequences, and a mode for "
      "each sequence or none, got others");
}

std::string IdxPath(const std::string& bin_path) {
  return std::filesystem::path(bin_path).replace_extension(".idx").string();
}

absl::StatusOr<TokenFile> ReadTokens(absl::string_view name, const RandomAccessFile& file) {
  const int64_t size = file.size();
  std::string head(std::min(size, kLlmCHeader), '\0');
  RETURN_IF_ERROR(file.ReadAt(0, static_cast<int64_t>(head.size()), head.data()));
  TokenFile result;
  int64_t begin = 0;
  if (size >= 4 && Take<int32_t>(head, 0) == kLlmCTokens16) {
    result.format = TokenFormat::kLlmC;
    if (size < kLlmCHeader) {
      return Damaged(name, size, "a header of ", kLlmCHeader, " bytes, got the end");
    }
    const auto version = Take<int32_t>(head, 4), count = Take<int32_t>(head, 8);
    if (version != kLlmCVersion) {
      return Damaged(name, 4, "version ", kLlmCVersion, ", got ", version);
    }
    if (count < 0 || size != kLlmCHeader + 2 * int64_t{count}) {
      return Damaged(name, 8, "the count of the ", (size - kLlmCHeader) / 2,
                     " tokens that are there, got ", count);
    }
    begin = kLlmCHeader;
  }
  if (size % 2 != 0) return Damaged(name, size, "tokens of two bytes, got the end in one");
  RETURN_IF_ERROR(TakeU16(file, begin, &result.tokens));
  MakeOneSequence(&result);
  return result;
}

}  // namespace

absl::StatusOr<TokenFile> ParseTokens(absl::string_view bin_name, absl::string_view bin) {
  return ReadTokens(bin_name, RandomAccessFile::OfBytes(std::string(bin_name), std::string(bin)));
}

absl::StatusOr<TokenFile> ParseMegatron(absl::string_view bin_name, absl::string_view bin,
                                        absl::string_view idx_name, absl::string_view idx) {
  ASSIGN_OR_RETURN(const Index index, ReadHeader(idx_name, idx));
  TokenFile result;
  result.format = TokenFormat::kMegatron;
  RETURN_IF_ERROR(ReadSequences(idx_name, idx, index, &result));
  const int64_t bytes = kTypeBytes[index.type], size = static_cast<int64_t>(bin.size());
  if (size != result.sequences.back() * bytes) {
    return Damaged(bin_name, std::min(size, result.sequences.back() * bytes), "the end at byte ",
                   result.sequences.back() * bytes, " as ", idx_name, " says, got it at ", size);
  }
  result.tokens.reserve(result.sequences.back());
  for (int64_t at = 0; at < size; at += bytes) {
    const int64_t token = TokenAt(bin, at, index.type);
    if (token < 0 || token > std::numeric_limits<int32_t>::max()) {
      return Damaged(bin_name, at, "a token from 0 to ", std::numeric_limits<int32_t>::max(),
                     ", got ", token);
    }
    result.tokens.push_back(static_cast<int32_t>(token));
  }
  return result;
}

absl::StatusOr<TokenFile> ReadTokenFile(const std::string& path) {
  const std::string name = absl::StrCat("data: ", path), idx_path = IdxPath(path);
  std::error_code error;
  if (!std::filesystem::exists(idx_path, error)) {
    ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
    return ReadTokens(name, file);
  }
  ASSIGN_OR_RETURN(const std::string bin, ReadFile(path));
  ASSIGN_OR_RETURN(const std::string idx, ReadFile(idx_path));
  return ParseMegatron(name, bin, absl::StrCat("data: ", idx_path), idx);
}

absl::StatusOr<TokenFileBytes> BytesOfTokens(const TokenFile& file, int64_t vocabulary) {
  const bool megatron = file.format == TokenFormat::kMegatron;
  const bool wide = megatron && vocabulary >= kTwoByteVocabulary;
  const int64_t most =
      wide ? std::numeric_limits<int32_t>::max() : std::numeric_limits<uint16_t>::max();
  TokenFileBytes result;
  const auto count = static_cast<int64_t>(file.tokens.size());
  if (file.format == TokenFormat::kLlmC) {
    if (count > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("data: expected at most 2^31 - 1 tokens for llm.c, got ", count));
    }
    Put(kLlmCTokens16, &result.bin);
    Put(kLlmCVersion, &result.bin);
    Put(static_cast<int32_t>(count), &result.bin);
    result.bin.resize(kLlmCHeader);
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
  if (!megatron) return result;
  RETURN_IF_ERROR(CheckParts(file));
  result.idx = IndexBytes(file, wide ? kI32 : kU16);
  return result;
}

absl::Status WriteTokenFile(const std::string& path, const TokenFile& file, int64_t vocabulary) {
  ASSIGN_OR_RETURN(const TokenFileBytes bytes, BytesOfTokens(file, vocabulary));
  RETURN_IF_ERROR(WriteFile(path, bytes.bin));
  return bytes.idx.empty() ? absl::OkStatus() : WriteFile(IdxPath(path), bytes.idx);
}

}  // namespace sluice
