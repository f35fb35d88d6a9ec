#include "framework/data/text_corpus.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/data/file.h"
#include "framework/data/file_kind.h"
#include "framework/data/text_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHeldOutEvery = 10;
// An error looks at no more of a folder's files than so many, because a folder may have millions.
constexpr size_t kMostExamined = 1000;

absl::Status ListFiles(const fs::path& folder, const SkipFolder& skip,
                       std::vector<std::string>* paths) {
  std::error_code error;
  fs::directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string(), path = it->path().string();
    if (name[0] == '.') continue;
    std::error_code unread, ignored;
    const fs::file_status status = it->status(unread);
    const bool link = it->is_symlink(ignored);
    if (unread && link) {
      // Folders of text often have some, and what was read is recorded by its digest.
      SLUICE_LOG(WARNING) << "data: the link " << path << " is left out: " << unread.message();
      continue;
    }
    if (unread) return CannotRead(path, unread.value());
    if (fs::is_directory(status) && !link) {
      if (skip && skip(path)) continue;
      RETURN_IF_ERROR(ListFiles(it->path(), skip, paths));
    } else if (fs::is_regular_file(status)) {
      paths->push_back(path);
    }
  }
  if (!error) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("data: cannot read folder ", folder.string(), ": ", error.message()));
}

// That there is memory for the files, which are there twice for a moment: as files, and as parts of
// what is learned and what is held out.
absl::Status CheckMemory(const std::vector<std::string>& paths, const std::string& whole) {
  double bytes = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const uintmax_t size = fs::file_size(path, error);
    if (!error) bytes += static_cast<double>(size);  // else reading it tells why
  }
  const MemoryLimits limits = ReadMemoryLimits();
  if (limits.most == 0 || 2 * bytes <= static_cast<double>(limits.available)) {
    return absl::OkStatus();
  }
  constexpr double kMiB = 1 << 20;
  return absl::ResourceExhaustedError(absl::StrFormat(
      "data: %s is %.0f MiB, and reading it takes twice that; expected at most the %.0f MiB that "
      "are left of the %.0f MiB of %s",
      whole, bytes / kMiB, static_cast<double>(limits.available) / kMiB,
      static_cast<double>(limits.most) / kMiB, limits.source));
}

absl::StatusOr<std::string> BeginOf(const std::string& path) {
  ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  return ReadBegin(file, kRecognizedBytes);
}

// InvalidArgument where a file is no text. One that is packed passes, as it is not unpacked here.
absl::Status CheckBegin(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string begin, BeginOf(path));
  return IsPacked(KindOfMagic(begin)) ? absl::OkStatus() : CheckText(path, begin);
}

// Returns whether CheckBegin finds that a file is no text. Does not name what it is instead, which
// takes milliseconds a file.
bool IsNoText(const std::string& path) {
  const absl::StatusOr<std::string> begin = BeginOf(path);
  if (!begin.ok()) return false;
  const FileKind kind = KindOfMagic(*begin);
  if (kind == FileKind::kEmpty || IsPacked(kind)) return false;
  return kind != FileKind::kUnknown || !IsText(*begin);
}

// Says how many of the files after the first of `paths` are no text either. Looks at kMostExamined
// of them.
std::string OthersThatAreNoText(absl::Span<const std::string> paths) {
  const absl::Span<const std::string> examined = paths.subspan(1, kMostExamined);
  const int64_t others = std::count_if(examined.begin(), examined.end(), IsNoText);
  if (others == 0) return "";
  if (examined.size() + 1 < paths.size()) {
    return absl::StrCat("; of the next ", kMostExamined, " files of the folder, ", others,
                        others == 1 ? " is" : " are", " no text either");
  }
  if (others == 1) return "; another file of the folder is no text either";
  return absl::StrCat("; ", others, " other files of the folder are no text either");
}

// Ends the error that the first of `paths` is no text: with how many of the others are none, and
// with the advice.
absl::Status EndError(const absl::Status& status, absl::Span<const std::string> paths,
                      const TextCorpusOptions& options) {
  if (!absl::IsInvalidArgument(status)) return status;
  return absl::InvalidArgumentError(absl::StrCat(status.message(), OthersThatAreNoText(paths),
                                                 options.advice.empty() ? "" : "; ",
                                                 options.advice));
}

absl::StatusOr<TextCorpus> ReadFiles(const std::vector<std::string>& names, const std::string& root,
                                     const std::string& whole, const TextCorpusOptions& options) {
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back((fs::path(root) / name).string());
  const auto from = [&](size_t i) { return absl::MakeConstSpan(paths).subspan(i); };
  if (const absl::Status memory = CheckMemory(paths, whole); !memory.ok()) {
    // No memory helps a file that is no text.
    const size_t examined = options.any_bytes ? 0 : std::min(paths.size(), kMostExamined);
    for (size_t i = 0; i < examined; ++i) {
      RETURN_IF_ERROR(EndError(CheckBegin(paths[i]), from(i), options));
    }
    return memory;
  }
  std::vector<TextFile> files;
  for (size_t i = 0; i < paths.size(); ++i) {
    absl::StatusOr<std::string> bytes =
        options.any_bytes ? ReadAnyBytes(paths[i]) : ReadTextFile(paths[i]);
    if (!bytes.ok()) return EndError(bytes.status(), from(i), options);
    files.push_back({names[i], *std::move(bytes)});
  }
  return SplitCorpus(std::move(files));
}

}  // namespace

TextCorpus SplitCorpus(std::vector<TextFile> files) {
  std::sort(files.begin(), files.end(),
            [](const TextFile& a, const TextFile& b) { return a.path < b.path; });
  TextCorpus corpus;
  StableHasher hasher;
  const auto is_held_out = [](const TextFile& file) {
    return StableHash(file.path) % kHeldOutEvery == 0;
  };
  size_t training = 0, held_out = 0;
  for (const TextFile& file : files) (is_held_out(file) ? held_out : training) += file.bytes.size();
  corpus.training.reserve(training);
  corpus.held_out.reserve(held_out);
  for (TextFile& file : files) {
    hasher.Add(file.path).Add(file.bytes);
    (is_held_out(file) ? corpus.held_out : corpus.training) += file.bytes;
    ++(is_held_out(file) ? corpus.held_out_files : corpus.training_files);
    file.bytes = std::string();  // so that no byte is there twice for long
  }
  corpus.digest = hasher.digest();
  if (corpus.training.empty() || corpus.held_out.empty()) {
    if (corpus.training.empty()) corpus.training.swap(corpus.held_out);  // then that is all of it
    const size_t cut = corpus.training.size() - corpus.training.size() / kHeldOutEvery;
    corpus.held_out = corpus.training.substr(cut);
    corpus.training.resize(cut);
    corpus.training_files = static_cast<int64_t>(files.size());
    corpus.held_out_files = 0;
  }
  return corpus;
}

absl::StatusOr<TextCorpus> ReadTextCorpus(const std::string& path,
                                          const TextCorpusOptions& options) {
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
    RETURN_IF_ERROR(ListFiles(path, options.skip, &paths));
    for (std::string& file : paths) file = fs::path(file).lexically_relative(path).string();
    ASSIGN_OR_RETURN(corpus, ReadFiles(paths, path, path, options));
  } else if (fs::is_regular_file(status)) {
    ASSIGN_OR_RETURN(corpus, ReadFiles({fs::path(path).filename().string()},
                                       fs::path(path).parent_path().string(), path, options));
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
