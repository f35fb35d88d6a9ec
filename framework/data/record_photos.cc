#include "framework/data/record_photos.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr const char* kImages[] = {"encoded", "image/encoded", "image_raw", "image"};
constexpr const char* kLabels[] = {"class/label", "image/class/label", "label"};

absl::StatusOr<Example> ExampleAt(const PhotoRecords& file, int64_t record) {
  std::string bytes;
  RETURN_IF_ERROR(file.records.Read(record, &bytes));
  absl::StatusOr<Example> example = ParseExample(file.framing, bytes);
  if (!example.ok()) return AddContext(example.status(), file.records.Name(record));
  return example;
}

// The first of the names that the example has.
template <size_t N>
absl::StatusOr<std::string> FirstOf(const Example& example, const char* const (&names)[N]) {
  const auto found =
      std::find_if(names, names + N, [&](const char* name) { return example.contains(name); });
  if (found != names + N) return *found;
  return FindFeature(example, names[0]).status();
}

}  // namespace

absl::StatusOr<PhotoFeatures> FindPhotoFeatures(const Example& example) {
  PhotoFeatures features;
  ASSIGN_OR_RETURN(features.image, FirstOf(example, kImages));
  ASSIGN_OR_RETURN(features.label, FirstOf(example, kLabels));
  return features;
}

absl::StatusOr<std::shared_ptr<const PhotoRecords>> OpenPhotoRecords(
    Framing framing, const std::string& path, absl::Span<const std::string> files) {
  ASSIGN_OR_RETURN(RecordParts records, RecordParts::Open(framing, path, files));
  auto photos = std::make_shared<PhotoRecords>(PhotoRecords{framing, std::move(records), {}});
  ASSIGN_OR_RETURN(const Example first, ExampleAt(*photos, 0));
  absl::StatusOr<PhotoFeatures> features = FindPhotoFeatures(first);
  if (!features.ok()) return AddContext(features.status(), photos->records.Name(0));
  photos->features = *std::move(features);
  return photos;
}

DataParts RecordPhotos::Parts() const {
  DataParts parts;
  for (const int64_t record : records_) {
    parts.sizes.push_back(from_->records.frame_bytes(record));
  }
  parts.read = [this](int64_t part, int64_t offset, int64_t size, char* to) {
    return from_->records.ReadFrame(records_[part], offset, size, to);
  };
  return parts;
}

std::string RecordPhotos::Name(int64_t picture) const {
  return from_->records.NameBelow(records_[picture]);
}

absl::StatusOr<Example> RecordPhotos::ReadExample(int64_t picture) const {
  return ExampleAt(*from_, records_[picture]);
}

absl::Status RecordPhotos::Read(int64_t picture, std::string* bytes) const {
  ASSIGN_OR_RETURN(Example example, ReadExample(picture));
  RETURN_IF_ERROR(FindBytes(example, from_->features.image).status());
  // Found, so it is there, and goes with the example.
  *bytes = std::move(std::get<std::vector<std::string>>(example[from_->features.image])[0]);
  return absl::OkStatus();
}

absl::StatusOr<int32_t> RecordPhotos::Label(int64_t picture) const {
  ASSIGN_OR_RETURN(const Example example, ReadExample(picture));
  const std::string name = from_->records.Name(records_[picture]);
  const absl::StatusOr<int64_t> label = FindInteger(example, from_->features.label);
  if (!label.ok()) return AddContext(label.status(), name);
  if (*label >= 0 && *label < classes_) return static_cast<int32_t>(*label);
  return absl::OutOfRangeError(absl::StrCat(name, ": expected ", from_->features.label,
                                            " below --classes, ", classes_, ", got ", *label));
}

}  // namespace sluice
