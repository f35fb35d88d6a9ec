// WebP, by libwebp: lossy, lossless, and the first frame of what moves.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/image_decoders.h"

namespace sluice {
namespace {

constexpr char kFormat[] = "WebP";

bool IsWebp(absl::string_view bytes) {
  constexpr size_t kSize = 4;  // of the file, behind RIFF
  return absl::StartsWith(bytes, "RIFF") &&
         absl::StartsWith(bytes.substr(std::min(bytes.size(), 4 + kSize)), "WEBP");
}

const uint8_t* Data(absl::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

absl::Status Refused(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return DamagedImage(kFormat, "it ends too soon");
    case VP8_STATUS_OUT_OF_MEMORY:
      return DamagedImage(kFormat, "libwebp has no memory for it");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return UnreadImage(kFormat, "it has a feature that libwebp does not know");
    default:
      return DamagedImage(kFormat, "its data is not WebP's");
  }
}

absl::StatusOr<WebPBitstreamFeatures> Features(absl::string_view bytes) {
  WebPBitstreamFeatures features;
  const VP8StatusCode code = WebPGetFeatures(Data(bytes), bytes.size(), &features);
  if (code != VP8_STATUS_OK) return Refused(code);
  RETURN_IF_ERROR(CheckImageSize(features.height, features.width));
  return features;
}

// A still picture to the rows at `to`, which are `stride` bytes apart. Its alpha is dropped.
absl::Status DecodeStill(absl::string_view bytes, int64_t stride, int height, uint8_t* to) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) {
    return DamagedImage(kFormat, "libwebp has another version than its headers");
  }
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = to;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = stride * height;
  const VP8StatusCode code = WebPDecode(Data(bytes), bytes.size(), &config);
  return code == VP8_STATUS_OK ? absl::OkStatus() : Refused(code);
}

// The first frame, which may be a part of the canvas; what is around it is black.
absl::Status DecodeFirst(absl::string_view bytes, const ImageSize& size, uint8_t* pixels) {
  const WebPData data = {Data(bytes), bytes.size()};
  WebPDemuxer* const demuxer = WebPDemux(&data);
  if (demuxer == nullptr) return DamagedImage(kFormat, "its frames cannot be found");
  WebPIterator frame;
  absl::Status status = DamagedImage(kFormat, "it has no frame");
  if (WebPDemuxGetFrame(demuxer, 1, &frame) != 0) {
    const bool fits = frame.x_offset >= 0 && frame.y_offset >= 0 && frame.width > 0 &&
                      frame.height > 0 && frame.x_offset + frame.width <= size.width &&
                      frame.y_offset + frame.height <= size.height;
    std::fill_n(pixels, 3 * size.height * size.width, uint8_t{0});
    const int64_t stride = 3 * size.width;
    uint8_t* const to = pixels + frame.y_offset * stride + int64_t{3} * frame.x_offset;
    const absl::string_view still(reinterpret_cast<const char*>(frame.fragment.bytes),
                                  frame.fragment.size);
    const absl::StatusOr<WebPBitstreamFeatures> features = Features(still);
    if (!fits || !features.ok() || features->width != frame.width ||
        features->height != frame.height) {
      status = DamagedImage(kFormat, "its first frame does not fit");
    } else {
      // The last row ends with its pixels, and not with the canvas.
      status = DecodeStill(still, stride, frame.height, to);
    }
    WebPDemuxReleaseIterator(&frame);
  }
  WebPDemuxDelete(demuxer);
  return status;
}

absl::StatusOr<ImageSize> ReadSize(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, Features(bytes));
  return ImageSize{features.height, features.width};
}

absl::Status Decode(absl::string_view bytes, RgbImage* image) {
  ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, Features(bytes));
  uint8_t* const pixels = PixelsOf({features.height, features.width}, image);
  if (features.has_animation != 0) return DecodeFirst(bytes, image->size, pixels);
  return DecodeStill(bytes, 3 * image->size.width, features.height, pixels);
}

}  // namespace

const ImageDecoder kWebpDecoder = {kFormat, IsWebp, ReadSize, Decode};

}  // namespace sluice
