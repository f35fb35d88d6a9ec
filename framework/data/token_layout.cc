#include "framework/data/token_layout.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/file_kind.h"
#include "framework/data/little_endian.h"
#include "framework/data/megatron_index.h"
#include "framework/data/npy.h"

namespace sluice {
namespace {

constexpr char kNpyEnding[] = ".npy";

template <typename... Words>
absl::Status Damaged(absl::string_view name, int64_t at, const Words&... words) {
  return absl::DataLossError(absl::StrCat(name, ", byte ", at, ": expected ", words...));
}

template <typename... Words>
absl::Status Refused(absl::string_view name, const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": expected ", words...));
}

// Calls fn with a zero of the type.
template <typename F>
auto ForType(TokenType type, F&& fn) {
  switch (type) {
    case TokenType::kU8:
      return fn(uint8_t{0});
    case TokenType::kI8:
      return fn(int8_t{0});
    case TokenType::kU16:
      return fn(uint16_t{0});
    case TokenType::kI16:
      return fn(int16_t{0});
    case TokenType::kU32:
      return fn(uint32_t{0});
    case TokenType::kI32:
      return fn(int32_t{0});
    case TokenType::kU64:
      return fn(uint64_t{0});
    case TokenType::kI64:
      break;
  }
  return fn(int64_t{0});
}

absl::StatusOr<TokenLayout> OfLlmC(absl::string_view name, absl::string_view begin, int64_t size) {
  if (size < kLlmCHeader) {
    return Damaged(name, size, "a header of ", kLlmCHeader, " bytes, got the end");
  }
  const bool wide = Take<int32_t>(begin, 0) == kLlmCTokens32;
  const int32_t expected = wide ? kLlmCVersion32 : kLlmCVersion16;
  const auto version = Take<int32_t>(begin, 4), count = Take<int32_t>(begin, 8);
  if (version != expected) return Damaged(name, 4, "version ", expected, ", got ", version);
  const TokenLayout layout = {.format = TokenFormat::kLlmC,
                              .type = wide ? TokenType::kU32 : TokenType::kU16,
                              .begin = kLlmCHeader,
                              .count = count};
  if (count < 0 || size != kLlmCHeader + BytesOf(layout.type) * count) {
    return Damaged(name, 8, "the count of the ", (size - kLlmCHeader) / BytesOf(layout.type),
                   " tokens that are there, got ", count);
  }
  return layout;
}

absl::StatusOr<TokenLayout> OfNpy(absl::string_view name, const RandomAccessFile& file) {
  ASSIGN_OR_RETURN(const NpyLayout array, FindNpyValues(name, file));
  const bool integers = array.kind == 'u' || array.kind == 'i';
  if (!integers || array.shape.rank() != 1 || array.big_endian) {
    return Refused(name, "tokens, an array of integers in one dimension and little-endian, got ",
                   absl::string_view(&array.kind, 1), array.item_bytes, " ", array.shape.ToString(),
                   array.big_endian ? ", big-endian" : "");
  }
  constexpr std::array<TokenType, 4> kUnsigned = {TokenType::kU8, TokenType::kU16, TokenType::kU32,
                                                  TokenType::kU64};
  constexpr std::array<TokenType, 4> kSigned = {TokenType::kI8, TokenType::kI16, TokenType::kI32,
                                                TokenType::kI64};
  const auto type = std::ranges::find(kUnsigned, array.item_bytes, BytesOf) - kUnsigned.begin();
  return TokenLayout{.format = TokenFormat::kNpy,
                     .type = array.kind == 'u' ? kUnsigned[type] : kSigned[type],
                     .begin = array.begin,
                     .count = array.shape[0]};
}

// Numbers of 32 bits from several places of a file without a header, and where they are.
struct Sample {
  std::vector<std::pair<int64_t, uint32_t>> numbers;

  // Whether these are tokens of 32 bits rather than pairs of 16 bits. The high halves of tokens are
  // small, as no vocabulary has more than a million; that all of many tokens of 16 bits at odd
  // places are below 16, and not all of those at even places, does not happen by chance.
  bool LooksLike32Bits() const {
    constexpr size_t kFewest = 32;
    constexpr uint32_t kMostHigh = 16;
    return numbers.size() >= kFewest &&
           std::ranges::all_of(numbers, [](const auto& n) { return n.second >> 16 < kMostHigh; }) &&
           std::ranges::any_of(numbers,
                               [](const auto& n) { return (n.second & 0xffff) >= kMostHigh; });
  }
};

absl::StatusOr<Sample> TakeSample(const RandomAccessFile& file) {
  constexpr int64_t kPlaces = 8, kAtOnce = 1 << 11, kBytes = 4;
  const int64_t all = file.size() / kBytes, count = std::min(all, kAtOnce);
  Sample sample;
  std::vector<uint32_t> piece(count);
  for (int64_t place = 0; place < (all > count ? kPlaces : 1); ++place) {
    const int64_t begin = (all - count) * place / (kPlaces - 1);
    RETURN_IF_ERROR(
        file.ReadAt(begin * kBytes, count * kBytes, reinterpret_cast<char*>(piece.data())));
    for (int64_t i = 0; i < count; ++i) {
      sample.numbers.emplace_back((begin + i) * kBytes, piece[i]);
    }
  }
  return sample;
}

