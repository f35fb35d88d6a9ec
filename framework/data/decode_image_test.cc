#include "framework/data/decode_image.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/data/encode_testing.h"
#include "framework/data/file.h"
#include "framework/data/little_endian.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Bytes = std::vector<uint8_t>;

constexpr int kHeight = 37, kWidth = 53;

// Colors that change slowly, as JPEG likes them.
Bytes Slopes(int components) {
  Bytes pixels;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const int values[] = {40 + 3 * x, 30 + 5 * y, 220 - 2 * x - 2 * y, 2 * x + y};
      pixels.insert(pixels.end(), values, values + components);
    }
  }
  return pixels;
}

Bytes Decoded(const std::string& file) {
  RgbImage image;
  const absl::Status status = DecodeImage(file, &image);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(image.size.height, kHeight);
  EXPECT_EQ(image.size.width, kWidth);
  const auto header = ReadImageSize(file);
  EXPECT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->height, kHeight);
  EXPECT_EQ(header->width, kWidth);
  return image.pixels;
}

int Apart(const Bytes& a, const Bytes& b) {
  if (a.size() != b.size()) return 1000;
  int most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// pixel(i) of each pixel i is three bytes.
template <typename F>
Bytes Rgb(F&& pixel) {
  Bytes pixels;
  for (int i = 0; i < kHeight * kWidth; ++i) {
    for (const int value : pixel(i)) pixels.push_back(static_cast<uint8_t>(value));
  }
  return pixels;
}
using Pixel = std::vector<int>;

TEST(DecodeImageTest, JpegsOfEveryKind) {
  const Bytes rgb = Slopes(3), gray = Slopes(1), cmyk = Slopes(4);
  EXPECT_LE(Apart(Decoded(EncodeJpeg(rgb, kHeight, kWidth)), rgb), 8);
  EXPECT_LE(Apart(Decoded(EncodeJpeg(rgb, kHeight, kWidth, {.progressive = true})), rgb), 8);
  const Bytes of_gray = Rgb([&](int i) { return Pixel{gray[i], gray[i], gray[i]}; });
  EXPECT_LE(Apart(Decoded(EncodeJpeg(gray, kHeight, kWidth, {.components = 1})), of_gray), 4);
  for (const bool adobe : {true, false}) {
    const int inverted = adobe ? 0 : 255;
    const Bytes expected = Rgb([&](int i) {
      const int black = cmyk[4 * i + 3] ^ inverted;
      Pixel pixel;
      for (int c = 0; c < 3; ++c) pixel.push_back((cmyk[4 * i + c] ^ inverted) * black / 255);
      return pixel;
    });
    const std::string file = EncodeJpeg(cmyk, kHeight, kWidth, {.components = 4, .adobe = adobe});
    EXPECT_LE(Apart(Decoded(file), expected), 6) << adobe;
  }
}

TEST(DecodeImageTest, PngsOfEveryKind) {
  const Bytes rgb = Slopes(3), gray = Slopes(1), four = Slopes(4);
  for (const bool interlaced : {false, true}) {
    const auto decoded = [&](const Bytes& pixels, PngOptions options) {
      options.interlaced = interlaced;
      return Decoded(EncodePng(pixels, kHeight, kWidth, options));
    };
    const Bytes of_gray = Rgb([&](int i) { return Pixel{gray[i], gray[i], gray[i]}; });
    EXPECT_EQ(decoded(rgb, {}), rgb);
    EXPECT_EQ(decoded(gray, {.color_type = 0}), of_gray);
    EXPECT_EQ(decoded(four, {.color_type = 6}), Rgb([&](int i) {
                return Pixel{four[4 * i], four[4 * i + 1], four[4 * i + 2]};
              }));
    Bytes with_alpha, wide, bits, entries;
    for (const uint8_t value : gray) with_alpha.insert(with_alpha.end(), {value, 77});
    EXPECT_EQ(decoded(with_alpha, {.color_type = 4}), of_gray);
    for (const uint8_t value : rgb) wide.insert(wide.end(), {value, value});
    EXPECT_EQ(decoded(wide, {.color_type = 2, .bits = 16}), rgb);
    for (const uint8_t value : gray) bits.push_back(value % 2);
    EXPECT_EQ(decoded(bits, {.color_type = 0, .bits = 1}), Rgb([&](int i) {
                return Pixel{255 * bits[i], 255 * bits[i], 255 * bits[i]};
              }));
    for (const uint8_t value : gray) entries.push_back(value % 3);
    const Bytes palette = {1, 2, 3, 250, 0, 9, 7, 8, 255};
    EXPECT_EQ(decoded(entries, {.color_type = 3, .palette = palette}), Rgb([&](int i) {
                const uint8_t* color = palette.data() + 3 * entries[i];
                return Pixel{color[0], color[1], color[2]};
              }));
  }
}

// Pictures that Pillow wrote (testdata/images_golden.py), with what it makes of them: width, height
// and RGB.
const std::string kGolden = "framework/data/testdata/images/";

std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden)) {
    if (entry.path().extension() == ".rgb") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

// As far apart as two versions of a library may be.
int MostApart(const std::string& name) {
  return name == "lossy.webp" || name == "jpeg.tif" ? 2 : name == "cmyk.tif" ? 1 : 0;
}

TEST(DecodeImageTest, EveryKindIsWhatPillowMakesOfIt) {
  const std::vector<std::string> names = GoldenNames();
  EXPECT_GT(names.size(), 30u);
  for (const std::string& name : names) {
    const std::string file = *ReadFile(kGolden + name), rgb = *ReadFile(kGolden + name + ".rgb");
    const int width = Take<uint16_t>(rgb, 0), height = Take<uint16_t>(rgb, 2);
    RgbImage image;
    const absl::Status status = DecodeImage(file, &image);
    ASSERT_TRUE(status.ok()) << name << ": " << status;
    EXPECT_TRUE(IsImage(file));
    EXPECT_EQ(image.size.width, width) << name;
    EXPECT_EQ(image.size.height, height) << name;
    const auto header = ReadImageSize(file);
    ASSERT_TRUE(header.ok()) << name << ": " << header.status();
    EXPECT_EQ(header->width, width);
    EXPECT_EQ(header->height, height);
    EXPECT_LE(Apart(image.pixels, Bytes(rgb.begin() + 4, rgb.end())), MostApart(name)) << name;
  }
}

TEST(DecodeImageTest, WhatCannotBeShownIsSaid) {
  RgbImage image;
  EXPECT_EQ(
      DecodeImage(*ReadFile(kGolden + "floats.tif"), &image),
      absl::DataLossError("the TIFF file is of a kind that is not read: can not handle images with "
                          "32-bit samples; convert it to PNG"));
  std::string packed = *ReadFile(kGolden + "rgb.bmp");
  packed[30] = 1;
  EXPECT_EQ(DecodeImage(packed, &image),
            absl::DataLossError("the BMP file is of a kind that is not read: its pixels are "
                                "compressed, by method 1; convert it to PNG"));
  packed[30] = 0;
  packed[28] = 64;
  EXPECT_EQ(ReadImageSize(packed).status(),
            absl::DataLossError("the BMP file is of a kind that is not read: a pixel has 64 bits; "
                                "convert it to PNG"));
  // Compression 9, T.85 of facsimiles, which libtiff has no decoder for.
  std::string tiff = *ReadFile(kGolden + "raw.tif");
  const size_t entry = tiff.find(std::string("\3\1", 2), Take<uint32_t>(tiff, 4));
  ASSERT_NE(entry, std::string::npos);
  tiff[entry + 8] = 9;
  EXPECT_THAT(std::string(DecodeImage(tiff, &image).message()),
              AllOf(StartsWith("the TIFF file is of a kind that is not read: "), HasSubstr("9 "),
                    EndsWith("; convert it to PNG")));
  // Samples of 12 bits, as the frame's header says.
  std::string jpeg = EncodeJpeg(Slopes(3), kHeight, kWidth);
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg[frame + 4] = 12;
  EXPECT_EQ(
      DecodeImage(jpeg, &image),
      absl::DataLossError("the JPEG file is of a kind that is not read: Unsupported JPEG data "
                          "precision 12; convert it to PNG"));
}

TEST(DecodeImageTest, AnImageTakesALargerOneAndThenASmallerOne) {
  RgbImage image;
  for (const int side : {40, 8, 64, 1}) {
    const Bytes pixels(3 * side * side, static_cast<uint8_t>(side));
    ASSERT_TRUE(DecodeImage(EncodePng(pixels, side, side), &image).ok());
    EXPECT_EQ(image.size.width, side);
    ASSERT_GE(image.pixels.size(), pixels.size());
    EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), image.pixels.begin()));
  }
}

