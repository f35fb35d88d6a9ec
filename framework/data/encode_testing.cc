// The libraries' own ways out of an error, exit and abort, are right for a test.
#include "framework/data/encode_testing.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
// After stdio.h, which it does not include.
#include <jpeglib.h>

#include <cstdlib>

#include "framework/base/log.h"

namespace sluice {

std::string EncodeJpeg(const std::vector<uint8_t>& pixels, int height, int width,
                       const JpegOptions& options) {
  SLUICE_CHECK_EQ(pixels.size(), height * width * options.components);
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: as libjpeg has it
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = options.components;
  info.in_color_space = options.components == 1   ? JCS_GRAYSCALE
                        : options.components == 3 ? JCS_RGB
                                                  : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (options.components == 4) info.write_Adobe_marker = options.adobe ? TRUE : FALSE;
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < height; ++y) {
    auto* row = const_cast<uint8_t*>(pixels.data() + y * width * options.components);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(bytes, bytes + size);
  std::free(bytes);
  return file;
}

std::string EncodePng(std::vector<uint8_t> pixels, int height, int width,
                      const PngOptions& options) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string file;
  png_set_write_fn(
      png, &file,
      [](png_structp png, png_bytep bytes, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(png))->append(bytes, bytes + size);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, width, height, options.bits, options.color_type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!options.palette.empty()) {
    png_set_PLTE(png, info, reinterpret_cast<png_const_colorp>(options.palette.data()),
                 static_cast<int>(options.palette.size() / 3));
  }
  png_write_info(png, info);
  png_set_packing(png);  // of samples of less than a byte
  const size_t stride = pixels.size() / height;
  std::vector<png_bytep> rows;
  for (int y = 0; y < height; ++y) rows.push_back(pixels.data() + y * stride);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace sluice
