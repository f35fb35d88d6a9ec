#include "framework/data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/hash.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/data/file.h"
#include "framework/data/list_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHeldOutEvery = 10;
constexpr int64_t kMostFileBytes = 1 << 28;
constexpr int64_t kCostOfOpening = 1 << 16;  // bytes that one can read meanwhile

// Of the formats that DecodeImage knows; which of them a file has, its bytes say.
constexpr absl::string_view kEndings[] = {".jpg", ".jpeg", ".png", ".webp",
                                          ".gif", ".bmp",  ".tif", ".tiff"};

// In small letters; empty: there is none.
std::string EndingOf(const fs::path& path) {
  return absl::AsciiStrToLower(path.extension().string());
}

void LeaveOut(const fs::path& path, std::map<std::string, int64_t>* left_out) {
  const std::string ending = EndingOf(path);
  ++(*left_out)[ending.empty() ? "without an ending" : PrintableLine(ending)];
}

template <typename... Args>
absl::Status Refused(const fs::path& folder, const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat("data: ", folder.string(), ": ", what...));
}

absl::StatusOr<std::vector<std::string>> ClassesOf(const fs::path& folder) {
  ASSIGN_OR_RETURN(const auto entries, ListFolder(folder));
  std::vector<std::string> classes;
  std::error_code ignored;
  for (const fs::directory_entry& entry : entries) {
    if (entry.is_directory(ignored)) classes.push_back(entry.path().filename().string());
  }
  return classes;
}

// The pictures of a class, in folders below it too; links are followed to files, not to folders.
absl::Status ListPictures(const fs::path& folder, const fs::path& root, int32_t label,
                          std::map<std::string, int64_t>* left_out, std::vector<ImageFile>* files) {
  ASSIGN_OR_RETURN(const auto entries, ListFolder(folder));
  for (const fs::directory_entry& entry : entries) {
    std::error_code error;
    if (entry.is_directory(error) && !entry.is_symlink(error)) {
      RETURN_IF_ERROR(ListPictures(entry.path(), root, label, left_out, files));
    } else if (std::ranges::find(kEndings, EndingOf(entry.path())) == std::end(kEndings) ||
               !entry.is_regular_file(error)) {
      LeaveOut(entry.path(), left_out);
    } else {
      const uintmax_t bytes = entry.file_size(error);
      files->push_back({entry.path().lexically_relative(root).string(),
                        error ? 0 : static_cast<int64_t>(bytes), label});
    }
  }
  return absl::OkStatus();
}

// All pictures of the class folders of `part`, which lies in the root or is it.
absl::StatusOr<std::vector<ImageFile>> ListPart(const fs::path& part, ImageFolder* list) {
  ASSIGN_OR_RETURN(const std::vector<std::string> classes, ClassesOf(part));
  std::vector<ImageFile> files;
  for (const std::string& name : classes) {
    const auto found = std::lower_bound(list->classes.begin(), list->classes.end(), name);
    if (found == list->classes.end() || *found != name) {
      return Refused(part, "expected the classes of \"train\", got ", name);
    }
    const size_t before = files.size();
    const auto label = static_cast<int32_t>(found - list->classes.begin());
    std::map<std::string, int64_t> left_out;
    RETURN_IF_ERROR(ListPictures(part / name, list->path, label, &left_out, &files));
    if (files.size() == before) {
      return Refused(part / name, "expected files ", absl::StrJoin(kEndings, ", "),
                     " of this class, got ", left_out.empty() ? "none" : DescribeLeftOut(left_out));
    }
    for (const auto& [ending, count] : left_out) list->left_out[ending] += count;
  }
  return files;
}

}  // namespace

std::string DescribeLeftOut(const std::map<std::string, int64_t>& left_out) {
  constexpr size_t kNamed = 5;
  std::vector<std::pair<int64_t, std::string>> order;  // so that sorting puts the most first
  for (const auto& [ending, count] : left_out) order.emplace_back(-count, ending);
  std::ranges::sort(order);
  std::string text;
  int64_t others = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i >= kNamed) {
      others -= order[i].first;
    } else {
      absl::StrAppend(&text, i == 0 ? "" : ", ", -order[i].first, " ", order[i].second);
    }
  }
  return others == 0 ? text : absl::StrCat(text, ", ", others, " of other endings");
}

absl::StatusOr<ImageFolder> ListImageFolder(const std::string& path) {
  ImageFolder list;
  list.path = path;
  const fs::path root(path);
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    return absl::NotFoundError(absl::StrCat("data: expected a folder of class folders, got \"",
                                            path,
                                            "\": ", error ? error.message() : "not a folder"));
  }
  const bool parts =
      fs::is_directory(root / "train", error) && fs::is_directory(root / "val", error);
  const fs::path training = parts ? root / "train" : root;
  ASSIGN_OR_RETURN(list.classes, ClassesOf(training));
  if (list.classes.size() < 2) {
    return Refused(training, "expected a folder for each of two classes or more, got ",
                   list.classes.empty() ? "none" : absl::StrCat(list.classes[0], " alone"));
  }
  ASSIGN_OR_RETURN(list.training, ListPart(training, &list));
  if (parts) {
    ASSIGN_OR_RETURN(list.held_out, ListPart(root / "val", &list));
    return list;
  }
  const auto held_out = [](const ImageFile& file) {
    return StableHash(file.path) % kHeldOutEvery == 0;
  };
  std::copy_if(list.training.begin(), list.training.end(), std::back_inserter(list.held_out),
               held_out);
  list.training.erase(std::remove_if(list.training.begin(), list.training.end(), held_out),
                      list.training.end());
  return list;
}

DataParts FolderPhotos::Parts() const {
  DataParts parts;
  parts.cost_of_part = kCostOfOpening;
  StableHasher labels;
  for (const ImageFile& file : files_) {
    parts.sizes.push_back(file.bytes);
    labels.Add(int64_t{file.label});
  }
  parts.meaning = labels.digest();
  parts.read = [this](int64_t part, int64_t offset, int64_t size, char* to) -> absl::Status {
    ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(PathOf(part)));
    return file.ReadAt(offset, size, to);
  };
  return parts;
}

absl::Status FolderPhotos::Read(int64_t picture, std::string* bytes) const {
  const ImageFile& file = files_[picture];
  if (file.bytes > kMostFileBytes) {
    return absl::DataLossError(
        absl::StrCat("expected a file of at most ", kMostFileBytes, " bytes, got ", file.bytes));
  }
  return ReadFileInto(PathOf(picture), bytes);
}

}  // namespace sluice
