#include "models/insightface/record_faces.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/encode_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int kSize = 16;

// Red grows to the right, by `step` a pixel.
std::vector<uint8_t> Pixels(int step) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < kSize * kSize; ++i) {
    pixels.insert(pixels.end(), {static_cast<uint8_t>(i % kSize * step), 7, 9});
  }
  return pixels;
}

PictureRecord Face(int step, float label, int size = kSize) {
  return {{label}, 0, 0, EncodePng(Pixels(step), size, kSize)};
}

class RecordFacesTest : public ::testing::Test {
 protected:
  void Write(const std::vector<std::pair<int64_t, PictureRecord>>& records) {
    path_ = ::testing::TempDir() + "/" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".rec";
    ASSERT_TRUE(WriteRecords(path_, records).ok());
  }
  absl::StatusOr<std::unique_ptr<RecordFaces>> Open(int64_t classes, bool flip = false) {
    return RecordFaces::Open(path_, {.image_size = kSize, .classes = classes, .flip = flip});
  }
  std::string Error(int64_t classes) { return std::string(Open(classes).status().message()); }
  std::string path_;
};

TEST_F(RecordFacesTest, IdentitiesBehindThePicturesAreNone) {
  Write({{0, {{3, 5}, 0, 0, ""}},
         {1, Face(1, 0)},
         {2, Face(2, 1)},
         {3, {{1, 2}, 0, 0, ""}},
         {4, {{2, 3}, 0, 0, ""}}});
  const auto faces = Open(2);
  ASSERT_TRUE(faces.ok()) << faces.status();
  ASSERT_EQ((*faces)->num_samples(), 2);
  std::vector<uint8_t> pixels(2 * kSize * kSize * 3);
  const Box whole = {{0, kSize}, {0, kSize}, {0, 3}};
  ASSERT_TRUE(
      (*faces)->Fill(0, {1, 0}, 0, whole, reinterpret_cast<std::byte*>(pixels.data())).ok());
  std::vector<uint8_t> expected = Pixels(2);
  const std::vector<uint8_t> second = Pixels(1);
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(pixels, expected);
  int32_t labels[2] = {};
  ASSERT_TRUE((*faces)->Fill(1, {1, 0}, 0, {}, reinterpret_cast<std::byte*>(labels)).ok());
  EXPECT_THAT(labels, ::testing::ElementsAre(1, 0));
  EXPECT_EQ((*faces)->identity(), (*Open(2))->identity());
}

TEST_F(RecordFacesTest, APictureIsMirroredByItsPositionAlone) {
  Write({{0, Face(1, 0)}, {1, Face(2, 1)}});
  const auto faces = Open(2, /*flip=*/true);
  ASSERT_TRUE(faces.ok()) << faces.status();
  int flipped = 0;
  for (int64_t position = 0; position < 100; ++position) {
    uint8_t pixel[3];
    // One pixel, the first of the third row.
    const Box box = {{2, 3}, {0, 1}, {0, 3}};
    ASSERT_TRUE((*faces)->Fill(0, {0}, position, box, reinterpret_cast<std::byte*>(pixel)).ok());
    EXPECT_TRUE(pixel[0] == 0 || pixel[0] == kSize - 1) << int{pixel[0]};
    flipped += pixel[0] == 0 ? 0 : 1;
  }
  EXPECT_GT(flipped, 30);
  EXPECT_LT(flipped, 70);
}

// Of many records every one counts, and where the file is stored does not.
TEST_F(RecordFacesTest, IdentityIsOfEveryRecord) {
  std::vector<std::pair<int64_t, PictureRecord>> records;
  for (int64_t key = 0; key < 40; ++key) records.emplace_back(key, Face(3, 1));
  Write(records);
  const DataIdentity identity = (*Open(2))->identity();
  for (const int64_t key : {0, 5, 39}) {
    std::vector<std::pair<int64_t, PictureRecord>> changed = records;
    changed[key].second.id = 1;  // of the same size
    Write(changed);
    EXPECT_EQ((*Open(2))->identity().bytes, identity.bytes);
    EXPECT_NE((*Open(2))->identity(), identity) << key;
  }
  // The same bytes under other keys are other data.
  records.back().first = 50;
  Write(records);
  EXPECT_NE((*Open(2))->identity(), identity);
}

TEST_F(RecordFacesTest, WhatDoesNotFitIsNamed) {
  Write({{0, Face(1, 0)}, {1, Face(2, 5)}});
  EXPECT_EQ(Error(5), path_ + ": record 1: expected a whole label below --classes, 5, got 5");
  PictureRecord part = Face(2, 1);
  for (const float label : {1.5f, std::nanf(""), HUGE_VALF}) {
    part.labels = {label};
    Write({{0, Face(1, 0)}, {1, part}});
    EXPECT_EQ(Error(5), absl::StrCat(path_,
                                     ": record 1: expected a whole label below --classes, 5, "
                                     "got ",
                                     label));
    Write({{0, {{label == 1.5f ? -1 : label, 3}, 0, 0, ""}}, {1, Face(1, 0)}});
    EXPECT_THAT(Error(5), HasSubstr("record 0: expected the key behind the last picture, got "));
  }
  Write({{0, Face(1, 0, 8)}});
  EXPECT_EQ(Error(5), path_ + ": record 0: expected a picture of 16 x 16, got 8 x 16");
  Write({{0, {{1}, 0, 0, "no picture"}}});
  EXPECT_THAT(Error(5), HasSubstr(": record 0: "));
  Write({{0, {{1, 1}, 0, 0, ""}}});
  EXPECT_EQ(Error(5), path_ + ": expected records of pictures, got none");
}

}  // namespace
}  // namespace sluice
