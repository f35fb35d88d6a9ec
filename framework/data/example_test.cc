#include "framework/data/example.h"

#include <string>
#include <vector>

#include "framework/data/file.h"
#include "framework/data/framed_records.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

using Bytes = std::vector<std::string>;
using Floats = std::vector<float>;
using Large = std::vector<int64_t>;
using Small = std::vector<int32_t>;
using Doubles = std::vector<double>;

const char kGolden[] = "framework/data/testdata/records/";

// What testdata/records_golden.py had others write.
Example GoldenOf(Framing framing, int64_t record) {
  Example example = {{"encoded", Bytes{std::string("\xff\xd8\xff\x00picture", 11)}},
                     {"weights", Floats{0.5f, -1, static_cast<float>(record)}}};
  if (framing == Framing::kTfRecord) {
    example["class/label"] = Large{-7 + record};
    example["ids"] = Large{1, int64_t{1} << 40, -1};
    return example;
  }
  example["class/label"] = Small{static_cast<int32_t>(-7 + record)};
  example["ids"] = Large{1, int64_t{1} << 40, -1};
  example["exact"] = Doubles{0.1};
  return example;
}

TEST(ExampleTest, ReadsWhatOthersWrote) {
  for (const Framing framing : {Framing::kTfRecord, Framing::kOfRecord}) {
    const bool tf = framing == Framing::kTfRecord;
    auto file =
        RandomAccessFile::Open(std::string(kGolden) + (tf ? "golden.tfrecord" : "part-00000"));
    ASSERT_TRUE(file.ok()) << file.status();
    const auto records = FramedRecords::Open(framing, *std::move(file));
    ASSERT_TRUE(records.ok()) << records.status();
    ASSERT_EQ(records->num_records(), 2);
    for (int64_t i = 0; i < 2; ++i) {
      std::string bytes;
      ASSERT_TRUE(records->Read(i, &bytes).ok());
      const auto example = ParseExample(framing, bytes);
      ASSERT_TRUE(example.ok()) << example.status();
      EXPECT_EQ(*example, GoldenOf(framing, i));
      // Theirs stand in an order of their own.
      EXPECT_EQ(ExampleBytes(framing, *example)->size(), bytes.size());
    }
  }
}

TEST(ExampleTest, WhatIsWrittenIsRead) {
  const Example all = {{"a", Bytes{"one", ""}}, {"b", Floats{1, 2}}, {"c", Large{3}},
                       {"d", Doubles{4}},       {"e", Small{-5}},    {"f", Feature()}};
  EXPECT_EQ(ParseExample(Framing::kOfRecord, *ExampleBytes(Framing::kOfRecord, all)).value(), all);
  EXPECT_EQ(
      ExampleBytes(Framing::kTfRecord, all).status(),
      absl::InvalidArgumentError("d: expected bytes, f32 or i64, as a TFRecord has, got f64"));
  Example tf = all;
  tf.erase("d");
  const auto read = ParseExample(Framing::kTfRecord, *ExampleBytes(Framing::kTfRecord, tf));
  ASSERT_TRUE(read.ok()) << read.status();
  tf["e"] = Large{-5};
  EXPECT_EQ(*read, tf);
  EXPECT_EQ(ExampleBytes(Framing::kTfRecord, {}).value(), std::string("\x0a\0", 2));
}

// The numbers of the lists differ: what the one calls i64 the other calls f64.
TEST(ExampleTest, OneIsNotReadAsTheOther) {
  const std::string tf = *ExampleBytes(Framing::kTfRecord, {{"label", Large{1}}});
  const auto as_other = ParseExample(Framing::kOfRecord, tf);
  EXPECT_FALSE(as_other.ok() && as_other->contains("label"));
  EXPECT_EQ(ParseExample(Framing::kOfRecord, "not one").status(),
            absl::DataLossError("expected an OFRecord, got 7 bytes that are none"));
  EXPECT_THAT(std::string(ParseExample(Framing::kTfRecord, tf.substr(1)).status().message()),
              HasSubstr("expected a tf.train.Example, got "));
}

TEST(ExampleTest, FeaturesAreFoundByNameAndType) {
  const Example example = {{"encoded", Bytes{"jpeg"}}, {"label", Small{3}}, {"many", Large{1, 2}}};
  EXPECT_EQ(**FindBytes(example, "encoded"), "jpeg");
  EXPECT_EQ(FindInteger(example, "label").value(), 3);
  EXPECT_EQ(FindBytes(example, "image").status(),
            absl::NotFoundError("expected a feature image, got encoded, label, many"));
  EXPECT_EQ(FindFeature({}, "x").status(), absl::NotFoundError("expected a feature x, got none"));
  EXPECT_EQ(FindBytes(example, "label").status(),
            absl::InvalidArgumentError("feature label: expected 1 of bytes, got 1 of i32"));
  EXPECT_EQ(FindInteger(example, "many").status(),
            absl::InvalidArgumentError("feature many: expected 1 of i64 or i32, got 2 of i64"));
}

}  // namespace
}  // namespace sluice
