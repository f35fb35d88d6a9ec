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
// `text` is a name, or empty: then the format is that of the path's ending, and of what stands
// beside and in the file where an ending has several, as .bin has. InvalidArgument: a name or an
// ending of none.
absl::StatusOr<FileFormat> FileFormatOf(const std::string& path, absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TOOLS_FILE_FORMAT_H_
