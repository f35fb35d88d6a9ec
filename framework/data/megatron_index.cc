#include "framework/data/megatron_index.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/little_endian.h"

namespace sluice {
namespace {

// Little-endian, and not aligned:
//   0   "MMIDIDX\0\0"
//   9   u64 version, 1
//   17  u8 type of the tokens
//   18  u64 S, sequences
//   26  u64 D, documents and one
//   34  i32 [S] lengths in tokens; i64 [S] where each begins in the .bin, in bytes;
//       i64 [D] at which sequence each document begins, the first 0, the last S; i8 [S] or nothing
constexpr absl::string_view kMagic("MMIDIDX\0\0", 9);
constexpr uint64_t kVersion = 1;
constexpr int64_t kHeader = 34;

// By the number of a type; 6 and 7 are f64 and f32, which are no tokens.
constexpr std::array<std::optional<TokenType>, 9> kTypes = {
    std::nullopt,    TokenType::kU8, TokenType::kI8, TokenType::kI16, TokenType::kI32,
    TokenType::kI64, std::nullopt,   std::nullopt,   TokenType::kU16};

template <typename... Words>
absl::Status Damaged(absl::string_view name, int64_t at, const Words&... words) {
  return absl::DataLossError(absl::StrCat(name, ", byte ", at, ": expected ", words...));
}

// What the header says, and where the arrays behind it are.
struct Header {
  TokenType type = TokenType::kU16;
  int64_t sequences = 0, documents = 0;
  bool modes = false;
  int64_t lengths_at() const { return kHeader; }
  int64_t offsets_at() const { return lengths_at() + 4 * sequences; }
  int64_t documents_at() const { return offsets_at() + 8 * sequences; }
  int64_t modes_at() const { return documents_at() + 8 * documents; }
  int64_t size() const { return modes_at() + (modes ? sequences : 0); }
};

// Numbers of a file from a place on, which are read a piece at a time.
template <typename T>
class Numbers {
 public:
  Numbers(const RandomAccessFile& file, int64_t at) : file_(file), at_(at) {}

  // The next one; the caller has seen to it that it is there.
  absl::StatusOr<T> Next() {
    if (place_ == piece_.size()) {
      constexpr int64_t kAtOnce = 1 << 14;
      const int64_t left = (file_.size() - at_) / static_cast<int64_t>(sizeof(T));
      piece_.resize(std::min(kAtOnce, left));
      const auto size = static_cast<int64_t>(piece_.size() * sizeof(T));
      RETURN_IF_ERROR(file_.ReadAt(at_, size, reinterpret_cast<char*>(piece_.data())));
      at_ += size;
      place_ = 0;
    }
    return piece_[place_++];
  }

