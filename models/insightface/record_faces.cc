#include "models/insightface/record_faces.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/data/decode_image.h"
#include "framework/tensor/random.h"

namespace sluice {
namespace {

constexpr int64_t kFlipKey = 0x666c6970;
constexpr int64_t kCheckedFirst = 16;  // pictures

}  // namespace

RecordFaces::RecordFaces(const std::string& path, const RecordFacesOptions& options,
                         RecordFile file)
    : path_(path),
      options_(options),
      file_(std::move(file)),
      fields_({{"images", DType::kU8, {options.image_size, options.image_size, 3}},
               {"labels", DType::kI32, {}}}) {}

absl::StatusOr<std::unique_ptr<RecordFaces>> RecordFaces::Open(const std::string& path,
                                                               const RecordFacesOptions& options) {
  ASSIGN_OR_RETURN(RecordFile file, RecordFile::Open(path));
  std::unique_ptr<RecordFaces> faces(new RecordFaces(path, options, std::move(file)));
  RETURN_IF_ERROR(faces->FindPictures());
  ASSIGN_OR_RETURN(faces->identity_, Identify(faces->Parts(), {.stop = options.stop}));
  return faces;
}

absl::Status RecordFaces::FindPictures() {
  pictures_ = file_.keys();
  if (pictures_[0] == 0) {
    ASSIGN_OR_RETURN(const PictureRecord first, file_.Read(0));
    if (first.labels.size() > 1) {
      // As far as f32 counts, and further than any file goes.
      constexpr float kMostKeys = 1e12f;
      if (!(first.labels[0] >= 0 && first.labels[0] <= kMostKeys)) {
        return absl::DataLossError(absl::StrCat(
            path_, ": record 0: expected the key behind the last picture, got ", first.labels[0]));
      }
      const auto end = std::lower_bound(pictures_.begin(), pictures_.end(),
                                        static_cast<int64_t>(first.labels[0]));
      pictures_.erase(end, pictures_.end());
      if (!pictures_.empty()) pictures_.erase(pictures_.begin());
    }
  }
  if (pictures_.empty()) {
    return absl::DataLossError(absl::StrCat(path_, ": expected records of pictures, got none"));
  }
  return CheckSome();
}

// Of pictures that lie evenly among all.
absl::Status RecordFaces::CheckSome() const {
  const Box whole = {{0, options_.image_size}, {0, options_.image_size}, {0, 3}};
  std::vector<uint8_t> pixels(options_.image_size * options_.image_size * 3);
  for (int64_t i = 0; i < kCheckedFirst; ++i) {
    const int64_t sample = i * num_samples() / kCheckedFirst;
    RETURN_IF_ERROR(Show(sample, 0, whole, pixels.data()));
    RETURN_IF_ERROR(LabelOf(sample).status());
  }
  return absl::OkStatus();
}

DataParts RecordFaces::Parts() const {
  StableHasher keys;  // and where their records are, which the .idx says
  for (const int64_t key : pictures_) keys.Add(key).Add(file_.begin(key));
  DataParts parts;
  parts.what = path_;
  parts.sizes = {file_.bytes()};
  parts.meaning = keys.digest();
  parts.read = [this](int64_t, int64_t offset, int64_t size, char* to) {
    return file_.ReadBytes(offset, size, to);
  };
  return parts;
}

absl::StatusOr<int32_t> RecordFaces::LabelOf(int64_t sample) const {
  ASSIGN_OR_RETURN(const PictureRecord record, file_.Read(pictures_[sample]));
  const float label = record.labels[0];
  if (label >= 0 && label < static_cast<float>(options_.classes) && label == std::floor(label)) {
    return static_cast<int32_t>(label);
  }
  return absl::OutOfRangeError(absl::StrCat(path_, ": record ", pictures_[sample],
                                            ": expected a whole label below --classes, ",
                                            options_.classes, ", got ", label));
}

absl::Status RecordFaces::Show(int64_t sample, int64_t position, const Box& box,
                               uint8_t* to) const {
  ASSIGN_OR_RETURN(const PictureRecord record, file_.Read(pictures_[sample]));
  const std::string what = absl::StrCat(path_, ": record ", pictures_[sample]);
  RgbImage image;
  RETURN_IF_ERROR(AddContext(DecodeImage(record.bytes, &image), what));
  const int64_t size = options_.image_size;
  if (image.size.height != size || image.size.width != size) {
    return absl::DataLossError(absl::StrCat(what, ": expected a picture of ", size, " x ", size,
                                            ", got ", image.size.height, " x ", image.size.width));
  }
  const bool flipped = options_.flip && (RandomWord(options_.seed, kFlipKey, 0, position) & 1) != 0;
  for (int64_t y = box[0].begin; y < box[0].end; ++y) {
    for (int64_t x = box[1].begin; x < box[1].end; ++x) {
      const uint8_t* pixel = image.pixels.data() + (y * size + (flipped ? size - 1 - x : x)) * 3;
      to = std::copy(pixel + box[2].begin, pixel + box[2].end, to);
    }
  }
  return absl::OkStatus();
}

absl::Status RecordFaces::Fill(int field, absl::Span<const int64_t> samples, int64_t position,
                               const Box& box, std::byte* to) const {
  if (field == 1) {
    auto* labels = reinterpret_cast<int32_t*>(to);
    for (const int64_t sample : samples) {
      ASSIGN_OR_RETURN(*labels++, LabelOf(sample));
    }
    return absl::OkStatus();
  }
  int64_t bytes = 1;
  for (const Range& range : box) bytes *= range.size();
  for (const int64_t sample : samples) {
    RETURN_IF_ERROR(Show(sample, position++, box, reinterpret_cast<uint8_t*>(to)));
    to += bytes;
  }
  return absl::OkStatus();
}

}  // namespace sluice
