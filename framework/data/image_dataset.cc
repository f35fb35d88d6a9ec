#include "framework/data/image_dataset.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/tensor/random.h"

namespace sluice {
namespace {

DataIdentity IdentityOf(const LabeledImages& images) {
  const auto bytes = [](const auto& values) {
    return absl::string_view(reinterpret_cast<const char*>(values.data()),
                             values.size() * sizeof(values[0]));
  };
  StableHasher hasher;
  for (const int64_t extent : images.shape) hasher.Add(extent);
  hasher.Add(bytes(images.pixels)).Add(bytes(images.labels));
  const size_t size = bytes(images.pixels).size() + bytes(images.labels).size();
  return {static_cast<int64_t>(size), hasher.digest()};
}

// Where the pixel at the origin of what is seen lies in the picture as it is stored, and whether
// one goes left from there.
struct View {
  int64_t top = 0, left = 0;
  bool flipped = false;
};

View DrawView(const CropAndFlip& augmentation, int64_t position, int64_t width) {
  // Its name and which word means what are part of what runs are.
  static const int64_t key = RandomKey("crop and flip");
  const std::array<uint32_t, 4> words = Philox(augmentation.seed, key, /*step=*/0, position);
  const auto offset = [&augmentation](uint32_t word) {
    const auto offsets = static_cast<uint64_t>(2 * augmentation.padding + 1);
    return static_cast<int64_t>(word * offsets >> 32) - augmentation.padding;
  };
  View view = {offset(words[0]), offset(words[1]), augmentation.flip && words[2] % 2 == 1};
  if (view.flipped) view.left += width - 1;
  return view;
}

}  // namespace

ImageDataset::ImageDataset(LabeledImages images, const CropAndFlip& augmentation)
    : images_(std::move(images)),
      augmentation_(augmentation),
      fields_({{"images", DType::kU8, images_.shape}, {"labels", DType::kI32, {}}}),
      identity_(IdentityOf(images_)) {}

absl::StatusOr<ImageDataset> ImageDataset::Create(absl::string_view what, LabeledImages images,
                                                  const CropAndFlip& augmentation) {
  const auto error = [what](const auto&... words) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": expected ", words...));
  };
  if (images.shape.rank() != 3 ||
      std::ranges::any_of(images.shape, [](int64_t extent) { return extent < 1; })) {
    return error("pictures of [height, width, channels], got ", images.shape.ToString());
  }
  if (images.labels.empty()) return error("at least one picture, got none");
  const int64_t bytes = images.shape.NumElements() * static_cast<int64_t>(images.labels.size());
  if (static_cast<int64_t>(images.pixels.size()) != bytes) {
    return error(bytes, " bytes of ", images.labels.size(), " pictures of ",
                 images.shape.ToString(), ", got ", images.pixels.size());
  }
  const auto below = std::ranges::find_if(images.labels, [](int32_t label) { return label < 0; });
  if (below != images.labels.end()) {
    return error("labels from 0 on, got ", *below, " of picture ", below - images.labels.begin());
  }
  if (augmentation.padding < 0) return error("a padding of 0 or more, got ", augmentation.padding);
  return ImageDataset(std::move(images), augmentation);
}

void ImageDataset::FillImage(int64_t sample, int64_t position, const Box& box, uint8_t* to) const {
  const int64_t height = images_.shape[0], width = images_.shape[1], channels = images_.shape[2];
  const uint8_t* const image = images_.pixels.data() + sample * images_.shape.NumElements();
  const View view = DrawView(augmentation_, position, width);
  const Range rows = box[0], columns = box[1], held = box[2];
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const int64_t from_y = y + view.top;
    if (from_y < 0 || from_y >= height) {
      std::memset(to, 0, columns.size() * held.size());
      to += columns.size() * held.size();
      continue;
    }
    const uint8_t* const row = image + from_y * width * channels;
    for (int64_t x = columns.begin; x < columns.end; ++x) {
      const int64_t from_x = view.flipped ? view.left - x : view.left + x;
      const bool inside = from_x >= 0 && from_x < width;
      const uint8_t* const pixel = row + from_x * channels;
      for (int64_t c = held.begin; c < held.end; ++c) *to++ = inside ? pixel[c] : 0;
    }
  }
}

absl::Status ImageDataset::Fill(int field, absl::Span<const int64_t> samples, int64_t position,
                                const Box& box, std::byte* to) const {
  if (field == 1) {
    auto* labels = reinterpret_cast<int32_t*>(to);
    for (const int64_t sample : samples) *labels++ = images_.labels[sample];
    return absl::OkStatus();
  }
  const int64_t bytes = Volume(box);
  for (const int64_t sample : samples) {
    FillImage(sample, position++, box, reinterpret_cast<uint8_t*>(to));
    to += bytes;
  }
  return absl::OkStatus();
}

}  // namespace sluice
