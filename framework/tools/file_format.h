// Which format a file of data has, of all that are read here. Any thread; no state.
#ifndef SLUICE_FRAMEWORK_TOOLS_FILE_FORMAT_H_
#define SLUICE_FRAMEWORK_TOOLS_FILE_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

enum class FileFormat : uint8_t {
  kTfRecord,
  kOfRecord,
  kRecordIo,
  kNpy,
  kNpz,
  kIdx,  // arrays
  kCsv,
  kTsv,
  kHugeCtrRaw,  // tables
  kNanoGpt,
  kLlmC,
  kMegatron,  // tokens
  kText,
  kImageFolder,
};

// "tfrecord", "ofrecord", "recordio", "npy", "npz", "idx", "csv", "tsv", "hugectr", "nanogpt",
// "llm.c", "megatron", "text", "images".
absl::string_view FileFormatName(FileFormat format);
// Returns the format of a file, or of a folder: by its bytes (file_kind.h) or, if these have no
// header, by the ending of its name. `name` is one of the names above, which is then the format, or
// empty. InvalidArgument: no such name, a format that is not read here, bytes and an ending that
// say nothing.
absl::StatusOr<FileFormat> FormatOfFile(const std::string& path, absl::string_view name);
// Returns the format of a file that is to be written, by the ending of its name.
absl::StatusOr<FileFormat> FormatOfNewFile(const std::string& path, absl::string_view name);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TOOLS_FILE_FORMAT_H_
