// Files of text, read whole. Any thread; no state.
#ifndef SLUICE_FRAMEWORK_DATA_TEXT_FILE_H_
#define SLUICE_FRAMEWORK_DATA_TEXT_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Begins to read a text, of which `*text` is the first part, at least kRecognizedBytes of
// file_kind.h or all of it, and comes from `path`. Removes UTF-8's byte order mark, which some
// programs put before a text and which is not part of it. InvalidArgument, naming what the file is,
// where it is no text.
absl::Status BeginText(absl::string_view path, std::string* text);

// InvalidArgument where a part of a text is not in UTF-8, such as a name that is written to files
// of JSON. `where` begins the error, and `what` says what is expected there: "a label".
absl::Status CheckUtf8(absl::string_view where, absl::string_view what, absl::string_view text);

// Returns the text of a file without its byte order mark. A file that gzip or zstd has packed is
// unpacked, whatever its name says. InvalidArgument: what the file is instead of text, or that its
// name says that it is packed and it is not. ResourceExhausted as Unpack of packed.h.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// Returns the bytes of a file, which may be any. One that gzip or zstd has packed is unpacked.
absl::StatusOr<std::string> ReadAnyBytes(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TEXT_FILE_H_
