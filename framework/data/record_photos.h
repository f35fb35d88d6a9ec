// Pictures with their classes in a TFRecord or OFRecord file, as ImageNet is kept for TensorFlow
// and OneFlow: each record one picture, found by its number, so that who needs some reads no
// others.
#ifndef SLUICE_FRAMEWORK_DATA_RECORD_PHOTOS_H_
#define SLUICE_FRAMEWORK_DATA_RECORD_PHOTOS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/example.h"
#include "framework/data/framed_records.h"
#include "framework/data/photo_dataset.h"

namespace sluice {

// The framing that a file has by its name, without .gz or .zst: NAME.tfrecord or NAME.tfrecords;
// NAME.ofrecord, or part- and a number, as OneFlow names its files. NotFound: another name.
absl::StatusOr<Framing> FramingOfName(absl::string_view path);

// Which features have the picture and its class.
struct PhotoFeatures {
  std::string image, label;
};
// By an example of the file: the first that it has of "encoded", "image/encoded", "image_raw" and
// "image", and of "class/label", "image/class/label" and "label". NotFound says what it has.
absl::StatusOr<PhotoFeatures> FindPhotoFeatures(const Example& example);

struct PhotoRecords {
  Framing framing = Framing::kTfRecord;
  FramedRecords records;
  PhotoFeatures features;
};
// Errors name the file, and what its first record lacks.
absl::StatusOr<std::shared_ptr<const PhotoRecords>> OpenPhotoRecords(const std::string& path);

// Some of a file's records. Its identity is of the file's size and of a few records. Errors name a
// record and its place: one that is damaged, one whose class is no number below `classes`.
class RecordPhotos : public PhotoStore {
 public:
  static absl::StatusOr<std::unique_ptr<RecordPhotos>> Create(
      std::shared_ptr<const PhotoRecords> file, std::vector<int64_t> records, int64_t classes);

  const std::string& path() const override { return file_->records.path(); }
  int64_t size() const override { return static_cast<int64_t>(records_.size()); }
  std::string Name(int64_t picture) const override;
  DataIdentity identity() const override { return identity_; }
  absl::Status Read(int64_t picture, std::string* bytes) const override;
  absl::StatusOr<int32_t> Label(int64_t picture) const override;

 private:
  RecordPhotos(std::shared_ptr<const PhotoRecords> file, std::vector<int64_t> records,
               int64_t classes)
      : file_(std::move(file)), records_(std::move(records)), classes_(classes) {}
  absl::StatusOr<Example> ReadExample(int64_t picture) const;

  const std::shared_ptr<const PhotoRecords> file_;
  const std::vector<int64_t> records_;
  const int64_t classes_;
  DataIdentity identity_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_RECORD_PHOTOS_H_
