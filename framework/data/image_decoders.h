// One decoder for each format of pictures, and what they share: for decode_image.cc alone.
#ifndef SLUICE_FRAMEWORK_DATA_IMAGE_DECODERS_H_
#define SLUICE_FRAMEWORK_DATA_IMAGE_DECODERS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/decode_image.h"

namespace sluice {

struct ImageDecoder {
  const char* format;                      // for people
  bool (*is_of)(absl::string_view bytes);  // by the magic number
  absl::StatusOr<ImageSize> (*read_size)(absl::string_view bytes);
  absl::Status (*decode)(absl::string_view bytes, RgbImage* image);
};

extern const ImageDecoder kWebpDecoder, kGifDecoder, kTiffDecoder, kBmpDecoder;

// DataLoss: the file of this format is damaged, and how.
absl::Status DamagedImage(absl::string_view format, absl::string_view why);
// DataLoss: the file of this format may be whole, but is of a kind that the decoder does not read,
// and why. Advises to convert it.
absl::Status UnreadImage(absl::string_view format, absl::string_view why);
// DataLoss where a picture has no pixels, or more than kMostPixels.
absl::Status CheckImageSize(int64_t height, int64_t width);
// Sets the size of an image and returns where its pixels belong; there is room for them.
uint8_t* PixelsOf(const ImageSize& size, RgbImage* image);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_IMAGE_DECODERS_H_
