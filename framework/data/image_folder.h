// A folder of class folders of JPEG and PNG files, as ImageNet is laid out, and the data set that
// it is: pictures are read, decoded and cut to size when a step asks for them, by the thread that
// asks.
#ifndef SLUICE_FRAMEWORK_DATA_IMAGE_FOLDER_H_
#define SLUICE_FRAMEWORK_DATA_IMAGE_FOLDER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/dataset.h"
#include "framework/data/photo_view.h"

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
  int64_t left_out = 0;                       // files with other endings than .jpg, .jpeg, .png
};

// Lists class folders and the pictures below each, hidden ones left out; nothing is opened. Where
// the folder holds "train" and "val", these are the two parts; else every tenth picture by hash of
// its path is held out. Errors name the folder: no such, no class folders, one only, an empty one,
// a class of "val" that "train" has not.
absl::StatusOr<ImageFolder> ListImageFolder(const std::string& path);

// Fields "images", u8 [height, width, 3], and "labels", i32 []. A file that cannot be shown is
// named in a warning and seen as gray; once more than one in a hundred of all files are known to be
// such, reading fails. What a step allocates: what the libraries take for a picture, and larger
// buffers for a larger one than any before. Any thread.
class PhotoDataset : public Dataset {
 public:
  // `what` the pictures are is for errors. Reads the headers of a sample of the files, so that a
  // folder of something else is refused at once.
  static absl::StatusOr<std::unique_ptr<PhotoDataset>> Open(absl::string_view what,
                                                            const std::string& folder,
                                                            std::vector<ImageFile> files,
                                                            const PhotoView& view);

  ~PhotoDataset() override;
  int64_t num_samples() const override { return static_cast<int64_t>(files_.size()); }
  const std::vector<SampleField>& fields() const override { return fields_; }
  // Of paths, sizes and labels: the bytes are too many to be read first.
  DataIdentity identity() const override { return identity_; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override;

  // Files that are known to be damaged.
  int64_t damaged() const;

 private:
  struct Workspace;  // what one call of Fill reads, decodes and cuts with

  PhotoDataset(absl::string_view what, const std::string& folder, std::vector<ImageFile> files,
               const PhotoView& view);
  absl::Status CheckSome() const;
  absl::Status ReadBytes(int64_t sample, std::string* bytes) const;
  absl::Status Show(int64_t sample, int64_t position, Workspace* work, uint8_t* to) const;
  absl::Status NoteDamage(int64_t sample, const absl::Status& why) const;
  std::unique_ptr<Workspace> TakeWorkspace() const;
  void GiveBack(std::unique_ptr<Workspace> work) const;

  const std::string what_, folder_;
  const std::vector<ImageFile> files_;
  const PhotoView view_;
  const std::vector<SampleField> fields_;
  DataIdentity identity_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;  // guarded by mutex_
  mutable std::set<int64_t> damaged_;                     // guarded by mutex_
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_IMAGE_FOLDER_H_
