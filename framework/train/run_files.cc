#include "framework/train/run_files.h"

#include <filesystem>
#include <system_error>

#include "framework/base/status.h"
#include "framework/checkpoint/file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kCheckpoints[] = "checkpoints";

// Without a slash at its end.
fs::path Tidy(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

}  // namespace

std::string FolderAroundCheckpoint(const std::string& checkpoint) {
  const fs::path named = Tidy(checkpoint).parent_path();
  if (named.filename() == kCheckpoints) return named.string();
  // "step-000004" in the present folder, ".", or a link.
  std::error_code error;
  const fs::path real =
      Tidy(fs::weakly_canonical(fs::absolute(checkpoint, error), error)).parent_path();
  if (real.filename() == kCheckpoints) return real.string();
  return named.empty() ? "." : named.string();
}

std::string RunFolderOf(const std::string& checkpoint) {
  const fs::path folder = FolderAroundCheckpoint(checkpoint);
  if (folder.filename() != kCheckpoints) return folder.string();
  return folder.has_parent_path() ? folder.parent_path().string() : ".";
}

absl::Status WriteRunFile(const std::string& path, absl::string_view text) {
  const std::string beside = path + ".tmp";
  RETURN_IF_ERROR(RemoveTree(beside));  // in a folder from anywhere it may be a link to any file
  ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Create(beside));
  RETURN_IF_ERROR(writer.Append(text));
  RETURN_IF_ERROR(writer.Close());
  return Rename(beside, path);
}

}  // namespace sluice
