#include "framework/data/image_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/data/file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHeldOutEvery = 10;
constexpr int64_t kCheckedFirst = 256;  // files
constexpr int64_t kDamagedOf = 100;     // one in as many may be
constexpr int64_t kNamed = 3;           // of those that are
constexpr int kGray = 128;              // what is seen instead
constexpr int64_t kMostFileBytes = 1 << 28;

bool IsPicture(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return absl::EndsWith(lower, ".jpg") || absl::EndsWith(lower, ".jpeg") ||
         absl::EndsWith(lower, ".png");
}

template <typename... Args>
absl::Status Refused(const fs::path& folder, const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat("data: ", folder.string(), ": ", what...));
}

// What a folder holds but for hidden names, in order.
absl::StatusOr<std::vector<fs::directory_entry>> EntriesOf(const fs::path& folder) {
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

absl::StatusOr<std::vector<std::string>> ClassesOf(const fs::path& folder) {
  ASSIGN_OR_RETURN(const auto entries, EntriesOf(folder));
  std::vector<std::string> classes;
  std::error_code ignored;
  for (const fs::directory_entry& entry : entries) {
    if (entry.is_directory(ignored)) classes.push_back(entry.path().filename().string());
  }
  return classes;
}

// The pictures of a class, in folders below it too; links are followed to files, not to folders.
absl::Status ListPictures(const fs::path& folder, const fs::path& root, int32_t label,
                          ImageFolder* list, std::vector<ImageFile>* files) {
  ASSIGN_OR_RETURN(const auto entries, EntriesOf(folder));
  for (const fs::directory_entry& entry : entries) {
    std::error_code error;
    if (entry.is_directory(error) && !entry.is_symlink(error)) {
      RETURN_IF_ERROR(ListPictures(entry.path(), root, label, list, files));
    } else if (!IsPicture(entry.path().filename().string()) || !entry.is_regular_file(error)) {
      ++list->left_out;
    } else {
      const auto bytes = static_cast<int64_t>(entry.file_size(error));
      files->push_back({entry.path().lexically_relative(root).string(), bytes, label});
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
    RETURN_IF_ERROR(ListPictures(part / name, list->path, label, list, &files));
    if (files.size() == before) {
      return Refused(part / name, "expected .jpg, .jpeg or .png files of this class, got none");
    }
  }
  return files;
}

DataIdentity IdentityOf(const std::vector<ImageFile>& files) {
  StableHasher hasher;
  DataIdentity identity;
  for (const ImageFile& file : files) {
    hasher.Add(file.path).Add(file.bytes).Add(int64_t{file.label});
    identity.bytes += file.bytes;
  }
  identity.digest = hasher.digest();
  return identity;
}

}  // namespace

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

struct PhotoDataset::Workspace {
  std::string file;
  RgbImage image;
  PhotoViewer viewer;
  std::vector<uint8_t> seen;  // where less than the whole of it is asked for
};

PhotoDataset::PhotoDataset(absl::string_view what, const std::string& folder,
                           std::vector<ImageFile> files, const PhotoView& view)
    : what_(what),
      folder_(folder),
      files_(std::move(files)),
      view_(view),
      fields_({{"images", DType::kU8, {view.height, view.width, 3}}, {"labels", DType::kI32, {}}}),
      identity_(IdentityOf(files_)) {}

PhotoDataset::~PhotoDataset() = default;

absl::StatusOr<std::unique_ptr<PhotoDataset>> PhotoDataset::Open(absl::string_view what,
                                                                 const std::string& folder,
                                                                 std::vector<ImageFile> files,
                                                                 const PhotoView& view) {
  if (files.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected at least one picture in ", folder, ", got none"));
  }
  std::unique_ptr<PhotoDataset> dataset(new PhotoDataset(what, folder, std::move(files), view));
  RETURN_IF_ERROR(dataset->CheckSome());
  return dataset;
}

// A file's header, of files that lie evenly among all.
absl::Status PhotoDataset::CheckSome() const {
  const int64_t checked = std::min(num_samples(), kCheckedFirst);
  std::string bytes;
  for (int64_t i = 0; i < checked; ++i) {
    const int64_t sample = i * num_samples() / checked;
    absl::Status status = ReadBytes(sample, &bytes);
    if (status.ok()) status = ReadImageSize(bytes).status();
    if (!status.ok()) RETURN_IF_ERROR(NoteDamage(sample, status));
  }
  return absl::OkStatus();
}

absl::Status PhotoDataset::ReadBytes(int64_t sample, std::string* bytes) const {
  const ImageFile& file = files_[sample];
  if (file.bytes > kMostFileBytes) {
    return absl::DataLossError(
        absl::StrCat("expected a file of at most ", kMostFileBytes, " bytes, got ", file.bytes));
  }
  return ReadFileInto(absl::StrCat(folder_, "/", file.path), bytes);
}

absl::Status PhotoDataset::NoteDamage(int64_t sample, const absl::Status& why) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!damaged_.insert(sample).second) return absl::OkStatus();
  const std::string& path = files_[sample].path;
  SLUICE_LOG(WARNING) << what_ << ": " << path << " is seen as gray: " << why.message();
  const auto damaged = static_cast<int64_t>(damaged_.size());
  if (damaged * kDamagedOf <= num_samples()) return absl::OkStatus();
  std::string names;
  int64_t named = 0;
  for (const int64_t of : damaged_) {
    if (named++ == kNamed) break;
    absl::StrAppend(&names, named == 1 ? "" : ", ", files_[of].path);
  }
  return absl::DataLossError(
      absl::StrCat(what_, ": expected at most one damaged file in ", kDamagedOf, ", got ", damaged,
                   " of ", num_samples(), " in ", folder_, ": ", names,
                   damaged > kNamed ? ", .." : "", "; of ", path, ": ", why.message()));
}

