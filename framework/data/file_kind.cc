#include "framework/data/file_kind.h"

#include <magic.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "framework/base/printable.h"
#include "framework/data/crc32c.h"
#include "framework/data/little_endian.h"
#include "framework/data/token_layout.h"

namespace sluice {
namespace {

constexpr char kInspect[] = "bazel run //tools:dataset -- inspect FILE shows what it holds";

// Formats that libmagic does not know, or that this package reads. A magic number stands at the
// begin of the file.
struct Magic {
  absl::string_view bytes;
  FileKind kind;
  absl::string_view name, advice;
};
constexpr Magic kMagics[] = {
    {"\x28\xb5\x2f\xfd", FileKind::kZstandard, "Zstandard compressed data",
     "unpack it with unzstd FILE"},
    {"\x93NUMPY", FileKind::kNpy, "a NumPy array", kInspect},
    {"PK\x03\x04", FileKind::kZip, "a Zip archive", "unpack it with unzip FILE"},
    {"\x0a\x23\xd7\xce", FileKind::kRecordIo, "RecordIO of MXNet", kInspect},
    {{"MMIDIDX\0\0", 9},
     FileKind::kForeign,
     "the index of Megatron-LM's tokens",
     "name the .bin that is next to it"},
    {"version https://git-lfs.github.com/spec/", FileKind::kForeign,
     "a Git LFS pointer instead of the file itself", "git lfs pull fetches it"},
    {"ARROW1", FileKind::kForeign, "an Arrow file", "Python's pyarrow.ipc reads it"},
    {"FEA1", FileKind::kForeign, "a Feather file", "Python's pyarrow.feather reads it"},
    {"\x89HDF\r\n\x1a\n", FileKind::kHdf5, "an HDF5 file", "Python's h5py reads it"},
};

// What converts the formats that people have, by how libmagic describes them.
struct Advice {
  absl::string_view description, advice;
};
constexpr Advice kAdvice[] = {
    {"bzip2 compressed", "unpack it with bunzip2 --keep FILE"},
    {"XZ compressed", "unpack it with unxz --keep FILE"},
    {"LZMA compressed", "unpack it with unxz --keep FILE"},
    {"LZ4 compressed", "unpack it with unlz4 FILE"},
    {"lzop compressed", "unpack it with lzop -d FILE"},
    {"compress'd data", "unpack it with gunzip FILE"},
    {"7-zip archive", "unpack it with 7z x FILE"},
    {"RAR archive", "unpack it with unrar x FILE"},
    {"Zip archive", "unpack it with unzip FILE"},
    {"tar archive", "unpack it with tar -xf FILE"},
    {"Apache Parquet", "write it as text with bazel run //tools:dataset -- convert FILE NAME.csv"},
    {"PDF document", "write its text with pdftotext FILE"},
    {"SQLite 3.x database", "write a table with sqlite3 -csv FILE 'select * from TABLE'"},
    {"Microsoft Word 2007+", "write its text with pandoc -t plain -o NAME.txt FILE"},
    {"Microsoft Excel 2007+", "save it as .csv"},
    {"PNG image", ""},
    {"JPEG image", ""},
};

constexpr std::array<absl::string_view, 9> kPackedEndings = {".gz",  ".zst", ".bz2", ".xz", ".lzma",
                                                             ".lz4", ".zip", ".7z",  ".rar"};

bool IsGzip(absl::string_view begin) {
  // Magic, method, flags of which three bits are reserved, time, and then how hard the packer
  // tried: 0, 2 or 4. The last one tells gzip from a record of OneFlow that happens to have a
  // length with these digits.
  constexpr size_t kEffort = 8;
  if (!absl::StartsWith(begin, "\x1f\x8b")) return false;
  if (begin.size() > 2 && begin[2] != 8) return false;
  if (begin.size() > 3 && (begin[3] & 0xe0) != 0) return false;
  return begin.size() <= kEffort || (begin[kEffort] & ~6) == 0;
}

// A frame that readers skip, as pzstd puts one before each of its own.
bool IsSkippableFrame(absl::string_view begin) {
  constexpr uint32_t kFirst = 0x184d2a50, kNumbers = 16;
  return begin.size() >= 4 && Take<uint32_t>(begin, 0) - kFirst < kNumbers;
}

bool IsTfRecord(absl::string_view begin) {
  constexpr size_t kLength = 8;
  if (begin.size() < kLength + 4) return false;
  return MaskedCrc32c(begin.substr(0, kLength)) == Take<uint32_t>(begin, kLength);
}

bool IsIdx(absl::string_view begin) {
  constexpr absl::string_view kTypes = "\x08\x09\x0b\x0c\x0d\x0e";
  return begin.size() >= 4 && begin[0] == 0 && begin[1] == 0 &&
         absl::StrContains(kTypes, begin[2]) && begin[3] >= 1 && begin[3] <= 8;
}

// llm.c numbers its formats by days, 20240520: of tokens, weights, tokenizers and states. A version
// follows, which is small.
bool IsLlmC(absl::string_view begin) {
  constexpr int32_t kFirstYear = 2024, kLastYear = 2034, kMostVersion = 100;
  if (begin.size() < 8) return false;
  const auto day = Take<int32_t>(begin, 0), version = Take<int32_t>(begin, 4);
  const int32_t year = day / 10000, month = day / 100 % 100, of_month = day % 100;
  return year >= kFirstYear && year <= kLastYear && month >= 1 && month <= 12 && of_month >= 1 &&
         of_month <= 31 && version >= 0 && version < kMostVersion;
}

bool IsLlmCTokens(absl::string_view begin) {
  if (!IsLlmC(begin)) return false;
  const auto magic = Take<int32_t>(begin, 0);
  return magic == kLlmCTokens16 || magic == kLlmCTokens32;
}

// A header of JSON, with its length before it.
bool IsSafetensors(absl::string_view begin) {
  constexpr uint64_t kMostHeader = 100000000;
  return begin.size() >= 10 && Take<uint64_t>(begin, 0) <= kMostHeader &&
         absl::StartsWith(begin.substr(8), "{\"");
}

// A Zip archive whose first member is the pickle of the tensors' shapes. Before version 1.6,
// torch.save wrote pickles that begin with a magic number.
bool IsTorch(absl::string_view begin) {
  constexpr size_t kSearched = 256;
  const absl::string_view searched = begin.substr(0, kSearched);
  if (absl::StartsWith(begin, "PK\x03\x04")) return absl::StrContains(searched, "/data.pkl");
  constexpr absl::string_view kMagic = "\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.";
  return absl::StartsWith(begin, "\x80") && absl::StrContains(searched, kMagic);
}

// Pickles of Python 3.8 and later: the protocol, and the length of a first frame.
bool IsPickle(absl::string_view begin) {
  constexpr size_t kLength = 3;
  constexpr uint64_t kMostFrame = uint64_t{1} << 32;
  return begin.size() >= kLength + 8 &&
         (absl::StartsWith(begin, "\x80\x04\x95") || absl::StartsWith(begin, "\x80\x05\x95")) &&
         Take<uint64_t>(begin, kLength) < kMostFrame;
}

// The version after the magic tells the format from a text that begins with its name.
bool IsGguf(absl::string_view begin) {
  constexpr uint32_t kMostVersion = 100;
  return begin.size() >= 8 && absl::StartsWith(begin, "GGUF") &&
         Take<uint32_t>(begin, 4) < kMostVersion;
}

// Messages one after the other, without the magic number of a file, as data sets of Hugging Face
// are kept.
bool IsArrowStream(absl::string_view begin) {
  constexpr uint32_t kMostSchema = 1 << 20;
  if (begin.size() < 8 || Take<uint32_t>(begin, 0) != 0xffffffff) return false;
  const auto schema = Take<uint32_t>(begin, 4);
  return schema > 0 && schema < kMostSchema && schema % 8 == 0;
}

RecognizedFile Named(FileKind kind, absl::string_view name, absl::string_view advice,
                     bool certain = true) {
  return {kind, std::string(name), std::string(advice), certain};
}

// Of the formats of this file; kUnknown where it is none.
RecognizedFile ByMagic(absl::string_view begin) {
  if (begin.empty()) return Named(FileKind::kEmpty, "nothing: it is empty", "", /*certain=*/false);
  if (IsGzip(begin))
    return Named(FileKind::kGzip, "gzip compressed data", "unpack it with gunzip FILE");
  if (IsTorch(begin)) {
    return Named(FileKind::kTorch, "what torch.save wrote", "Python's torch.load reads it");
  }
  for (const Magic& magic : kMagics) {
    if (absl::StartsWith(begin, magic.bytes)) return Named(magic.kind, magic.name, magic.advice);
  }
  if (IsSkippableFrame(begin)) {
    return Named(FileKind::kZstandard, "Zstandard compressed data", "unpack it with unzstd FILE");
  }
  if (IsTfRecord(begin)) return Named(FileKind::kTfRecord, "TFRecord data", kInspect);
  if (IsIdx(begin)) return Named(FileKind::kIdx, "an IDX array", kInspect, /*certain=*/false);
  if (IsLlmCTokens(begin)) return Named(FileKind::kLlmCTokens, "tokens of llm.c", kInspect);
  if (IsLlmC(begin)) {
    return Named(FileKind::kForeign,
                 absl::StrCat("a file of llm.c's with the magic number ", Take<int32_t>(begin, 0),
                              ", which has no tokens"),
                 "");
  }
  if (IsSafetensors(begin)) {
    return Named(FileKind::kSafetensors, "weights in safetensors", "the model's import reads them");
  }
  if (IsGguf(begin)) return Named(FileKind::kGguf, "a GGUF file of llama.cpp", "");
  if (IsPickle(begin)) {
    return Named(FileKind::kForeign, "a pickle of Python", "Python's pickle.load reads it");
  }
  if (IsArrowStream(begin)) {
    return Named(FileKind::kForeign, "an Arrow stream", "Python's pyarrow.ipc reads it");
  }
  return {};
}

bool IsControl(uint8_t byte) {
  // Bell to carriage return, and escape, are in texts that terminals showed.
  return byte == 0x7f || (byte < 0x20 && (byte < 7 || byte > 13) && byte != 27);
}

// Whether bytes are a text whose characters take `Unit` each. Without a byte order mark there is no
// proof: they must have blanks or ends of lines, no controls, and half of the characters must be of
// one alphabet, so that numbers are not taken for text.
template <typename Unit>
bool IsWideText(absl::string_view begin, bool big_endian) {
  constexpr size_t kFewest = 4, kBlocks = 0x1100;
  constexpr uint32_t kSurrogates = 0xd8, kSurrogatesEnd = 0xe0;
  std::vector<size_t> of_block(kBlocks, 0);
  size_t units = 0, blanks = 0;
  for (size_t at = 0; at + sizeof(Unit) <= begin.size(); at += sizeof(Unit)) {
    uint32_t unit = 0;
    for (size_t i = 0; i < sizeof(Unit); ++i) {
      const size_t byte = big_endian ? sizeof(Unit) - 1 - i : i;
      unit |= uint32_t{static_cast<uint8_t>(begin[at + byte])} << (8 * i);
    }
    const uint32_t block = unit >> 8;
    const bool surrogate = block >= kSurrogates && block < kSurrogatesEnd;
    if (block >= kBlocks || (surrogate && sizeof(Unit) > 2)) return false;
    if (unit < 0x80 && IsControl(static_cast<uint8_t>(unit))) return false;
    ++units, ++of_block[block];
    blanks += unit == ' ' || unit == '\n' ? 1 : 0;
  }
  return units >= kFewest && blanks > 0 && 2 * *std::ranges::max_element(of_block) >= units;
}

RecognizedFile WideText(absl::string_view name) {
  return Named(FileKind::kForeign, absl::StrCat("text in ", name),
               absl::StrCat("convert it with iconv -f ", name, " -t UTF-8 FILE > NAME"));
}

// libmagic's words up to the first comma, behind which details follow; empty where it has none, or
// where its database is missing.
std::string DescriptionByLibmagic(absl::string_view begin) {
  const magic_t magic = magic_open(MAGIC_NONE);
  if (magic == nullptr) return {};
  std::string description;
  if (magic_load(magic, nullptr) == 0) {
    if (const char* const text = magic_buffer(magic, begin.data(), begin.size())) {
      description = PrintableLine(text);
    }
  }
  magic_close(magic);
  for (const char* wide : {"UTF-16", "UTF-32"}) {
    if (absl::StrContains(description, wide)) return wide;
  }
  return description.substr(0, description.find(','));
}

// Of bytes that are no text and of no format above.
RecognizedFile ByLibmagic(absl::string_view begin) {
  const std::string description = DescriptionByLibmagic(begin);
  if (absl::StartsWith(description, "UTF-")) return WideText(description);
  for (const Advice& known : kAdvice) {
    if (absl::StrContains(description, known.description)) {
      return Named(FileKind::kForeign, description, known.advice);
    }
  }
  const bool says_nothing =
      description.empty() || description == "data" || absl::EndsWith(description, "text");
  if (says_nothing) return {};
  return Named(FileKind::kForeign, description, "", /*certain=*/false);
}

RecognizedFile UnknownBytes(absl::string_view begin) {
  const auto at = std::ranges::find_if(begin, [](char c) { return IsControl(c); });
  std::string name = "bytes of no format that is known";
  if (at != begin.end()) {
    absl::StrAppendFormat(&name, ", with %02x at byte %d", static_cast<uint8_t>(*at),
                          at - begin.begin());
  }
  return Named(FileKind::kUnknown, name, "", /*certain=*/false);
}

}  // namespace

FileKind KindOfMagic(absl::string_view begin) { return ByMagic(begin).kind; }

bool IsText(absl::string_view begin) {
  constexpr size_t kCounted = 1 << 12, kLeastPerControl = 50;
  if (absl::StartsWith(begin, "\xff\xfe") || absl::StartsWith(begin, "\xfe\xff")) return false;
  if (std::memchr(begin.data(), 0, begin.size()) != nullptr) return false;
  const absl::string_view counted = begin.substr(0, kCounted);
  const auto controls = static_cast<size_t>(
      std::count_if(counted.begin(), counted.end(), [](char c) { return IsControl(c); }));
  return controls * kLeastPerControl <= counted.size();
}

RecognizedFile RecognizeBytes(absl::string_view begin) {
  begin = begin.substr(0, kRecognizedBytes);
  RecognizedFile file = ByMagic(begin);
  if (file.kind == FileKind::kZip) {
    // Documents and packages are Zip archives, too.
    const RecognizedFile named = ByLibmagic(begin);
    if (named.kind != FileKind::kUnknown) file.name = named.name, file.advice = named.advice;
  }
  if (file.kind != FileKind::kUnknown) return file;
  if (IsText(begin)) return Named(FileKind::kText, "text", "", /*certain=*/false);
  // libmagic knows these by their byte order marks only, which they need not have.
  if (IsWideText<uint16_t>(begin, false)) return WideText("UTF-16LE");
  if (IsWideText<uint16_t>(begin, true)) return WideText("UTF-16BE");
  if (IsWideText<uint32_t>(begin, false)) return WideText("UTF-32LE");
  if (IsWideText<uint32_t>(begin, true)) return WideText("UTF-32BE");
  file = ByLibmagic(begin);
  return file.kind == FileKind::kUnknown ? UnknownBytes(begin) : file;
}

std::string DescribeFile(const RecognizedFile& file, absl::string_view path) {
  const bool names_file = absl::StrContains(file.advice, "FILE");
  if (file.advice.empty() || (names_file && path.empty())) return file.name;
  return absl::StrCat(file.name, "; ", absl::StrReplaceAll(file.advice, {{"FILE", path}}));
}

absl::Status CheckText(absl::string_view path, absl::string_view begin) {
  const RecognizedFile file = RecognizeBytes(begin);
  if (file.kind == FileKind::kText || file.kind == FileKind::kEmpty) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data: ", path, ": expected text, got ", DescribeFile(file, path)));
}

std::string DescribeBegin(absl::string_view path, absl::string_view begin) {
  const RecognizedFile file = RecognizeBytes(begin);
  if (file.kind != FileKind::kUnknown) return DescribeFile(file, path);
  constexpr size_t kShown = 8;
  std::string shown = "the bytes";
  for (const char byte : begin.substr(0, kShown)) {
    absl::StrAppendFormat(&shown, " %02x", static_cast<uint8_t>(byte));
  }
  return shown;
}

absl::string_view PackedEnding(absl::string_view path) {
  for (const absl::string_view ending : kPackedEndings) {
    if (absl::EndsWith(path, ending)) return ending;
  }
  return {};
}

absl::Status CheckPackedName(absl::string_view path, absl::string_view begin) {
  const absl::string_view ending = PackedEnding(path);
  if (ending.empty()) return absl::OkStatus();
  const RecognizedFile file = RecognizeBytes(begin);
  const bool is_read = ending == ".gz" || ending == ".zst";
  if (IsPacked(file.kind) || (!is_read && file.kind != FileKind::kText)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected packed bytes, as ", ending, " in its name says, got ",
                   DescribeFile(file, path), "; a file that is not packed needs another name"));
}

}  // namespace sluice
