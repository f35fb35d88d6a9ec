#include "framework/checkpoint/json.h"

#include <ctime>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::string Nested(int levels) {
  return "{\"a\":" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
}

std::string Error(const std::string& text) {
  const absl::Status status = CheckJsonObject(text, "file");
  EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
  return std::string(status.message());
}

TEST(JsonTest, TakesAnObjectOfSixteenLevels) {
  EXPECT_EQ(Error(R"({"b": {"a": [1, -2, 0.5, "x", true]}, "a": null})"), "");
  EXPECT_EQ(Error(Nested(16)), "");
}

TEST(JsonTest, RefusesWhatIsNoSoundObject) {
  const std::string none = "file: expected a JSON object of at most 16 levels, got ";
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("[{}]"), std::string("7"), std::string("{"),
        std::string("{} {}"), std::string("{\"a\":1}\0", 8), std::string("{\"\xed\xa0\x80\":1}"),
        Nested(17), Nested(1'000'000)}) {
    EXPECT_THAT(Error(text), HasSubstr(none)) << text.substr(0, 40);
  }
  EXPECT_EQ(Error(R"({"a": {"b": 1, "c": 2, "b": 1}})"),
            "file: expected each key once, got b twice");
}

// Of the processor, so that what else the machine does counts for nothing.
double SecondsOf(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Where each name costs a look at those before it, either of these takes minutes.
TEST(JsonTest, ManyNamesTakeNoLong) {
  constexpr int kNames = 300'000;
  constexpr double kMostSeconds = 30;
  std::string header = "{";
  Manifest manifest;
  for (int i = 0; i < kNames; ++i) {
    const std::string name = absl::StrCat("h", i, "/weight");
    absl::StrAppend(&header, i == 0 ? "" : ",", "\"", name,
                    "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}");
    manifest.types[name] = "f32[0]";
    manifest.digests[name] = "0";
  }
  header += "}";
  const std::string path = ::testing::TempDir() + "/many.safetensors";
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  auto file = FileWriter::Create(path);
  ASSERT_TRUE(file.ok() && file->Append(length + header).ok() && file->Close().ok());
  EXPECT_LT(SecondsOf([&] {
              const auto reader = SafetensorsReader::Open(path);
              ASSERT_TRUE(reader.ok()) << reader.status();
              EXPECT_EQ(reader->entries().size(), kNames);
            }),
            kMostSeconds);
  const std::string text = PrintManifest(manifest);
  EXPECT_LT(SecondsOf([&] {
              const auto parsed = ParseManifest(text, "manifest");
              ASSERT_TRUE(parsed.ok()) << parsed.status();
              EXPECT_EQ(parsed->types.size(), kNames);
            }),
            kMostSeconds);
}

}  // namespace
}  // namespace sluice
