// Files of pictures as pixels: JPEG, PNG, WebP, GIF, TIFF and BMP. What the libraries do about
// errors, such as libjpeg's longjmp, does not leave their decoders (image_decoders.h). Any thread,
// several at once.
#ifndef SLUICE_FRAMEWORK_DATA_DECODE_IMAGE_H_
#define SLUICE_FRAMEWORK_DATA_DECODE_IMAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

struct ImageSize {
  int64_t height = 0, width = 0;
};

// Red, green and blue of each pixel, row by row.
struct RgbImage {
  ImageSize size;
  std::vector<uint8_t> pixels;  // of `size`, and perhaps room for more behind
};

// Pictures of more pixels are refused by their header, before anything is allocated for them.
constexpr int64_t kMostPixels = int64_t{1} << 26;

// Whether bytes begin as a file of one of these formats does.
bool IsImage(absl::string_view bytes);

// What the header says. DataLoss as below.
absl::StatusOr<ImageSize> ReadImageSize(absl::string_view bytes);

// Decodes a file by what it holds, whatever its name. Grey, palettes, CMYK, 16 bits and
// interlacing become 8 bits of RGB; transparency is dropped, as PIL's convert("RGB") does, and how
// a camera was held (EXIF) is not looked at. Of several pictures in a file, such as a moving one or
// pages, it is the first. DataLoss where it is of none of the formats, ends too soon, or is damaged
// so that the library gives up. The libraries allocate for each picture; the image itself keeps its
// room from one to the next.
absl::Status DecodeImage(absl::string_view bytes, RgbImage* image);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_DECODE_IMAGE_H_
