// Each library's call is a class whose methods set the jump that errors come back to. Between that
// and the library nothing is made that would have to be destroyed: a jump destroys nothing.
#include "framework/data/decode_image.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
// After stdio.h, which it does not include.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/file_kind.h"
#include "framework/data/image_decoders.h"

namespace sluice {
namespace {

constexpr absl::string_view kJpegMagic = "\xff\xd8\xff";
constexpr absl::string_view kPngMagic = "\x89PNG\r\n\x1a\n";
// Of a progressive JPEG, which holds all its coefficients until the last scan; files of ten are
// the rule. Each further scan of a large picture takes time, however few bytes it has.
constexpr int kMostScans = 64;
constexpr long kMostJpegBytes = 1L << 30;  // NOLINT: as libjpeg has it

class JpegReader {
 public:
  explicit JpegReader(absl::string_view bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = Fail;
    errors_.emit_message = Hear;
    info_.client_data = this;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  bool ReadHeader() {
    if (setjmp(jump_) != 0) return false;
    jpeg_create_decompress(&info_);
    info_.mem->max_memory_to_use = kMostJpegBytes;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  // Rows of `width` pixels; `row` has room for four bytes of each.
  bool ReadPixels(uint8_t* to, uint8_t* row) {
    if (setjmp(jump_) != 0) return false;
    progress_.progress_monitor = CountScans;
    info_.progress = &progress_;
    const bool four = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = four ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      uint8_t* const pixels = to + int64_t{3} * info_.output_width * info_.output_scanline;
      uint8_t* at = four ? row : pixels;
      jpeg_read_scanlines(&info_, &at, 1);
      if (four) FromCmyk(row, pixels);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  ImageSize size() const { return {info_.image_height, info_.image_width}; }
  const char* why() const { return why_; }
  // Whether why() is that the file is of a kind that is not read, rather than damaged.
  bool is_unread() const { return unread_; }

 private:
  // Adobe's files have their inks the other way round.
  void FromCmyk(const uint8_t* row, uint8_t* to) const {
    const int inverted = info_.saw_Adobe_marker ? 0 : 255;
    for (int64_t x = 0; x < info_.output_width; ++x, row += 4, to += 3) {
      const int black = inverted ^ row[3];
      for (int c = 0; c < 3; ++c) {
        to[c] = static_cast<uint8_t>(((inverted ^ row[c]) * black + 127) / 255);
      }
    }
  }

  static void Fail(j_common_ptr info) {
    // libjpeg's errors about files that other decoders may read.
    constexpr int kUnread[] = {
        JERR_ARITH_NOTIMPL,      JERR_BAD_PRECISION,        JERR_CCIR601_NOTIMPL,
        JERR_CONVERSION_NOTIMPL, JERR_FRACT_SAMPLE_NOTIMPL, JERR_NOTIMPL,
        JERR_NOT_COMPILED,       JERR_NO_BACKING_STORE,     JERR_SOF_UNSUPPORTED};
    auto* reader = static_cast<JpegReader*>(info->client_data);
    info->err->format_message(info, reader->why_);
    reader->unread_ = std::ranges::find(kUnread, info->err->msg_code) != std::end(kUnread);
    longjmp(reader->jump_, 1);
  }
  // Warnings are of what can be shown all the same. A file that ends too soon is not: the rest of
  // the picture would be grey.
  static void Hear(j_common_ptr info, int level) {
    if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) Fail(info);
  }
  static void CountScans(j_common_ptr info) {
    const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
    if (decompress->input_scan_number <= kMostScans) return;
    auto* reader = static_cast<JpegReader*>(info->client_data);
    snprintf(reader->why_, sizeof(reader->why_), "expected at most %d scans", kMostScans);
    reader->unread_ = true;
    longjmp(reader->jump_, 1);
  }

  const absl::string_view bytes_;
  jpeg_decompress_struct info_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_progress_mgr progress_ = {};
  jmp_buf jump_;
  char why_[JMSG_LENGTH_MAX] = "";
  bool unread_ = false;
};

class PngReader {
 public:
  explicit PngReader(absl::string_view bytes) : left_(bytes) {
    png_ =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, this, Fail, [](png_structp, const char*) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  bool ReadHeader() {
    if (info_ == nullptr) return Say("libpng has no memory");
    if (setjmp(jump_) != 0) return false;
    // Text and profiles, all but what pixels are made of, can be packed bombs, and nobody reads
    // them.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, /*num_chunks=*/-1);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(png_, 1 << 20);
    png_set_read_fn(png_, this, Give);
    png_read_info(png_, info_);
    return true;
  }

  // `rows` has room for a pointer to each.
  bool ReadPixels(uint8_t* to, png_bytep* rows) {
    if (setjmp(jump_) != 0) return false;
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    const png_uint_32 height = png_get_image_height(png_, info_);
    const size_t stride = png_get_rowbytes(png_, info_);
    if (stride != 3 * size_t{png_get_image_width(png_, info_)}) {
      return Say("expected three bytes a pixel");
    }
    for (png_uint_32 y = 0; y < height; ++y) rows[y] = to + y * stride;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

  ImageSize size() const {
    return {png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
  }
  const char* why() const { return why_; }
  bool is_unread() const { return false; }  // libpng reads every kind

 private:
  bool Say(const char* what) {
    snprintf(why_, sizeof(why_), "%s", what);
    return false;
  }
  static void Fail(png_structp png, const char* what) {
    auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
    reader->Say(what);
    longjmp(reader->jump_, 1);
  }
  static void Give(png_structp png, png_bytep to, size_t size) {
    auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > reader->left_.size()) png_error(png, "it ends too soon");
    std::memcpy(to, reader->left_.data(), size);
    reader->left_.remove_prefix(size);
  }

  absl::string_view left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  jmp_buf jump_;
  char why_[256] = "";
};

template <typename Reader>
absl::Status Refused(const Reader& reader, absl::string_view format) {
  return reader.is_unread() ? UnreadImage(format, reader.why())
                            : DamagedImage(format, reader.why());
}

template <typename Reader>
absl::StatusOr<ImageSize> HeaderOf(Reader& reader, absl::string_view format) {
  if (!reader.ReadHeader()) return Refused(reader, format);
  const ImageSize size = reader.size();
  RETURN_IF_ERROR(CheckImageSize(size.height, size.width));
  return size;
}

// Room for the pixels, and a row of `extra` elements for whatever a library wants besides.
template <typename Reader, typename Element>
absl::Status Decode(absl::string_view bytes, absl::string_view format,
                    std::vector<Element> (*extra)(const ImageSize&), RgbImage* image) {
  Reader reader(bytes);
  ASSIGN_OR_RETURN(const ImageSize size, HeaderOf(reader, format));
  uint8_t* const pixels = PixelsOf(size, image);
  std::vector<Element> row = extra(size);
  if (reader.ReadPixels(pixels, row.data())) return absl::OkStatus();
  return Refused(reader, format);
}

// The most frequent ones first.
const ImageDecoder kJpegDecoder = {
    "JPEG", [](absl::string_view bytes) { return absl::StartsWith(bytes, kJpegMagic); },
    [](absl::string_view bytes) {
      JpegReader reader(bytes);
      return HeaderOf(reader, "JPEG");
    },
    [](absl::string_view bytes, RgbImage* image) {
      return Decode<JpegReader, uint8_t>(
          bytes, "JPEG", [](const ImageSize& size) { return std::vector<uint8_t>(4 * size.width); },
          image);
    }};
const ImageDecoder kPngDecoder = {
    "PNG", [](absl::string_view bytes) { return absl::StartsWith(bytes, kPngMagic); },
    [](absl::string_view bytes) {
      PngReader reader(bytes);
      return HeaderOf(reader, "PNG");
    },
    [](absl::string_view bytes, RgbImage* image) {
      return Decode<PngReader, png_bytep>(
          bytes, "PNG", [](const ImageSize& size) { return std::vector<png_bytep>(size.height); },
          image);
    }};
const ImageDecoder* const kDecoders[] = {&kJpegDecoder, &kPngDecoder,  &kWebpDecoder,
                                         &kGifDecoder,  &kTiffDecoder, &kBmpDecoder};

// Null where the bytes are of none.
const ImageDecoder* DecoderOf(absl::string_view bytes) {
  const auto found = std::ranges::find_if(
      kDecoders, [&](const ImageDecoder* decoder) { return decoder->is_of(bytes); });
  return found == std::end(kDecoders) ? nullptr : *found;
}

absl::Status OfNone(absl::string_view bytes) {
  std::string formats;
  for (const ImageDecoder* const decoder : kDecoders) {
    absl::StrAppend(&formats, formats.empty() ? "" : ", ", decoder->format);
  }
  return absl::DataLossError(
      absl::StrCat("expected a picture (", formats, "), got ", DescribeBegin("", bytes)));
}

}  // namespace

absl::Status DamagedImage(absl::string_view format, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("the ", format, " file is damaged: ", why));
}

absl::Status UnreadImage(absl::string_view format, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(
      "the ", format, " file is of a kind that is not read: ", why, "; convert it to PNG"));
}

absl::Status CheckImageSize(int64_t height, int64_t width) {
  if (height > 0 && width > 0 && height <= kMostPixels / width) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("expected a picture of at most ", kMostPixels,
                                          " pixels, got one of ", height, " x ", width));
}

uint8_t* PixelsOf(const ImageSize& size, RgbImage* image) {
  image->size = size;
  const size_t bytes = 3 * size.height * size.width;
  if (image->pixels.size() < bytes) image->pixels.resize(bytes);
  return image->pixels.data();
}

bool IsImage(absl::string_view bytes) { return DecoderOf(bytes) != nullptr; }

absl::StatusOr<ImageSize> ReadImageSize(absl::string_view bytes) {
  const ImageDecoder* const decoder = DecoderOf(bytes);
  return decoder == nullptr ? OfNone(bytes) : decoder->read_size(bytes);
}

absl::Status DecodeImage(absl::string_view bytes, RgbImage* image) {
  const ImageDecoder* const decoder = DecoderOf(bytes);
  return decoder == nullptr ? OfNone(bytes) : decoder->decode(bytes, image);
}

}  // namespace sluice