absl::StatusOr<TokenLayout> Of32Bits(absl::string_view name, const RandomAccessFile& file,
                                     const Sample& sample, int64_t vocabulary) {
  constexpr char kOther[] = "; tokens of 16 bits are those of a vocabulary of at most 65,536";
  if (file.size() % 4 != 0) {
    return Refused(name, "tokens of 32 bits, as a vocabulary of ", vocabulary, " needs them, got ",
                   file.size(), " bytes, which are no multiple of 4", kOther);
  }
  for (const auto& [at, number] : sample.numbers) {
    if (number < vocabulary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ", byte ", at, ": expected a token of 32 bits below ", vocabulary,
                     ", as such a vocabulary needs them, got ", number, kOther));
  }
  return TokenLayout{.type = TokenType::kU32, .count = file.size() / 4};
}

absl::StatusOr<TokenLayout> OfNoHeader(absl::string_view name, absl::string_view begin,
                                       const RandomAccessFile& file, int64_t vocabulary) {
  const RecognizedFile kind = RecognizeBytes(begin);
  if (kind.IsOtherThanNumbers()) {
    return Refused(name, "tokens, got ", DescribeFile(kind, file.path()));
  }
  ASSIGN_OR_RETURN(const Sample sample, TakeSample(file));
  if (vocabulary > kMost16BitVocabulary) return Of32Bits(name, file, sample, vocabulary);
  if (file.size() % 4 == 0 && sample.LooksLike32Bits()) {
    if (vocabulary == 0) return TokenLayout{.type = TokenType::kU32, .count = file.size() / 4};
    return Refused(
        name, "tokens of 16 bits, as a file without a header has them for a vocabulary of ",
        vocabulary,
        ", got numbers of 32 bits: every second half is below 16; if Megatron-LM has "
        "written them, the .idx is missing that belongs next to the .bin, and a .npy of NumPy's "
        "says itself of how many bits its tokens are");
  }
  if (file.size() % 2 != 0) {
    return Damaged(name, file.size(), "tokens of two bytes, got the end in one");
  }
  return TokenLayout{.count = file.size() / 2};
}

}  // namespace

int64_t BytesOf(TokenType type) {
  return ForType(type, [](auto zero) { return static_cast<int64_t>(sizeof(zero)); });
}

absl::StatusOr<TokenLayout> FindTokens(absl::string_view name, const RandomAccessFile& file,
                                       int64_t vocabulary) {
  ASSIGN_OR_RETURN(const std::string begin, ReadBegin(file, kRecognizedBytes));
  const FileKind kind = KindOfMagic(begin);
  if (kind != FileKind::kNpy && absl::EndsWith(file.path(), kNpyEnding)) {
    return Refused(name, "a NumPy array, got ", DescribeBegin(file.path(), begin));
  }
  if (kind != FileKind::kNpy && kind != FileKind::kLlmCTokens) {
    return OfNoHeader(name, begin, file, vocabulary);
  }
  ASSIGN_OR_RETURN(const TokenLayout layout,
                   kind == FileKind::kNpy ? OfNpy(name, file) : OfLlmC(name, begin, file.size()));
  RETURN_IF_ERROR(CheckTokenType(name, layout.type, vocabulary));
  return layout;
}

absl::Status CheckTokenType(absl::string_view name, TokenType type, int64_t vocabulary) {
  if (vocabulary <= kMost16BitVocabulary || BytesOf(type) > 2) return absl::OkStatus();
  return Refused(name, "tokens of 32 bits, as a vocabulary of ", vocabulary,
                 " needs them, got tokens of ", 8 * BytesOf(type),
                 " bits, which are those of a vocabulary of at most 65,536");
}

absl::StatusOr<OpenTokenFile> OpenTokens(const std::string& path, int64_t vocabulary) {
  const std::string name = absl::StrCat("data: ", path), idx_path = MegatronIndexPath(path);
  ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
  std::error_code error;
  if (absl::EndsWith(path, kNpyEnding) || !std::filesystem::exists(idx_path, error)) {
    ASSIGN_OR_RETURN(const TokenLayout layout, FindTokens(name, file, vocabulary));
    return OpenTokenFile{std::move(file), layout};
  }
  ASSIGN_OR_RETURN(const RandomAccessFile idx, RandomAccessFile::Open(idx_path));
  ASSIGN_OR_RETURN(const TokenLayout layout,
                   FindMegatronTokens(name, file, absl::StrCat("data: ", idx_path), idx, nullptr));
  RETURN_IF_ERROR(CheckTokenType(name, layout.type, vocabulary));
  return OpenTokenFile{std::move(file), layout};
}

int64_t CopyTokens(TokenType type, const char* from, int64_t count, int64_t limit, int32_t* to) {
  return ForType(type, [&](auto zero) -> int64_t {
    using T = decltype(zero);
    // Of a negative number this is a large one.
    using Wide = std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>;
    const auto most = static_cast<Wide>(limit - 1);
    const auto at = [from](int64_t i) {
      T token;
      std::memcpy(&token, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
      return static_cast<Wide>(token);
    };
    Wide largest = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Wide token = at(i);
      largest = std::max(largest, token);
      to[i] = static_cast<int32_t>(token);
    }
    if (count == 0 || largest <= most) return -1;
    int64_t first = 0;
    while (at(first) <= most) ++first;
    return first;
  });
}

int64_t TokenAt(TokenType type, const char* from) {
  return ForType(type, [&](auto token) {
    std::memcpy(&token, from, sizeof(token));
    return static_cast<int64_t>(token);
  });
}

}  // namespace sluice
