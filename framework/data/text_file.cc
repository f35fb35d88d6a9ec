#include "framework/data/text_file.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/data/file.h"
#include "framework/data/file_kind.h"
#include "framework/data/packed.h"

namespace sluice {

absl::Status BeginText(absl::string_view path, std::string* text) {
  constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";
  RETURN_IF_ERROR(CheckText(path, *text));
  if (absl::StartsWith(*text, kByteOrderMark)) text->erase(0, kByteOrderMark.size());
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAnyBytes(const std::string& path) {
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  if (!IsPacked(KindOfMagic(bytes))) return bytes;
  return Unpack(absl::StrCat("data: ", path), bytes);
}

absl::Status CheckUtf8(absl::string_view where, absl::string_view what, absl::string_view text) {
  if (IsUtf8(text)) return absl::OkStatus();
  constexpr size_t kMost = 40;
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": expected ", what, " in UTF-8, got \"",
                   PrintableLine(text.substr(0, kMost)), text.size() > kMost ? ".." : "",
                   "\"; iconv -f ISO-8859-1 -t UTF-8 converts the file if it is in Latin-1"));
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  if (IsPacked(KindOfMagic(text))) {
    ASSIGN_OR_RETURN(text, Unpack(absl::StrCat("data: ", path), text));
  } else {
    RETURN_IF_ERROR(AddContext(CheckPackedName(path, text), absl::StrCat("data: ", path)));
  }
  RETURN_IF_ERROR(BeginText(path, &text));
  return text;
}

}  // namespace sluice
