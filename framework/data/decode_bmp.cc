// BMP of Windows and OS/2, as it is without compression: palettes of 1, 4 and 8 bits, 16 and 32
// bits with or without masks, 24 bits. No small library reads it safely: stb_image takes bytes that
// it never set where a palette is short, and zeros where the file is.
#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/image_decoders.h"
#include "framework/data/little_endian.h"

namespace sluice {
namespace {

constexpr char kFormat[] = "BMP";

//   0   "BM"
//   10  u32 where the pixels begin
//   14  u32 size of the header that begins here. OS/2 has 12: u16 width, u16 height, u16 1, u16
//   bits.
//       Windows has 40 and more:
//   18  i32 width, i32 height, below 0 where the first row is the top one; u16 1, u16 bits
//   30  u32 compression: 0 none, 3 masks
//   46  u32 colors of the palette, 0: as many as the bits tell apart
//   54  with masks those of red, green and blue
// Then the palette, of 3 bytes a color in OS/2 and 4 in Windows, blue first. Rows have whole words
// of 4 bytes.
constexpr size_t kFileHeader = 14, kOs2Header = 12, kWindowsHeader = 40;
constexpr uint32_t kNotCompressed = 0, kMasks = 3;

bool IsBmp(absl::string_view bytes) {
  if (bytes.size() < kFileHeader + 4 || !absl::StartsWith(bytes, "BM")) return false;
  const auto header = Take<uint32_t>(bytes, kFileHeader);
  return header == kOs2Header || (header >= kWindowsHeader && header <= 124);
}

struct Header {
  ImageSize size;
  bool top_down = false;
  int bits = 0;
  uint32_t masks[3] = {};  // of red, green and blue, of pixels of 16 and 32 bits
  size_t palette_at = 0, colors = 0, color_bytes = 4, pixels_at = 0;
  size_t row_bytes = 0;
};

absl::Status ReadWindows(absl::string_view bytes, Header* header) {
  const size_t size = Take<uint32_t>(bytes, kFileHeader);
  if (bytes.size() < kFileHeader + size) return DamagedImage(kFormat, "it ends in its header");
  const auto height = Take<int32_t>(bytes, 22);
  header->size = {height < 0 ? -int64_t{height} : height, Take<int32_t>(bytes, 18)};
  header->top_down = height < 0;
  header->bits = Take<uint16_t>(bytes, 28);
  const auto compression = Take<uint32_t>(bytes, 30);
  if (compression != kNotCompressed && compression != kMasks) {
    return UnreadImage(kFormat, absl::StrCat("its pixels are compressed, by method ", compression));
  }
  header->palette_at = kFileHeader + size;
  const size_t most = header->bits <= 8 ? size_t{1} << header->bits : 0;
  const auto colors = Take<uint32_t>(bytes, 46);
  header->colors = colors == 0 ? most : std::min<size_t>(colors, most);
  constexpr uint32_t k555[] = {0x7c00, 0x3e0, 0x1f}, k888[] = {0xff0000, 0xff00, 0xff};
  std::copy_n(header->bits == 16 ? k555 : k888, 3, header->masks);
  if (compression != kMasks) return absl::OkStatus();
  constexpr size_t kMasksAt =
      kFileHeader + kWindowsHeader;  // in a longer header or behind this one
  if (bytes.size() < kMasksAt + sizeof(header->masks)) {
    return DamagedImage(kFormat, "it ends in its masks");
  }
  std::memcpy(header->masks, bytes.data() + kMasksAt, sizeof(header->masks));
  return absl::OkStatus();
}

absl::StatusOr<Header> ReadHeader(absl::string_view bytes) {
  Header header;
  header.pixels_at = Take<uint32_t>(bytes, 10);
  if (Take<uint32_t>(bytes, kFileHeader) == kOs2Header) {
    if (bytes.size() < kFileHeader + kOs2Header) {
      return DamagedImage(kFormat, "it ends in its header");
    }
    header.size = {Take<uint16_t>(bytes, 20), Take<uint16_t>(bytes, 18)};
    header.bits = Take<uint16_t>(bytes, 24);
    header.palette_at = kFileHeader + kOs2Header;
    header.color_bytes = 3;
    header.colors = header.bits <= 8 ? size_t{1} << header.bits : 0;
  } else {
    RETURN_IF_ERROR(ReadWindows(bytes, &header));
  }
  RETURN_IF_ERROR(CheckImageSize(header.size.height, header.size.width));
  constexpr int kBits[] = {1, 4, 8, 16, 24, 32};
  if (std::ranges::find(kBits, header.bits) == std::end(kBits)) {
    return UnreadImage(kFormat, absl::StrCat("a pixel has ", header.bits, " bits"));
  }
  header.row_bytes = (header.size.width * header.bits + 31) / 32 * 4;
  return header;
}

// How a mask's bits become a color: those of the value, shifted, out of `most`.
struct Channel {
  explicit Channel(uint32_t of) : mask(of), shift(of == 0 ? 0 : __builtin_ctz(of)) {
    most = mask >> shift;
  }
  uint8_t Of(uint32_t pixel) const {
    if (most == 0) return 0;
    return static_cast<uint8_t>(uint64_t{(pixel & mask) >> shift} * 255 / most);
  }
  uint32_t mask;
  int shift;
  uint64_t most = 0;
};

void TakePalette(absl::string_view row, absl::string_view palette, const Header& header,
                 uint8_t* to) {
  const int per_byte = 8 / header.bits, last = (1 << header.bits) - 1;
  for (int64_t x = 0; x < header.size.width; ++x, to += 3) {
    const int shift = 8 - header.bits * static_cast<int>(x % per_byte + 1);
    const auto color =
        static_cast<size_t>((static_cast<uint8_t>(row[x / per_byte]) >> shift) & last);
    // A color that the palette does not have is black.
    for (size_t c = 0; c < 3; ++c) {
      to[c] = color < header.colors
                  ? static_cast<uint8_t>(palette[color * header.color_bytes + 2 - c])
                  : 0;
    }
  }
}

void TakePixels(absl::string_view row, const Header& header, uint8_t* to) {
  const Channel channels[] = {Channel(header.masks[0]), Channel(header.masks[1]),
                              Channel(header.masks[2])};
  for (int64_t x = 0; x < header.size.width; ++x, to += 3) {
    if (header.bits == 24) {
      for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(row[3 * x + 2 - c]);
      continue;
    }
    const uint32_t pixel =
        header.bits == 16 ? Take<uint16_t>(row, 2 * x) : Take<uint32_t>(row, 4 * x);
    for (int c = 0; c < 3; ++c) to[c] = channels[c].Of(pixel);
  }
}

absl::StatusOr<ImageSize> ReadSize(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Header header, ReadHeader(bytes));
  return header.size;
}

absl::Status Decode(absl::string_view bytes, RgbImage* image) {
  ASSIGN_OR_RETURN(const Header header, ReadHeader(bytes));
  const size_t height = header.size.height, palette_bytes = header.colors * header.color_bytes;
  if (bytes.size() < header.palette_at + palette_bytes || header.pixels_at > bytes.size() ||
      (bytes.size() - header.pixels_at) / header.row_bytes < height) {
    return DamagedImage(kFormat, "it ends too soon");
  }
  const absl::string_view palette = bytes.substr(header.palette_at, palette_bytes);
  uint8_t* const pixels = PixelsOf(header.size, image);
  for (size_t y = 0; y < height; ++y) {
    const absl::string_view row =
        bytes.substr(header.pixels_at + y * header.row_bytes, header.row_bytes);
    uint8_t* const to = pixels + 3 * header.size.width * (header.top_down ? y : height - 1 - y);
    if (header.bits <= 8) {
      TakePalette(row, palette, header, to);
    } else {
      TakePixels(row, header, to);
    }
  }
  return absl::OkStatus();
}

}  // namespace

const ImageDecoder kBmpDecoder = {kFormat, IsBmp, ReadSize, Decode};

}  // namespace sluice
