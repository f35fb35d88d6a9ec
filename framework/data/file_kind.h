// Recognizes what a file is from its first bytes, whatever its name says. Every reader of data asks
// here, and so do `inspect` and `convert`. Any thread; no state.
#ifndef SLUICE_FRAMEWORK_DATA_FILE_KIND_H_
#define SLUICE_FRAMEWORK_DATA_FILE_KIND_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

enum class FileKind : uint8_t {
  kEmpty,
  kText,  // ASCII, UTF-8 or an encoding of 8 bits a character
  // Formats that readers of this package open.
  kGzip,
  kZstandard,
  kNpy,
  kZip,
  kIdx,
  kTfRecord,
  kRecordIo,
  kLlmCTokens,
  // Weights, which models import or which other programs convert.
  kSafetensors,
  kTorch,
  kHdf5,
  kGguf,
  // A format that has a name and no reader here, such as Parquet, or text in UTF-16.
  kForeign,
  kUnknown,
};

struct RecognizedFile {
  FileKind kind = FileKind::kUnknown;
  std::string name;    // for people, as it follows "got": "bzip2 compressed data"
  std::string advice;  // what makes it readable; FILE stands for its path; may be empty
  // True if at least four bytes of the format are fixed. A file without a header of its own, such
  // as raw numbers, may look like one of the other formats by chance.
  bool certain = false;

  // Returns whether this is surely no file of numbers without a header.
  bool IsOtherThanNumbers() const { return certain || kind == FileKind::kText; }
};

// RecognizeBytes needs no more than so many bytes of a file.
constexpr int64_t kRecognizedBytes = int64_t{1} << 16;

// Returns the kind of the packed formats, of those that are read here and of a few others, by their
// magic numbers alone: kUnknown for text and all else. Takes well under a microsecond.
FileKind KindOfMagic(absl::string_view begin);

// Returns whether bytes of no other format are those of a text: without NUL, and with hardly any
// other control character. Takes some microseconds.
bool IsText(absl::string_view begin);

// Recognizes a file by its first bytes: kRecognizedBytes of them, or all that it has. Takes some
// microseconds for text, and milliseconds for what libmagic has to name.
RecognizedFile RecognizeBytes(absl::string_view begin);

// Returns what follows "got" in an error about a file: its name and the advice for this path. An
// empty path stands for bytes that are in no file of their own, or in one that the caller names:
// advice that would name the file is left out then.
std::string DescribeFile(const RecognizedFile& file, absl::string_view path);

// InvalidArgument, naming `path`, where a file that begins so is no text; `begin` as above.
absl::Status CheckText(absl::string_view path, absl::string_view begin);

// Returns what follows "got" in an error about a file, found at `path`, that does not begin as
// expected: what it is or, if nobody knows, its first bytes. `path` may be empty, as above.
std::string DescribeBegin(absl::string_view path, absl::string_view begin);

// Returns whether gzip or zstd has packed a file of this kind, which readers unpack.
inline bool IsPacked(FileKind kind) {
  return kind == FileKind::kGzip || kind == FileKind::kZstandard;
}

// Returns the ending of a name that says that some program has packed the file (.gz, .bz2, .zip,
// ..), or nothing.
absl::string_view PackedEnding(absl::string_view path);

// InvalidArgument, without the path, where the name says so and the bytes do not: `begin` as above.
// A file of a program whose format is not read here passes.
absl::Status CheckPackedName(absl::string_view path, absl::string_view begin);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_FILE_KIND_H_
