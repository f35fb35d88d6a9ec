#include "framework/tools/file_format.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/data/record_parts.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kNames[] = {"tfrecord", "ofrecord", "recordio", "npy",     "npz",
                                        "idx",      "csv",      "tsv",      "hugectr", "nanogpt",
                                        "llm.c",    "megatron", "text",     "images"};

// A .bin is of tokens or, by --format alone, of HugeCTR's, which has nothing to know it by.
FileFormat OfBin(const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::path(path).replace_extension(".idx"), error)) return FileFormat::kMegatron;
  const std::string magic("\xc8\xd9\x34\x01", 4);  // 20240520
  std::string begin(magic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<int64_t>(begin.size()));
  return begin == magic ? FileFormat::kLlmC : FileFormat::kNanoGpt;
}

}  // namespace

absl::string_view FileFormatName(FileFormat format) { return kNames[static_cast<int>(format)]; }

absl::StatusOr<FileFormat> FileFormatOf(const std::string& path, absl::string_view text) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == text) return static_cast<FileFormat>(i);
  }
  std::string names;
  for (const absl::string_view name : kNames)
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  if (!text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("expected a format of ", names, ", got ", text));
  }
  std::error_code error;
  if (fs::is_directory(path, error)) return FileFormat::kImageFolder;
  const auto framing = FramingOfName(path);
  if (framing.ok()) {
    return *framing == Framing::kTfRecord ? FileFormat::kTfRecord : FileFormat::kOfRecord;
  }
  absl::string_view name = path;
  absl::ConsumeSuffix(&name, ".gz") || absl::ConsumeSuffix(&name, ".zst");
  constexpr std::pair<absl::string_view, FileFormat> kEndings[] = {
      {".rec", FileFormat::kRecordIo},   {".npy", FileFormat::kNpy},
      {".npz", FileFormat::kNpz},        {"-ubyte", FileFormat::kIdx},
      {".idx", FileFormat::kIdx},        {".csv", FileFormat::kCsv},
      {".tsv", FileFormat::kTsv},        {".tab", FileFormat::kTsv},
      {".raw", FileFormat::kHugeCtrRaw}, {".txt", FileFormat::kText}};
  for (const auto& [ending, format] : kEndings) {
    if (absl::EndsWith(name, ending)) return format;
  }
  if (absl::EndsWith(name, ".bin")) return OfBin(path);
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a name whose ending says the format, or --format of ", names));
}

}  // namespace sluice