 private:
  const RandomAccessFile& file_;
  int64_t at_;
  std::vector<T> piece_;
  size_t place_ = 0;
};

absl::StatusOr<Header> ReadHeader(absl::string_view name, const RandomAccessFile& idx) {
  const int64_t size = idx.size();
  ASSIGN_OR_RETURN(const std::string bytes, ReadBegin(idx, kHeader));
  if (!absl::StartsWith(bytes, kMagic)) return Damaged(name, 0, "MMIDIDX and two zeros");
  if (size < kHeader) return Damaged(name, size, "a header of ", kHeader, " bytes, got the end");
  const auto version = Take<uint64_t>(bytes, 9);
  if (version != kVersion) return Damaged(name, 9, "version ", kVersion, ", got ", version);
  const auto type = Take<uint8_t>(bytes, 17);
  if (type >= kTypes.size() || !kTypes[type]) {
    return Damaged(name, 17, "a type of whole numbers, 1 to 5 or 8, got ", type);
  }
  const auto sequences = Take<uint64_t>(bytes, 18), documents = Take<uint64_t>(bytes, 26);
  // So few that nothing below can overflow.
  if (sequences > static_cast<uint64_t>(size)) {
    return Damaged(name, 18, "as many sequences as ", size, " bytes can list, got ", sequences);
  }
  if (documents > static_cast<uint64_t>(size)) {
    return Damaged(name, 26, "as many documents as ", size, " bytes can list, got ", documents);
  }
  Header result = {.type = *kTypes[type],
                   .sequences = static_cast<int64_t>(sequences),
                   .documents = static_cast<int64_t>(documents)};
  result.modes = size == result.size() + result.sequences && result.sequences > 0;
  if (size != result.size()) {
    return Damaged(name, std::min(size, result.size()), "the end at byte ", result.size(),
                   ", or with modes at ", result.size() + result.sequences, ", got it at ", size);
  }
  return result;
}

// Returns how many tokens there are.
absl::StatusOr<int64_t> ReadSequences(absl::string_view name, const RandomAccessFile& idx,
                                      const Header& header, MegatronParts* parts) {
  Numbers<int32_t> lengths(idx, header.lengths_at());
  Numbers<int64_t> offsets(idx, header.offsets_at());
  const int64_t token_bytes = BytesOf(header.type);
  int64_t tokens = 0;
  if (parts != nullptr) parts->sequences = {0};
  for (int64_t i = 0; i < header.sequences; ++i) {
    ASSIGN_OR_RETURN(const int32_t length, lengths.Next());
    ASSIGN_OR_RETURN(const int64_t offset, offsets.Next());
    if (length < 0) {
      return Damaged(name, header.lengths_at() + 4 * i, "a length of 0 or more, got ", length);
    }
    if (offset != tokens * token_bytes) {
      return Damaged(name, header.offsets_at() + 8 * i, "sequence ", i, " at byte ",
                     tokens * token_bytes, ", behind the one before, got ", offset);
    }
    tokens += length;
    if (parts != nullptr) parts->sequences.push_back(tokens);
  }
  return tokens;
}

absl::Status ReadDocuments(absl::string_view name, const RandomAccessFile& idx,
                           const Header& header, MegatronParts* parts) {
  Numbers<int64_t> bounds(idx, header.documents_at());
  int64_t last = 0;
  for (int64_t i = 0; i < header.documents; ++i) {
    ASSIGN_OR_RETURN(const int64_t bound, bounds.Next());
    const int64_t most = i == 0 ? 0 : header.sequences;
    if (bound < last || bound > most) {
      return Damaged(name, header.documents_at() + 8 * i, "a document's bound from ", last, " to ",
                     most, ", got ", bound);
    }
    last = bound;
    if (parts != nullptr) parts->documents.push_back(bound);
  }
  if (header.documents > 0 && last == header.sequences) return absl::OkStatus();
  return Damaged(name, header.documents_at(), "bounds of documents that end with sequence ",
                 header.sequences);
}

}  // namespace

absl::StatusOr<MegatronIndex> ReadMegatronIndex(absl::string_view name, const RandomAccessFile& idx,
                                                MegatronParts* parts) {
  ASSIGN_OR_RETURN(const Header header, ReadHeader(name, idx));
  MegatronIndex index = {
      .type = header.type, .sequences = header.sequences, .documents = header.documents - 1};
  ASSIGN_OR_RETURN(index.tokens, ReadSequences(name, idx, header, parts));
  RETURN_IF_ERROR(ReadDocuments(name, idx, header, parts));
  if (!header.modes || parts == nullptr) return index;
  Numbers<int8_t> modes(idx, header.modes_at());
  for (int64_t i = 0; i < header.sequences; ++i) {
    ASSIGN_OR_RETURN(const int8_t mode, modes.Next());
    parts->modes.push_back(mode);
  }
  return index;
}

absl::StatusOr<TokenLayout> FindMegatronTokens(absl::string_view bin_name,
                                               const RandomAccessFile& bin,
                                               absl::string_view idx_name,
                                               const RandomAccessFile& idx, MegatronParts* parts) {
  ASSIGN_OR_RETURN(const MegatronIndex index, ReadMegatronIndex(idx_name, idx, parts));
  const int64_t expected = index.tokens * BytesOf(index.type);
  if (bin.size() != expected) {
    return Damaged(bin_name, std::min(bin.size(), expected), "the end at byte ", expected, " as ",
                   idx_name, " says, got it at ", bin.size());
  }
  return TokenLayout{.format = TokenFormat::kMegatron,
                     .type = index.type,
                     .count = index.tokens,
                     .sequences = index.sequences,
                     .documents = index.documents};
}

absl::StatusOr<std::string> MegatronIndexBytes(const MegatronParts& parts, TokenType type) {
  const auto bounds = [](const std::vector<int64_t>& values) {
    return !values.empty() && values.front() == 0 && std::ranges::is_sorted(values);
  };
  const auto sequences = static_cast<int64_t>(parts.sequences.size()) - 1;
  const bool modes = parts.modes.empty() || parts.modes.size() + 1 == parts.sequences.size();
  if (!modes || !bounds(parts.sequences) || !bounds(parts.documents) ||
      parts.documents.back() != sequences) {
    return absl::InvalidArgumentError(
        "data: expected sequences of tokens, documents of sequences, and a mode for each sequence "
        "or none, got others");
  }
  std::string idx(kMagic);
  Put(kVersion, &idx);
  Put(static_cast<uint8_t>(std::ranges::find(kTypes, type) - kTypes.begin()), &idx);
  Put(static_cast<uint64_t>(sequences), &idx);
  Put(static_cast<uint64_t>(parts.documents.size()), &idx);
  for (int64_t i = 0; i < sequences; ++i) {
    Put(static_cast<int32_t>(parts.sequences[i + 1] - parts.sequences[i]), &idx);
  }
  for (int64_t i = 0; i < sequences; ++i) Put(parts.sequences[i] * BytesOf(type), &idx);
  for (const int64_t bound : parts.documents) Put(bound, &idx);
  for (const int8_t mode : parts.modes) Put(mode, &idx);
  return idx;
}

std::string MegatronIndexPath(const std::string& bin_path) {
  return std::filesystem::path(bin_path).replace_extension(".idx").string();
}

}  // namespace sluice
