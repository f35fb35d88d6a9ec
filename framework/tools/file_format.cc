#include "framework/tools/file_format.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/data/file_kind.h"
#include "framework/data/megatron_index.h"
#include "framework/data/packed.h"
#include "framework/data/record_parts.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kNames[] = {"tfrecord", "ofrecord", "recordio", "npy",     "npz",
                                        "idx",      "csv",      "tsv",      "hugectr", "nanogpt",
                                        "llm.c",    "megatron", "text",     "images"};

// The formats that names say, without .gz or .zst.
constexpr std::pair<absl::string_view, FileFormat> kEndings[] = {
    {".rec", FileFormat::kRecordIo},   {".npy", FileFormat::kNpy},
    {".npz", FileFormat::kNpz},        {"-ubyte", FileFormat::kIdx},
    {".idx", FileFormat::kIdx},        {".csv", FileFormat::kCsv},
    {".tsv", FileFormat::kTsv},        {".tab", FileFormat::kTsv},
    {".raw", FileFormat::kHugeCtrRaw}, {".txt", FileFormat::kText},
    {".bin", FileFormat::kNanoGpt}};

std::string AllNames() { return absl::StrJoin(kNames, ", "); }

absl::StatusOr<FileFormat> ParseName(absl::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<FileFormat>(i);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected a format of ", AllNames(), ", got ", name));
}

std::optional<FileFormat> OfEnding(absl::string_view path) {
  const auto framing = FramingOfName(path);
  if (framing.ok()) {
    return *framing == Framing::kTfRecord ? FileFormat::kTfRecord : FileFormat::kOfRecord;
  }
  const absl::string_view name = absl::StripSuffix(path, PackedEnding(path));
  for (const auto& [ending, format] : kEndings) {
    if (absl::EndsWith(name, ending)) return format;
  }
  return std::nullopt;
}

bool IsOfText(FileFormat format) {
  return format == FileFormat::kCsv || format == FileFormat::kTsv || format == FileFormat::kText;
}

absl::Status NoFormat(absl::string_view path, absl::string_view flag, absl::string_view got) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a file or a name of a format that is known here, got ", got,
                   "; ", flag, " may be one of ", AllNames()));
}

// Of bytes that say it; nullopt where the name must.
std::optional<FileFormat> OfKind(FileKind kind) {
  switch (kind) {
    case FileKind::kNpy:
      return FileFormat::kNpy;
    case FileKind::kTfRecord:
      return FileFormat::kTfRecord;
    case FileKind::kRecordIo:
      return FileFormat::kRecordIo;
    case FileKind::kLlmCTokens:
      return FileFormat::kLlmC;
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::string_view FileFormatName(FileFormat format) { return kNames[static_cast<int>(format)]; }

absl::StatusOr<FileFormat> FormatOfNewFile(const std::string& path, absl::string_view name) {
  if (!name.empty()) return ParseName(name);
  std::error_code error;
  if (fs::is_directory(path, error)) return FileFormat::kImageFolder;
  if (const auto format = OfEnding(path)) return *format;
  return NoFormat(path, "--to", "another ending");
}

absl::StatusOr<FileFormat> FormatOfFile(const std::string& path, absl::string_view name) {
  if (!name.empty()) return ParseName(name);
  std::error_code error;
  if (fs::is_directory(path, error)) return FileFormat::kImageFolder;
  ASSIGN_OR_RETURN(const std::string begin, ReadUnpackedBegin(path, kRecognizedBytes));
  const RecognizedFile file = RecognizeBytes(begin);
  const std::optional<FileFormat> ending = OfEnding(path);
  if (const auto format = OfKind(file.kind)) return *format;
  if (file.kind == FileKind::kText)
    return ending && IsOfText(*ending) ? *ending : FileFormat::kText;
  const bool is_npz = file.kind == FileKind::kZip && ending == FileFormat::kNpz;
  if (file.certain && !is_npz) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected a format that is read here, got ", DescribeFile(file, path)));
  }
  if (!ending) return NoFormat(path, "--format", DescribeFile(file, path));
  // Tokens, or by --format HugeCTR's samples, which have nothing to know them by.
  const bool has_index = fs::exists(MegatronIndexPath(path), error);
  if (ending == FileFormat::kNanoGpt && has_index) return FileFormat::kMegatron;
  return *ending;
}

}  // namespace sluice
