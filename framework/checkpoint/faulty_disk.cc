#include "framework/checkpoint/faulty_disk.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/log.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool NeedsRoom(FileCall call) {
  return call == FileCall::kMakeDirectory || call == FileCall::kOpen || call == FileCall::kWrite;
}

// Where what was at or below `from` is after it was renamed to `to`.
void Follow(const std::string& from, const std::string& to, std::string* path) {
  if (*path == from || absl::StartsWith(*path, from + "/")) *path = to + path->substr(from.size());
}

std::string ParentOf(const std::string& path) { return fs::path(path).parent_path().string(); }

}  // namespace

int FaultyDisk::Before(FileOperation* operation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool strikes = fault_ != DiskFault::kNone && calls_ == at_;
  const bool lasts = fault_ == DiskFault::kFull || fault_ == DiskFault::kDead;
  ++calls_;
  int error = 0;
  if (strikes) {
    struck_ = true;
    error = Strike(operation);
  } else if (struck_ && lasts) {
    error = fault_ == DiskFault::kDead ? EIO : NeedsRoom(operation->call) ? ENOSPC : 0;
  }
  if (error != 0 && failed_path_.empty()) failed_path_ = operation->path;
  if (error == 0) Note(*operation);
  return error;
}

int FaultyDisk::Strike(FileOperation* operation) {
  const bool halves = operation->call == FileCall::kWrite && operation->size > 1;
  switch (fault_) {
    case DiskFault::kNone:
      return 0;
    case DiskFault::kKillTorn:
    case DiskFault::kKill:
      if (fault_ == DiskFault::kKillTorn && halves) {
        // Neither the writer's descriptor nor its bytes are known here: zeros stand for them.
        fs::resize_file(operation->path, fs::file_size(operation->path) + operation->size / 2);
      }
      kill(getpid(), SIGKILL);
      return EIO;
    case DiskFault::kFullOnce:
      return ENOSPC;
    case DiskFault::kErrorOnce:
    case DiskFault::kDead:
      return EIO;
    case DiskFault::kShort:
    case DiskFault::kFull:
      if (halves) operation->size /= 2;
      if (halves || fault_ == DiskFault::kShort) return 0;
      return NeedsRoom(operation->call) ? ENOSPC : 0;
  }
  return 0;
}

// What is asked for is taken as done: a call that the system itself refuses ends the test anyway.
void FaultyDisk::Note(const FileOperation& o) {
  switch (o.call) {
    case FileCall::kMakeDirectory:
      names_.push_back({o.call, o.path, ""});
      break;
    case FileCall::kOpen:
      if (!fs::exists(o.path)) names_.push_back({o.call, o.path, ""});
      files_[o.path] = false;
      break;
    case FileCall::kWrite:
      files_[o.path] = false;
      break;
    case FileCall::kSync: {
      const auto file = files_.find(o.path);
      if (file != files_.end()) file->second = true;
      names_.erase(std::remove_if(names_.begin(), names_.end(),
                                  [&](const NameChange& n) { return ParentOf(n.path) == o.path; }),
                   names_.end());
      break;
    }
    case FileCall::kClose:
      break;
    case FileCall::kRename:
    case FileCall::kExchange: {
      const bool both = o.call == FileCall::kExchange;
      const std::string aside = o.to + ".exchanged";
      std::map<std::string, bool> files;
      for (const auto& file : files_) {
        std::string path = file.first;
        if (both) Follow(o.to, aside, &path);
        Follow(o.path, o.to, &path);
        if (both) Follow(aside, o.path, &path);
        files[path] = file.second;
      }
      files_ = std::move(files);
      for (NameChange& name : names_) {
        if (name.call == FileCall::kRename || name.call == FileCall::kExchange) continue;
        if (both) Follow(o.to, aside, &name.path);
        Follow(o.path, o.to, &name.path);
        if (both) Follow(aside, o.path, &name.path);
      }
      names_.push_back({o.call, o.path, o.to});
      break;
    }
    case FileCall::kRemoveFile:
      files_.erase(o.path);
      break;
    case FileCall::kRemoveDirectory:
      break;
  }
}

void FaultyDisk::LosePower() {
  std::error_code error;
  for (const auto& file : files_) {
    if (file.second) continue;
    const auto size = fs::file_size(file.first, error);
    if (!error) fs::resize_file(file.first, size / 2, error);
  }
  for (auto name = names_.rbegin(); name != names_.rend(); ++name) {
    if (name->call == FileCall::kRename) {
      fs::rename(name->to, name->path, error);
    } else if (name->call == FileCall::kExchange) {
      const std::string aside = name->to + ".exchanged";
      fs::rename(name->to, aside, error);
      fs::rename(name->path, name->to, error);
      fs::rename(aside, name->path, error);
    } else {
      fs::remove_all(name->path, error);
    }
  }
  files_.clear();
  names_.clear();
}

}  // namespace sluice