TEST(DecodeImageTest, FilesThatEndTooSoonAreDamaged) {
  for (const std::string& file :
       {EncodeJpeg(Slopes(3), kHeight, kWidth), EncodePng(Slopes(3), kHeight, kWidth),
        EncodeJpeg(Slopes(3), kHeight, kWidth, {.progressive = true}),
        EncodePng(Slopes(3), kHeight, kWidth, {.interlaced = true}),
        *ReadFile(kGolden + "lossy.webp"), *ReadFile(kGolden + "lossless.webp"),
        *ReadFile(kGolden + "part.webp"), *ReadFile(kGolden + "palette.gif"),
        *ReadFile(kGolden + "rgb.bmp"), *ReadFile(kGolden + "palette.bmp"),
        *ReadFile(kGolden + "deflate.tif")}) {
    RgbImage image;
    ASSERT_TRUE(DecodeImage(file, &image).ok());
    // What stands behind the pixels may be missing: GIF's end, the second frame of what moves.
    const bool ends_with_pixels = file[0] != 'G' && file.substr(12, 4) != "VP8X";
    const size_t end = ends_with_pixels ? file.size() : file.size() / 3;
    for (size_t size = 18; size < end; size += 13) {
      const absl::Status status = DecodeImage(file.substr(0, size), &image);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << size << " of " << file.size();
      EXPECT_THAT(std::string(status.message()), HasSubstr("file is damaged: "));
    }
    EXPECT_TRUE(!ends_with_pixels || !DecodeImage(file.substr(0, file.size() - 1), &image).ok());
  }
}

