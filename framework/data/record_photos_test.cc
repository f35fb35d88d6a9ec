#include "framework/data/record_photos.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/encode_testing.h"
#include "framework/data/pack_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using Bytes = std::vector<std::string>;

// Of one grey.
std::string Picture(int grey) {
  return EncodePng(std::vector<uint8_t>(8 * 8 * 3, static_cast<uint8_t>(grey)), 8, 8);
}

// Four pictures of greys 0, 50, 100 and 150, and classes 0 to 3.
std::string Records(Framing framing) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) {
    Example example;
    if (framing == Framing::kTfRecord) {
      example = {{"image/encoded", Bytes{Picture(50 * i)}},
                 {"image/class/label", std::vector<int64_t>{i}}};
    } else {
      example = {{"encoded", Bytes{Picture(50 * i)}}, {"class/label", std::vector<int32_t>{i}}};
    }
    AppendFramed(framing, *ExampleBytes(framing, example), &bytes);
  }
  return bytes;
}

std::string Write(const std::string& name, const std::string& bytes) {
  std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

absl::StatusOr<std::shared_ptr<const PhotoRecords>> Open(const std::string& path) {
  return OpenPhotoRecords(FramingOfName(path).value(), path, {path});
}

PhotoView SmallView() {
  PhotoView view;
  view.height = view.width = 4;
  return view;
}

TEST(RecordPhotosTest, ASampleIsARecordsPictureAndItsClass) {
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"a.tfrecord", Records(Framing::kTfRecord)},
           {"a.tfrecord.zst", Zstandard(Records(Framing::kTfRecord))},
           {"part-00000", Records(Framing::kOfRecord)}}) {
    const auto file = Open(Write(name, bytes));
    ASSERT_TRUE(file.ok()) << file.status();
    const auto data = PhotoDataset::Open(
        "pictures", std::make_unique<RecordPhotos>(*file, std::vector<int64_t>{1, 3, 2}, 4),
        SmallView());
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ((*data)->num_samples(), 3);
    const std::vector<int64_t> samples = {2, 0, 1};
    std::vector<int32_t> labels(3);
    std::vector<uint8_t> pixels(3 * 4 * 4 * 3);
    ASSERT_TRUE((*data)->Fill(1, samples, 0, {}, reinterpret_cast<std::byte*>(labels.data())).ok());
    EXPECT_THAT(labels, ::testing::ElementsAre(2, 1, 3));
    ASSERT_TRUE((*data)
                    ->Fill(0, samples, 0, {{0, 4}, {0, 4}, {0, 3}},
                           reinterpret_cast<std::byte*>(pixels.data()))
                    .ok());
    EXPECT_EQ(pixels[0], 100);
    EXPECT_EQ(pixels[48], 50);
    EXPECT_EQ(pixels[96], 150);
  }
}

TEST(RecordPhotosTest, TheIdentityIsOfTheRecordsBytes) {
  const auto identity = [](const std::string& name, const std::string& bytes,
                           std::vector<int64_t> records) {
    const RecordPhotos photos(*Open(Write(name, bytes)), std::move(records), 4);
    return *Identify(photos.Parts(), {});
  };
  const std::string bytes = Records(Framing::kOfRecord);
  const auto of_two = identity("i.ofrecord", bytes, {0, 1});
  EXPECT_EQ(identity("elsewhere.ofrecord", bytes, {0, 1}), of_two);
  EXPECT_NE(identity("i.ofrecord", bytes, {0, 2}).digest, of_two.digest);
  EXPECT_NE(identity("i.ofrecord", bytes, {1, 0}).digest, of_two.digest);
  for (size_t byte = bytes.find(Picture(50)); byte < bytes.find(Picture(50)) + 20; ++byte) {
    std::string other = bytes;
    other[byte] ^= 1;
    EXPECT_NE(identity("i.ofrecord", other, {0, 1}).digest, of_two.digest);
    // The same for whoever does not see this record.
    EXPECT_EQ(identity("i.ofrecord", other, {0, 2}), identity("i.ofrecord", bytes, {0, 2}));
  }
}

