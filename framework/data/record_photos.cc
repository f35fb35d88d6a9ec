#include "framework/data/record_photos.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/data/packed.h"

namespace sluice {
namespace {

constexpr int64_t kSampled = 16;  // records that the digest is made of
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

absl::StatusOr<Framing> FramingOfName(absl::string_view path) {
  absl::string_view name = path.substr(std::min(path.rfind('/') + 1, path.size()));
  absl::ConsumeSuffix(&name, ".gz") || absl::ConsumeSuffix(&name, ".zst");
  if (absl::EndsWith(name, ".tfrecord") || absl::EndsWith(name, ".tfrecords")) {
    return Framing::kTfRecord;
  }
  if (absl::EndsWith(name, ".ofrecord") || absl::StartsWith(name, "part-")) {
    return Framing::kOfRecord;
  }
  return absl::NotFoundError(absl::StrCat("data: ", path,
                                          ": expected a file NAME.tfrecord, NAME.ofrecord or "
                                          "part-NUMBER"));
}

absl::StatusOr<PhotoFeatures> FindPhotoFeatures(const Example& example) {
  PhotoFeatures features;
  ASSIGN_OR_RETURN(features.image, FirstOf(example, kImages));
  ASSIGN_OR_RETURN(features.label, FirstOf(example, kLabels));
  return features;
}

absl::StatusOr<std::shared_ptr<const PhotoRecords>> OpenPhotoRecords(const std::string& path) {
  ASSIGN_OR_RETURN(const Framing framing, FramingOfName(path));
  ASSIGN_OR_RETURN(RandomAccessFile opened, OpenUnpacked(path));
  ASSIGN_OR_RETURN(FramedRecords records, FramedRecords::Open(framing, std::move(opened)));
  if (records.num_records() == 0) {
    return absl::DataLossError(absl::StrCat("data: ", path, ": expected records, got none in ",
                                            records.bytes(), " bytes"));
  }
  auto file = std::make_shared<PhotoRecords>(PhotoRecords{framing, std::move(records), {}});
  ASSIGN_OR_RETURN(const Example first, ExampleAt(*file, 0));
  absl::StatusOr<PhotoFeatures> features = FindPhotoFeatures(first);
  if (!features.ok()) return AddContext(features.status(), file->records.Name(0));
  file->features = *std::move(features);
  return file;
}

absl::StatusOr<std::unique_ptr<RecordPhotos>> RecordPhotos::Create(
    std::shared_ptr<const PhotoRecords> file, std::vector<int64_t> records, int64_t classes) {
  std::unique_ptr<RecordPhotos> photos(
      new RecordPhotos(std::move(file), std::move(records), classes));
  const FramedRecords& framed = photos->file_->records;
  StableHasher hasher;
  hasher.Add(framed.bytes()).Add(photos->size());
  std::string bytes;
  const int64_t sampled = std::min(photos->size(), kSampled);
  for (int64_t i = 0; i < sampled; ++i) {
    const int64_t record = photos->records_[i * photos->size() / sampled];
    RETURN_IF_ERROR(framed.Read(record, &bytes));
    hasher.Add(record).Add(bytes);
  }
  photos->identity_ = {framed.bytes(), hasher.digest()};
  return photos;
}

std::string RecordPhotos::Name(int64_t picture) const {
  const int64_t record = records_[picture];
  return absl::StrCat("record ", record, " at byte ", file_->records.begin(record));
}

absl::StatusOr<Example> RecordPhotos::ReadExample(int64_t picture) const {
  return ExampleAt(*file_, records_[picture]);
}

absl::Status RecordPhotos::Read(int64_t picture, std::string* bytes) const {
  ASSIGN_OR_RETURN(Example example, ReadExample(picture));
  RETURN_IF_ERROR(FindBytes(example, file_->features.image).status());
  // Found, so it is there, and goes with the example.
  *bytes = std::move(std::get<std::vector<std::string>>(example[file_->features.image])[0]);
  return absl::OkStatus();
}

absl::StatusOr<int32_t> RecordPhotos::Label(int64_t picture) const {
  ASSIGN_OR_RETURN(const Example example, ReadExample(picture));
  const std::string name = file_->records.Name(records_[picture]);
  const absl::StatusOr<int64_t> label = FindInteger(example, file_->features.label);
  if (!label.ok()) return AddContext(label.status(), name);
  if (*label >= 0 && *label < classes_) return static_cast<int32_t>(*label);
  return absl::OutOfRangeError(absl::StrCat(name, ": expected ", file_->features.label,
                                            " below --classes, ", classes_, ", got ", *label));
}

}  // namespace sluice
