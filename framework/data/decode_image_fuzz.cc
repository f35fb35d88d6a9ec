// A file of a picture, of any format.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/data/decode_image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!sluice::IsImage(bytes)) return 0;  // what else it may be is file_kind_fuzz's matter
  const absl::StatusOr<sluice::ImageSize> header = sluice::ReadImageSize(bytes);
  sluice::RgbImage image;
  if (!sluice::DecodeImage(bytes, &image).ok()) return 0;
  SLUICE_CHECK_OK(header.status());
  SLUICE_CHECK_EQ(image.size.height, header->height);
  SLUICE_CHECK_EQ(image.size.width, header->width);
  SLUICE_CHECK_EQ(image.pixels.size(), 3 * image.size.height * image.size.width);
  return 0;
}
