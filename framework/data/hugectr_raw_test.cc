#include "framework/data/hugectr_raw.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

absl::StatusOr<HugeCtrRaw> OpenBytes(const RawColumns& columns, std::string bytes) {
  return HugeCtrRaw::Open(columns, RandomAccessFile::OfBytes("file", std::move(bytes)));
}

constexpr RawColumns kSmall = {.labels = 1, .numbers = 2, .keys = 3};

TEST(HugeCtrRawTest, CriteosSampleTakes160Bytes) { EXPECT_EQ(RawColumns().SampleBytes(), 160); }

// Made by hand: label, numbers, keys.
TEST(HugeCtrRawTest, ASampleIsFourBytesAValue) {
  RawColumns columns = kSmall;
  const RawSample sample = {{1}, {0.5f, 3}, {7, 0xffffffff, 0}};
  const std::string keys = "07000000ffffffff00000000";
  EXPECT_EQ(absl::BytesToHexString(RawBytes(columns, sample)), "0000803f0000003f00004040" + keys);
  columns.floats = false;
  EXPECT_EQ(absl::BytesToHexString(RawBytes(columns, sample)), "010000000000000003000000" + keys);
  const auto raw = OpenBytes(columns, RawBytes(columns, sample));
  ASSERT_TRUE(raw.ok()) << raw.status();
  const auto samples = raw->Read(0, 1);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_THAT((*samples)[0].labels, ElementsAre(1));
  EXPECT_THAT((*samples)[0].numbers, ElementsAre(0, 3));
  EXPECT_THAT((*samples)[0].keys, ElementsAre(7, 0xffffffff, 0));
}

TEST(HugeCtrRawTest, IntegersThatNumbersDoNotFitAreTheNearest) {
  const RawColumns columns = {.labels = 1, .numbers = 3, .keys = 0, .floats = false};
  EXPECT_EQ(
      absl::BytesToHexString(RawBytes(columns, {{1}, {-2, std::nanf(""), 4294967296.0f}, {}})),
      "010000000000000000000000ffffffff");
}

TEST(HugeCtrRawTest, AnySampleIsFoundByItsNumberAndACutOneIsCounted) {
  std::string bytes;
  for (uint32_t i = 0; i < 5; ++i) {
    bytes += RawBytes(kSmall, {{static_cast<float>(i)}, {0, std::nanf("")}, {i, 10 * i, 100 * i}});
  }
  for (size_t cut = 0; cut < 24; ++cut) {
    const auto raw = OpenBytes(kSmall, bytes.substr(0, bytes.size() - cut));
    ASSERT_TRUE(raw.ok()) << raw.status();
    EXPECT_EQ(raw->num_samples(), cut == 0 ? 5 : 4);
    EXPECT_EQ(raw->cut_bytes(), cut == 0 ? 0 : 24 - cut);
  }
  const auto samples = OpenBytes(kSmall, bytes)->Read(2, 2);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_THAT((*samples)[0].keys, ElementsAre(2, 20, 200));
  EXPECT_THAT((*samples)[1].labels, ElementsAre(3));
  EXPECT_TRUE(std::isnan((*samples)[1].numbers[1]));
}

TEST(HugeCtrRawTest, WhatIsNoLabelIsNamedWithItsPlace) {
  const RawSample sample = {{0}, {0, 0}, {0, 0, 0}};
  RawSample wrong = sample;
  wrong.labels[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(
      OpenBytes(kSmall, RawBytes(kSmall, sample) + RawBytes(kSmall, wrong))->Read(0, 2).status(),
      absl::DataLossError("data: file: sample 1 at byte 24: expected a label, got inf"));
  wrong = sample;
  wrong.numbers[1] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(
      OpenBytes(kSmall, RawBytes(kSmall, sample) + RawBytes(kSmall, wrong))->Read(0, 2).status(),
      absl::DataLossError("data: file: sample 1 at byte 24: expected number 2 to be finite, or NaN "
                          "where it is missing, got -inf"));
  EXPECT_EQ(OpenBytes({.labels = 0, .numbers = 2, .keys = 1}, "").status(),
            absl::InvalidArgumentError("data: file: expected at least one label, and no more than "
                                       "65536 columns of a kind, got 0 labels, 2 numbers and 1 "
                                       "keys"));
}

}  // namespace
}  // namespace sluice