// Of a record to learn from the class must be known; a held-out one counts as a gray picture.
TEST(RecordPhotosTest, ADamagedHeldOutRecordIsNamedAndEndsNothing) {
  std::string bytes = Records(Framing::kTfRecord);
  bytes[bytes.find(Picture(100)) + 30] ^= 1;
  const std::string path = Write("held_out.tfrecord", bytes);
  const auto open = [&](PhotoUse use) {
    return PhotoDataset::Open(
        "pictures", std::make_unique<RecordPhotos>(*Open(path), std::vector<int64_t>{3, 2, 1}, 4),
        SmallView(), use);
  };
  EXPECT_THAT(std::string(open(PhotoUse::kTraining).status().message()),
              HasSubstr("held_out.tfrecord: record 2 at byte "));
  ::testing::internal::CaptureStderr();
  const auto data = open(PhotoUse::kHeldOut);
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<int32_t> labels(3);
  std::vector<uint8_t> pixels(3 * 4 * 4 * 3);
  const absl::Status seen = (*data)->Fill(0, {0, 1, 2}, 0, {{0, 4}, {0, 4}, {0, 3}},
                                          reinterpret_cast<std::byte*>(pixels.data()));
  EXPECT_TRUE((*data)->Fill(1, {0, 1, 2}, 0, {}, reinterpret_cast<std::byte*>(labels.data())).ok());
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(seen.ok()) << seen;
  EXPECT_THAT(labels, ::testing::ElementsAre(3, 0, 1));
  EXPECT_EQ(pixels[0], 150);
  EXPECT_EQ(pixels[48], 128);
  EXPECT_EQ(pixels[96], 50);
  EXPECT_THAT(warnings, HasSubstr("pictures: record 2 at byte "));
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 1);
}

TEST(RecordPhotosTest, WhatDoesNotFitIsNamedWithItsPlace) {
  const auto error = [](const std::string& name, const std::string& bytes, int64_t classes) {
    const auto file = Open(Write(name, bytes));
    if (!file.ok()) return std::string(file.status().message());
    std::vector<int64_t> all((*file)->records.num_records());
    std::iota(all.begin(), all.end(), 0);
    auto photos = std::make_unique<RecordPhotos>(*file, all, classes);
    return std::string(
        PhotoDataset::Open("pictures", std::move(photos), SmallView()).status().message());
  };
  const std::string folder = "data: " + ::testing::TempDir() + "/";
  EXPECT_EQ(error("none.tfrecord", "", 4),
            folder + "none.tfrecord: expected records, got none in 0 bytes");
  const std::string bytes = Records(Framing::kTfRecord);
  const auto whole =
      FramedRecords::Open(Framing::kTfRecord, RandomAccessFile::OfBytes("whole", bytes));
  ASSERT_TRUE(whole.ok()) << whole.status();
  const int64_t second = whole->begin(1), last = whole->begin(3);
  EXPECT_EQ(error("few.tfrecord", bytes, 3),
            absl::StrCat(folder, "few.tfrecord: record 3 at byte ", last,
                         ": expected image/class/label below --classes, 3, got 3"));
  std::string damaged = bytes;
  damaged[second + 40] ^= 1;
  EXPECT_THAT(error("damaged.tfrecord", damaged, 4),
              StartsWith(absl::StrCat(folder, "damaged.tfrecord: record 1 at byte ", second,
                                      ": expected a record of checksum ")));
  std::string other;
  AppendFramed(Framing::kOfRecord,
               *ExampleBytes(Framing::kOfRecord, {{"pixels", Bytes{"x"}}, {"label", Feature()}}),
               &other);
  EXPECT_EQ(error("other.ofrecord", other, 4),
            folder +
                "other.ofrecord: record 0 at byte 0: expected a feature encoded, got label, "
                "pixels");
  EXPECT_THAT(error("part-1", bytes, 4), HasSubstr("record "));
}

}  // namespace
}  // namespace sluice
