#include "framework/data/list_folder.h"

#include <algorithm>
#include <system_error>

#include "framework/data/file.h"

namespace sluice {

namespace fs = std::filesystem;

absl::StatusOr<std::vector<fs::directory_entry>> ListFolder(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  fs::directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    if (it->path().filename().native()[0] != '.') entries.push_back(*it);
  }
  if (error) return CannotRead(folder.string(), error.value());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace sluice
