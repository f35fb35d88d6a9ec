// Writes JPEG and PNG files as the libraries do. For tests.
#ifndef SLUICE_FRAMEWORK_DATA_ENCODE_TESTING_H_
#define SLUICE_FRAMEWORK_DATA_ENCODE_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct JpegOptions {
  int components = 3;  // 1: gray, 3: RGB, 4: CMYK
  int quality = 95;
  bool progressive = false;
  bool adobe = true;  // of CMYK: with the marker of files whose inks are inverted
};
// `pixels` of [height, width, components].
std::string EncodeJpeg(const std::vector<uint8_t>& pixels, int height, int width,
                       const JpegOptions& options = {});

struct PngOptions {
  int color_type = 2;  // as the format counts: 0 gray, 2 RGB, 3 palette, 4 gray + alpha, 6 RGBA
  int bits = 8;        // of a sample; 16 take two bytes of `pixels`, the high one first
  bool interlaced = false;
  std::vector<uint8_t> palette = {};  // RGB of each entry
};
// `pixels` as the rows of the file, one byte at least for each sample.
std::string EncodePng(std::vector<uint8_t> pixels, int height, int width,
                      const PngOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_ENCODE_TESTING_H_
