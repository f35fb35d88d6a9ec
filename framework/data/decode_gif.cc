// GIF, by giflib: the first frame on its screen.
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "framework/base/status.h"
#include "framework/data/image_decoders.h"

namespace sluice {
namespace {

constexpr char kFormat[] = "GIF";

bool IsGif(absl::string_view bytes) {
  return absl::StartsWith(bytes, "GIF87a") || absl::StartsWith(bytes, "GIF89a");
}

// A file that giflib reads as far as the pixels of its first frame.
class GifReader {
 public:
  explicit GifReader(absl::string_view bytes) : left_(bytes) {
    file_ = DGifOpen(this, Give, &error_);
  }
  ~GifReader() {
    if (file_ != nullptr) DGifCloseFile(file_, nullptr);
  }
  GifReader(const GifReader&) = delete;
  GifReader& operator=(const GifReader&) = delete;

  absl::Status ReadHeader() {
    if (file_ == nullptr) return Damaged(error_);
    while (true) {
      GifRecordType type;
      if (DGifGetRecordType(file_, &type) == GIF_ERROR) return Damaged(file_->Error);
      if (type == TERMINATE_RECORD_TYPE) return DamagedImage(kFormat, "it has no picture");
      if (type == IMAGE_DESC_RECORD_TYPE) break;
      if (type == EXTENSION_RECORD_TYPE) RETURN_IF_ERROR(ReadExtension());
    }
    if (DGifGetImageDesc(file_) == GIF_ERROR) return Damaged(file_->Error);
    const GifImageDesc& frame = file_->Image;
    if (frame.Left < 0 || frame.Top < 0 || frame.Width <= 0 || frame.Height <= 0) {
      return DamagedImage(kFormat, "its first frame has no pixels");
    }
    const ImageSize all = size();
    return CheckImageSize(all.height, all.width);
  }

  // The screen, made larger where the frame is not on it.
  ImageSize size() const {
    const GifImageDesc& frame = file_->Image;
    return {std::max<int64_t>(file_->SHeight, int64_t{frame.Top} + frame.Height),
            std::max<int64_t>(file_->SWidth, int64_t{frame.Left} + frame.Width)};
  }

  // Around the frame is what its transparent pixels are, or else its first color.
  absl::Status ReadPixels(uint8_t* to) {
    const GifImageDesc& frame = file_->Image;
    SetColors(frame.ColorMap != nullptr ? frame.ColorMap : file_->SColorMap);
    const ImageSize all = size();
    for (int64_t i = 0; i < all.height * all.width; ++i) Put(transparent_, to + 3 * i);
    std::vector<GifPixelType> row(frame.Width);
    // An interlaced frame has every eighth row first, then those half way between, and so on.
    constexpr int kFirst[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
    for (int pass = 0; pass < (frame.Interlace ? 4 : 1); ++pass) {
      const int first = frame.Interlace ? kFirst[pass] : 0,
                step = frame.Interlace ? kStep[pass] : 1;
      for (int y = first; y < frame.Height; y += step) {
        if (DGifGetLine(file_, row.data(), frame.Width) == GIF_ERROR) return Damaged(file_->Error);
        uint8_t* at = to + 3 * ((frame.Top + y) * all.width + frame.Left);
        for (const GifPixelType pixel : row) Put(pixel, at), at += 3;
      }
    }
    return absl::OkStatus();
  }

 private:
  static int Give(GifFileType* file, GifByteType* to, int size) {
    auto* const reader = static_cast<GifReader*>(file->UserData);
    const auto given = std::min<size_t>(size, reader->left_.size());
    std::memcpy(to, reader->left_.data(), given);
    reader->left_.remove_prefix(given);
    return static_cast<int>(given);
  }

  static absl::Status Damaged(int error) {
    const char* const why = GifErrorString(error);
    return DamagedImage(kFormat, why == nullptr ? "no reason" : why);
  }

  absl::Status ReadExtension() {
    int code = 0;
    GifByteType* block = nullptr;  // its length, and so many bytes
    if (DGifGetExtension(file_, &code, &block) == GIF_ERROR) return Damaged(file_->Error);
    while (block != nullptr) {
      GraphicsControlBlock control;
      if (code == GRAPHICS_EXT_FUNC_CODE &&
          DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
        transparent_ = std::max(control.TransparentColor, 0);
      }
      if (DGifGetExtensionNext(file_, &block) == GIF_ERROR) return Damaged(file_->Error);
    }
    return absl::OkStatus();
  }

  // Without colors pixels are gray; those that a map does not have are black.
  void SetColors(const ColorMapObject* map) {
    constexpr int kColors = 256;
    colors_.assign(3 * kColors, 0);
    for (int i = 0; i < kColors; ++i) {
      uint8_t* const color = colors_.data() + 3 * i;
      if (map == nullptr) {
        std::fill_n(color, 3, static_cast<uint8_t>(i));
      } else if (i < map->ColorCount) {
        color[0] = map->Colors[i].Red, color[1] = map->Colors[i].Green;
        color[2] = map->Colors[i].Blue;
      }
    }
  }
  void Put(int color, uint8_t* to) const { std::memcpy(to, colors_.data() + 3 * color, 3); }

  absl::string_view left_;
  int error_ = 0;
  GifFileType* file_ = nullptr;
  int transparent_ = 0;
  std::vector<uint8_t> colors_;
};

absl::StatusOr<ImageSize> ReadSize(absl::string_view bytes) {
  GifReader reader(bytes);
  RETURN_IF_ERROR(reader.ReadHeader());
  return reader.size();
}

absl::Status Decode(absl::string_view bytes, RgbImage* image) {
  GifReader reader(bytes);
  RETURN_IF_ERROR(reader.ReadHeader());
  return reader.ReadPixels(PixelsOf(reader.size(), image));
}

}  // namespace

const ImageDecoder kGifDecoder = {kFormat, IsGif, ReadSize, Decode};

}  // namespace sluice
