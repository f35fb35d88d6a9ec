#include "models/bert/class_names.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/data/text_file.h"
#include "framework/train/paths.h"
#include "framework/train/run_files.h"

namespace sluice {

std::string ClassNamesText(absl::Span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) absl::StrAppend(&text, name, "\n");
  return text;
}

absl::StatusOr<std::vector<std::string>> ClassNamesOf(const std::string& checkpoint) {
  constexpr int64_t kLimit = 64 << 20;  // bytes
  const std::string path = PathIn(RunFolderOf(checkpoint), kClassNamesFile);
  if (!PathExists(path)) return std::vector<std::string>();
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, kLimit));
  std::vector<std::string> names = absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  for (size_t i = 0; i < names.size(); ++i) {
    RETURN_IF_ERROR(
        CheckUtf8(absl::StrCat(path, ", line ", i + 1), "the name of a class", names[i]));
  }
  return names;
}

}  // namespace sluice