int64_t PhotoDataset::damaged() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(damaged_.size());
}

std::unique_ptr<PhotoDataset::Workspace> PhotoDataset::TakeWorkspace() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.empty()) return std::make_unique<Workspace>();
  std::unique_ptr<Workspace> work = std::move(idle_.back());
  idle_.pop_back();
  return work;
}

void PhotoDataset::GiveBack(std::unique_ptr<Workspace> work) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(work));
}

absl::Status PhotoDataset::Show(int64_t sample, int64_t position, Workspace* work,
                                uint8_t* to) const {
  absl::Status status = ReadBytes(sample, &work->file);
  if (status.ok()) status = DecodeImage(work->file, &work->image);
  if (status.ok()) {
    work->viewer.Show(view_, work->image, position, to);
    return absl::OkStatus();
  }
  std::memset(to, kGray, fields_[0].shape.NumElements());
  return NoteDamage(sample, status);
}

absl::Status PhotoDataset::Fill(int field, absl::Span<const int64_t> samples, int64_t position,
                                const Box& box, std::byte* to) const {
  if (field == 1) {
    auto* labels = reinterpret_cast<int32_t*>(to);
    for (const int64_t sample : samples) *labels++ = files_[sample].label;
    return absl::OkStatus();
  }
  if (Volume(box) == 0) return absl::OkStatus();
  const Shape& shape = fields_[0].shape;
  const bool whole = Volume(box) == shape.NumElements();
  std::unique_ptr<Workspace> work = TakeWorkspace();
  if (!whole) work->seen.resize(shape.NumElements());
  absl::Status status;
  auto* pixels = reinterpret_cast<uint8_t*>(to);
  for (size_t i = 0; i < samples.size() && status.ok(); ++i) {
    uint8_t* const seen = whole ? pixels : work->seen.data();
    status = Show(samples[i], position + static_cast<int64_t>(i), work.get(), seen);
    if (whole) {
      pixels += shape.NumElements();
    } else {
      ForEachRow(WholeBox(shape), box, [&](int64_t offset, int64_t length) {
        pixels = std::copy_n(seen + offset, length, pixels);
      });
    }
  }
  GiveBack(std::move(work));
  return status;
}

}  // namespace sluice
