// A folder of class folders of pictures (decode_image.h), as ImageNet is laid out.
#ifndef SLUICE_FRAMEWORK_DATA_IMAGE_FOLDER_H_
#define SLUICE_FRAMEWORK_DATA_IMAGE_FOLDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/photo_dataset.h"

namespace sluice {

struct ImageFile {
  std::string path;  // below the folder
  int64_t bytes = 0;
  int32_t label = 0;  // the number of its class
};

struct ImageFolder {
  std::string path;
  std::vector<std::string> classes;           // the class folders' names, in order
  std::vector<ImageFile> training, held_out;  // in order of their paths
  // Files of the class folders that are not named as pictures are, by their endings, ".heic", or
  // "without an ending".
  std::map<std::string, int64_t> left_out;
};

// Returns how many files of which endings are left out, "12 .heic, 1 .txt", the most frequent
// first.
std::string DescribeLeftOut(const std::map<std::string, int64_t>& left_out);

// Lists class folders and the pictures below each: the files .jpg, .jpeg, .png, .webp, .gif, .bmp,
// .tif and .tiff, hidden ones left out; nothing is opened, and what each is its bytes say later.
// Where the folder holds "train" and "val", these are the two parts; else every tenth picture by
// hash of its path is held out. Errors name the folder: no such, no class folders, one only, an
// empty one, a class of "val" that "train" has not.
absl::StatusOr<ImageFolder> ListImageFolder(const std::string& path);

// Its parts are the files; their paths do not count, their order and labels do.
class FolderPhotos : public PhotoStore {
 public:
  FolderPhotos(std::string folder, std::vector<ImageFile> files)
      : folder_(std::move(folder)), files_(std::move(files)) {}

  const std::string& path() const override { return folder_; }
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  std::string Name(int64_t picture) const override { return files_[picture].path; }
  DataParts Parts() const override;
  absl::Status Read(int64_t picture, std::string* bytes) const override;
  absl::StatusOr<int32_t> Label(int64_t picture) const override { return files_[picture].label; }

 private:
  std::string PathOf(int64_t picture) const { return folder_ + "/" + files_[picture].path; }

  const std::string folder_;
  const std::vector<ImageFile> files_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_IMAGE_FOLDER_H_
