// Pictures with their classes in TFRecord or OFRecord files, as ImageNet is kept for TensorFlow and
// OneFlow: each record one picture, found by its number, so that who needs some reads no others.
#ifndef SLUICE_FRAMEWORK_DATA_RECORD_PHOTOS_H_
#define SLUICE_FRAMEWORK_DATA_RECORD_PHOTOS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/data/example.h"
#include "framework/data/photo_dataset.h"
#include "framework/data/record_parts.h"

namespace sluice {

// Which features have the picture and its class.
struct PhotoFeatures {
  std::string image, label;
};
// By an example of the file: the first that it has of "encoded", "image/encoded", "image_raw" and
// "image", and of "class/label", "image/class/label" and "label". NotFound says what it has.
absl::StatusOr<PhotoFeatures> FindPhotoFeatures(const Example& example);

struct PhotoRecords {
  Framing framing = Framing::kTfRecord;
  RecordParts records;
  PhotoFeatures features;
};
// `path`: what the files are named by together. Errors name the file, and what the first record
// lacks.
absl::StatusOr<std::shared_ptr<const PhotoRecords>> OpenPhotoRecords(
    Framing framing, const std::string& path, absl::Span<const std::string> files);

// Some of the records. Their bytes identify them; which files they are stored in does not count.
// Errors name a record and its place: one that is damaged, one whose class is no number below
// `classes`.
class RecordPhotos : public PhotoStore {
 public:
  RecordPhotos(std::shared_ptr<const PhotoRecords> from, std::vector<int64_t> records,
               int64_t classes)
      : from_(std::move(from)), records_(std::move(records)), classes_(classes) {}

  const std::string& path() const override { return from_->records.path(); }
  int64_t size() const override { return static_cast<int64_t>(records_.size()); }
  std::string Name(int64_t picture) const override;
  DataParts Parts() const override;
  absl::Status Read(int64_t picture, std::string* bytes) const override;
  absl::StatusOr<int32_t> Label(int64_t picture) const override;

 private:
  absl::StatusOr<Example> ReadExample(int64_t picture) const;

  const std::shared_ptr<const PhotoRecords> from_;
  const std::vector<int64_t> records_;
  const int64_t classes_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_RECORD_PHOTOS_H_
