#include "framework/data/text_corpus.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHeldOutEvery = 10;

absl::Status ListFiles(const fs::path& folder, const SkipFolder& skip,
                       std::vector<std::string>* paths) {
  std::error_code error;
  fs::directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name[0] == '.') continue;
    const fs::file_status status = it->status(error);
    if (error) break;
    if (fs::is_directory(status) && !it->is_symlink(error)) {
      if (skip && skip(it->path().string())) continue;
      RETURN_IF_ERROR(ListFiles(it->path(), skip, paths));
    } else if (fs::is_regular_file(status)) {
      paths->push_back(it->path().string());
    }
  }
  if (!error) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("data: cannot read folder ", folder.string(), ": ", error.message()));
}

absl::StatusOr<TextCorpus> ReadFiles(const std::vector<std::string>& paths,
                                     const std::string& root) {
  std::vector<TextFile> files;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(std::string bytes, ReadFile((fs::path(root) / path).string()));
    files.push_back({path, std::move(bytes)});
  }
  return SplitCorpus(std::move(files));
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  auto failed = [&path] {
    const int code = errno;
    const std::string message = absl::StrCat("data: cannot read ", path, ": ", strerror(code));
    return code == ENOENT ? absl::NotFoundError(message) : absl::PermissionDeniedError(message);
  };
  FILE* file = fopen(path.c_str(), "rb");
  if (file == nullptr) return failed();
  std::string bytes;
  char buffer[1 << 16];
  size_t count;
  while ((count = fread(buffer, 1, sizeof(buffer), file)) > 0) bytes.append(buffer, count);
  const bool bad = ferror(file) != 0;
  absl::Status status = bad ? failed() : absl::OkStatus();
  fclose(file);
  if (bad) return status;
  return bytes;
}

TextCorpus SplitCorpus(std::vector<TextFile> files) {
  std::sort(files.begin(), files.end(),
            [](const TextFile& a, const TextFile& b) { return a.path < b.path; });
  TextCorpus corpus;
  StableHasher hasher;
  for (const TextFile& file : files) {
    hasher.Add(file.path).Add(file.bytes);
    const bool held_out = StableHash(file.path) % kHeldOutEvery == 0;
    (held_out ? corpus.held_out : corpus.training) += file.bytes;
    ++(held_out ? corpus.held_out_files : corpus.training_files);
  }
  corpus.digest = hasher.digest();
  if (corpus.training.empty() || corpus.held_out.empty()) {
    std::string all;
    for (const TextFile& file : files) all += file.bytes;
    const size_t cut = all.size() - all.size() / kHeldOutEvery;
    corpus.training = all.substr(0, cut);
    corpus.held_out = all.substr(cut);
    corpus.training_files = static_cast<int64_t>(files.size());
    corpus.held_out_files = 0;
  }
  return corpus;
}

absl::StatusOr<TextCorpus> ReadTextCorpus(const std::string& path, const SkipFolder& skip) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return absl::NotFoundError(
        absl::StrCat("data: expected a file or a folder of text, got \"", path,
                     "\": ", error ? error.message() : "No such file or directory"));
  }
  TextCorpus corpus;
  if (fs::is_directory(status)) {
    std::vector<std::string> paths;
    RETURN_IF_ERROR(ListFiles(path, skip, &paths));
    for (std::string& file : paths) file = fs::path(file).lexically_relative(path).string();
    ASSIGN_OR_RETURN(corpus, ReadFiles(paths, path));
  } else if (fs::is_regular_file(status)) {
    ASSIGN_OR_RETURN(corpus, ReadFiles({fs::path(path).filename().string()},
                                       fs::path(path).parent_path().string()));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("data: expected a file or a folder of text, ", path, " is neither"));
  }
  if (corpus.training.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: expected text, but ", path,
                     fs::is_directory(status) ? " holds no file with text" : " is empty"));
  }
  return corpus;
}

absl::StatusOr<TextCorpus> ReadPackedCorpus(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string packed, ReadFile(path));
  std::vector<TextFile> files;
  for (size_t at = 0; at < packed.size();) {
    const size_t end = std::min(packed.find('\n', at), packed.size());
    const absl::string_view line(packed.data() + at, end - at);
    const size_t blank = line.rfind(' ');
    uint64_t size = 0;
    if (blank == absl::string_view::npos || !absl::SimpleAtoi(line.substr(blank + 1), &size) ||
        size > packed.size() - std::min(end + 1, packed.size())) {
      return absl::DataLossError(absl::StrCat("data: ", path, ", byte ", at,
                                              ": expected a line \"path bytes\" and the bytes"));
    }
    files.push_back({std::string(line.substr(0, blank)), packed.substr(end + 1, size)});
    at = end + 1 + size;
  }
  return SplitCorpus(std::move(files));
}

double BigramLoss(absl::string_view training, absl::string_view held_out) {
  constexpr int kBytes = 256;
  std::vector<int64_t> pairs(kBytes * kBytes, 1), firsts(kBytes, kBytes);
  for (size_t i = 1; i < training.size(); ++i) {
    const uint8_t a = training[i - 1], b = training[i];
    ++pairs[a * kBytes + b];
    ++firsts[a];
  }
  if (held_out.size() < 2) return 0;
  double loss = 0;
  for (size_t i = 1; i < held_out.size(); ++i) {
    const uint8_t a = held_out[i - 1], b = held_out[i];
    loss -= std::log(static_cast<double>(pairs[a * kBytes + b]) / firsts[a]);
  }
  return loss / static_cast<double>(held_out.size() - 1);
}

}  // namespace sluice
