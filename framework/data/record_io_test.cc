#include "framework/data/record_io.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kMagic("\x0a\x23\xd7\xce", 4);

// What MXNet 1.9 writes of label 3, id 7 and the bytes "abc".
TEST(RecordIoTest, ARecordIsMxnets) {
  const std::string bytes = absl::HexStringToBytes(
      "0a23d7ce1b00000000000000000040400700000000000000000000000000000061626300");
  EXPECT_EQ(RecordBytes({{3}, 7, 0, "abc"}), bytes);
  const auto record = ParseRecord(bytes);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_THAT(record->labels, ElementsAre(3));
  EXPECT_EQ(record->id, 7u);
  EXPECT_EQ(record->bytes, "abc");
}

// The head has 24 bytes, so that what follows keeps its place among the words.
TEST(RecordIoTest, ABodyThatHasTheMagicIsCutThereAndPutTogether) {
  for (const std::string& body : {"1234" + kMagic + "56", kMagic, kMagic + kMagic + "1",
                                  "12" + kMagic + "34", "1234" + kMagic}) {
    const std::string bytes = RecordBytes({{1, 2}, 0, 0, body});
    const auto record = ParseRecord(bytes);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->bytes, body);
    EXPECT_THAT(record->labels, ElementsAre(1, 2));
    // Words that are the magic begin parts, and nothing else.
    size_t parts = 0, lengths = 0;
    for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
      if (bytes.compare(at, 4, kMagic) != 0) continue;
      ++parts;
      lengths += static_cast<uint8_t>(bytes[at + 4]);
    }
    EXPECT_EQ(lengths + 4 * (parts - 1), 24 + 8 + body.size());
  }
}

class RecordFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".rec";
  }
  std::string Index() const { return path_.substr(0, path_.size() - 4) + ".idx"; }
  std::string OpenError() { return std::string(RecordFile::Open(path_).status().message()); }
  std::string path_;
};

TEST_F(RecordFileTest, RecordsAreFoundByTheirKeys) {
  ASSERT_TRUE(WriteRecords(path_, {{0, {{3, 5}, 0, 0, ""}},
                                   {1, {{7}, 1, 0, "first"}},
                                   {2, {{8}, 2, 0, "1234" + kMagic + "5"}}})
                  .ok());
  const auto file = RecordFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->keys(), ElementsAre(0, 1, 2));
  EXPECT_THAT(file->Read(0)->labels, ElementsAre(3, 5));
  EXPECT_EQ(file->Read(1)->bytes, "first");
  EXPECT_EQ(file->Read(2)->bytes, "1234" + kMagic + "5");
  EXPECT_THAT(std::string(file->Read(3).status().message()),
              HasSubstr("expected a record of key 3, got none"));
}

TEST_F(RecordFileTest, DamageIsNamed) {
  EXPECT_THAT(OpenError(), HasSubstr(path_));
  ASSERT_TRUE(WriteRecords(path_, {{0, {{1}, 0, 0, "a picture"}}, {1, {{1}, 0, 0, "b"}}}).ok());
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 8);
  const auto cut = RecordFile::Open(path_);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_TRUE(cut->Read(0).ok());
  EXPECT_EQ(cut->Read(1).status().message(),
            path_ + ": record 1: expected a record of 25 bytes, got 20");
  std::ofstream(Index()) << "0\tx\n";
  EXPECT_THAT(OpenError(), HasSubstr(".idx: line 1: expected a key, a tab and a place, got 0\tx"));
  std::ofstream(Index()) << "0\t4\n";
  EXPECT_THAT(std::string(RecordFile::Open(path_)->Read(0).status().message()),
              HasSubstr("record 0: expected a record, which begins with ced7230a, got "));
  std::ofstream(Index()) << "0\t0\n0\t0\n";
  EXPECT_THAT(OpenError(), HasSubstr("line 2: expected each key once"));
  std::ofstream(Index()) << "";
  EXPECT_THAT(OpenError(), HasSubstr("expected keys of records, got none"));
}

TEST(RecordIoTest, LabelsThatAreNotThereAreRefused) {
  std::string bytes = RecordBytes({{1, 2}, 0, 0, ""});
  bytes[8] = 100;
  EXPECT_EQ(ParseRecord(bytes).status().message(),
            "expected 100 labels, got 8 bytes behind the head");
  bytes = RecordBytes({{1}, 0, 0, ""});
  bytes[7] = 0x20;  // a first part, behind which nothing comes
  EXPECT_THAT(std::string(ParseRecord(bytes).status().message()),
              HasSubstr("a record's head of 8 bytes, got 0"));
}

}  // namespace
}  // namespace sluice
