// TIFF, by libtiff: its first page, of whatever colors, 1 to 16 bits, in strips or tiles.
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/data/image_decoders.h"

namespace sluice {
namespace {

constexpr char kFormat[] = "TIFF";
constexpr tmsize_t kMostAtOnce = tmsize_t{1} << 28;  // that libtiff allocates

bool IsTiff(absl::string_view bytes) {
  for (const absl::string_view magic :
       {absl::string_view("II*\0", 4), absl::string_view("MM\0*", 4), absl::string_view("II+\0", 4),
        absl::string_view("MM\0+", 4)}) {
    if (absl::StartsWith(bytes, magic)) return true;
  }
  return false;
}

class TiffReader {
 public:
  explicit TiffReader(absl::string_view bytes) : bytes_(bytes) {
    TIFFOpenOptions* const options = TIFFOpenOptionsAlloc();
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, kMostAtOnce);
    TIFFOpenOptionsSetErrorHandlerExtR(options, Hear, this);
    TIFFOpenOptionsSetWarningHandlerExtR(
        options, [](TIFF*, void*, const char*, const char*, va_list) { return 1; }, this);
    // "m": through the functions below, not mapped.
    file_ = TIFFClientOpenExt("picture", "rm", this, Read, Write, Seek, Close, Size, nullptr,
                              nullptr, options);
    TIFFOpenOptionsFree(options);
  }
  ~TiffReader() {
    if (file_ != nullptr) TIFFClose(file_);
  }
  TiffReader(const TiffReader&) = delete;
  TiffReader& operator=(const TiffReader&) = delete;

  absl::Status ReadHeader() {
    uint32_t height = 0, width = 0;
    if (file_ == nullptr || TIFFGetField(file_, TIFFTAG_IMAGELENGTH, &height) == 0 ||
        TIFFGetField(file_, TIFFTAG_IMAGEWIDTH, &width) == 0) {
      return Refused(why_[0] == '\0' ? "it has no size" : why_);
    }
    size_ = {height, width};
    return CheckImageSize(size_.height, size_.width);
  }

  absl::Status ReadPixels(uint8_t* to) {
    KeepColors();
    char why[1024] = "";
    if (TIFFRGBAImageOK(file_, why) == 0) return Refused(why);
    std::vector<uint32_t> raster(size_.height * size_.width);
    const int stop_on_error = 1;
    if (TIFFReadRGBAImageOriented(file_, static_cast<uint32_t>(size_.width),
                                  static_cast<uint32_t>(size_.height), raster.data(),
                                  ORIENTATION_TOPLEFT, stop_on_error) == 0) {
      return Refused(why_[0] == '\0' ? "it cannot be decoded" : why_);
    }
    for (const uint32_t pixel : raster) {
      *to++ = static_cast<uint8_t>(TIFFGetR(pixel));
      *to++ = static_cast<uint8_t>(TIFFGetG(pixel));
      *to++ = static_cast<uint8_t>(TIFFGetB(pixel));
    }
    return absl::OkStatus();
  }

  const ImageSize& size() const { return size_; }

 private:
  // Says that transparent colors are multiplied by their alpha already, so that libtiff does not do
  // it: alpha is dropped, and colors stay.
  void KeepColors() {
    uint16_t count = 0;
    uint16_t* kinds = nullptr;
    if (TIFFGetField(file_, TIFFTAG_EXTRASAMPLES, &count, &kinds) == 0 || count == 0) return;
    std::vector<uint16_t> kept(kinds, kinds + count);
    if (kept[0] == EXTRASAMPLE_UNASSALPHA) kept[0] = EXTRASAMPLE_ASSOCALPHA;
    TIFFSetField(file_, TIFFTAG_EXTRASAMPLES, count, kept.data());
  }

  // libtiff says only by its words whether a file is damaged or of a kind that it does not read.
  static absl::Status Refused(absl::string_view why) {
    bool unread = absl::ConsumePrefix(&why, "Sorry, ");
    for (const absl::string_view words : {"not implemented", "not configured", "not supported"}) {
      unread |= absl::StrContains(why, words);
    }
    return unread ? UnreadImage(kFormat, why) : DamagedImage(kFormat, why);
  }

  static int Hear(TIFF*, void* reader, const char*, const char* format, va_list arguments) {
    auto* const self = static_cast<TiffReader*>(reader);
    // The first says what is wrong; others follow from it.
    if (self->why_[0] == '\0') vsnprintf(self->why_, sizeof(self->why_), format, arguments);
    return 1;
  }
  static tmsize_t Read(thandle_t reader, void* to, tmsize_t size) {
    auto* const self = static_cast<TiffReader*>(reader);
    const absl::string_view rest = self->bytes_.substr(std::min(self->at_, self->bytes_.size()));
    const auto given = std::min<size_t>(size, rest.size());
    std::memcpy(to, rest.data(), given);
    self->at_ += given;
    return static_cast<tmsize_t>(given);
  }
  static tmsize_t Write(thandle_t, void*, tmsize_t) { return 0; }
  static toff_t Seek(thandle_t reader, toff_t offset, int whence) {
    auto* const self = static_cast<TiffReader*>(reader);
    if (whence == SEEK_CUR) offset += self->at_;
    if (whence == SEEK_END) offset += self->bytes_.size();
    self->at_ = offset;
    return offset;
  }
  static int Close(thandle_t) { return 0; }
  static toff_t Size(thandle_t reader) { return static_cast<TiffReader*>(reader)->bytes_.size(); }

  const absl::string_view bytes_;
  size_t at_ = 0;
  TIFF* file_ = nullptr;
  ImageSize size_;
  char why_[256] = "";
};

absl::StatusOr<ImageSize> ReadSize(absl::string_view bytes) {
  TiffReader reader(bytes);
  RETURN_IF_ERROR(reader.ReadHeader());
  return reader.size();
}

absl::Status Decode(absl::string_view bytes, RgbImage* image) {
  TiffReader reader(bytes);
  RETURN_IF_ERROR(reader.ReadHeader());
  return reader.ReadPixels(PixelsOf(reader.size(), image));
}

}  // namespace

const ImageDecoder kTiffDecoder = {kFormat, IsTiff, ReadSize, Decode};

}  // namespace sluice