// The libraries give up, or show what they can: that is theirs to say, as long as it ends.
TEST(DecodeImageTest, ChangedBytesAreSurvived) {
  int refused = 0;
  for (const std::string& file :
       {EncodeJpeg(Slopes(3), kHeight, kWidth), EncodePng(Slopes(3), kHeight, kWidth),
        *ReadFile(kGolden + "lossy.webp"), *ReadFile(kGolden + "part.webp"),
        *ReadFile(kGolden + "animated.gif"), *ReadFile(kGolden + "palette.bmp"),
        *ReadFile(kGolden + "lzw.tif")}) {
    RgbImage image;
    for (size_t at = 0; at < file.size(); ++at) {
      std::string changed = file;
      changed[at] ^= static_cast<char>(1 << at % 8);
      refused += !DecodeImage(changed, &image).ok();
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(DecodeImageTest, OtherFilesAreRefused) {
  RgbImage image;
  EXPECT_EQ(DecodeImage("<svg>..", &image),
            absl::DataLossError("expected a picture (JPEG, PNG, WebP, GIF, TIFF, BMP), got text"));
  EXPECT_FALSE(IsImage("<svg>.."));
  EXPECT_EQ(
      ReadImageSize("").status(),
      absl::DataLossError("expected a picture (JPEG, PNG, WebP, GIF, TIFF, BMP), got nothing: "
                          "it is empty"));
  EXPECT_THAT(
      std::string(DecodeImage("version https://git-lfs.github.com/spec/v1\n", &image).message()),
      HasSubstr("got a Git LFS pointer instead of the file itself; git lfs pull fetches it"));
  // Advice would have to name the file, which only the caller knows.
  EXPECT_EQ(DecodeImage("\x1f\x8b\x08", &image),
            absl::DataLossError("expected a picture (JPEG, PNG, WebP, GIF, TIFF, BMP), got gzip "
                                "compressed data"));
}

// Nothing near what these announce is allocated: the test would not get it.
TEST(DecodeImageTest, HugePicturesAreRefusedByTheirHeader) {
  std::string jpeg = EncodeJpeg(Slopes(3), kHeight, kWidth);
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (int i = 5; i < 9; ++i) jpeg[frame + i] = static_cast<char>(0xfe);  // height, width
  std::string png = EncodePng(Slopes(3), kHeight, kWidth);
  png.replace(16, 8, std::string("\x7f\xff\xff\xff\x00\x00\xff\xff", 8));
  png.replace(29, 4, "\x92\xfa\x96\xd3");  // the checksum of that header
  std::string gif = *ReadFile(kGolden + "palette.gif"), bmp = *ReadFile(kGolden + "rgb.bmp");
  gif.replace(6, 4, "\xff\xff\xff\xff");
  bmp.replace(18, 8, std::string("\xff\xff\0\0\xff\xff\0\0", 8));
  std::string tiff = *ReadFile(kGolden + "raw.tif");
  // The entry of the width, 256, as one u32.
  const size_t entry = tiff.find(std::string("\0\1", 2), Take<uint32_t>(tiff, 4));
  ASSERT_NE(entry, std::string::npos);
  tiff.replace(entry + 2, 10, std::string("\4\0\1\0\0\0\xff\xff\xff\0", 10));
  RgbImage image;
  for (const std::string& file : {jpeg, png, gif, bmp, tiff}) {
    for (const absl::Status& status : {DecodeImage(file, &image), ReadImageSize(file).status()}) {
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("expected a picture of at most 67108864 pixels, got one of "));
    }
  }
  EXPECT_TRUE(image.pixels.empty());
}

// Each scan takes as long as the first, however short it is.
TEST(DecodeImageTest, AJpegOfManyScansIsRefused) {
  const std::string jpeg =
      EncodeJpeg(Slopes(1), kHeight, kWidth, {.components = 1, .progressive = true});
  const size_t last = jpeg.rfind("\xff\xda");
  std::string many = jpeg.substr(0, jpeg.size() - 2);
  for (int i = 0; i < 100; ++i) many += jpeg.substr(last, jpeg.size() - 2 - last);
  many += "\xff\xd9";
  RgbImage image;
  EXPECT_EQ(DecodeImage(many, &image),
            absl::DataLossError("the JPEG file is of a kind that is not read: expected at most 64 "
                                "scans; convert it to PNG"));
}

}  // namespace
}  // namespace sluice
