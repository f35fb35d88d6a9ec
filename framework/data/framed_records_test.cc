#include "framework/data/framed_records.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "framework/data/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Framing kBoth[] = {Framing::kTfRecord, Framing::kOfRecord};

std::string Framed(Framing framing, const std::vector<std::string>& records) {
  std::string bytes;
  for (const std::string& record : records) AppendFramed(framing, record, &bytes);
  return bytes;
}

absl::StatusOr<FramedRecords> OpenBytes(Framing framing, const std::string& bytes) {
  return FramedRecords::Open(framing, RandomAccessFile::OfBytes("file", bytes));
}

absl::StatusOr<std::vector<std::string>> ReadAll(const FramedRecords& records) {
  std::vector<std::string> all(records.num_records());
  for (int64_t i = 0; i < records.num_records(); ++i) {
    const absl::Status status = records.Read(i, &all[i]);
    if (!status.ok()) return status;
  }
  return all;
}

// What is wrong with some bytes, wherever it is found.
std::string Damage(Framing framing, const std::string& bytes) {
  const auto records = OpenBytes(framing, bytes);
  return std::string(records.ok() ? ReadAll(*records).status().message()
                                  : records.status().message());
}

// As TensorFlow's own writer has it.
TEST(FramedRecordsTest, AFrameIsTensorFlows) {
  EXPECT_EQ(absl::BytesToHexString(Framed(Framing::kTfRecord, {"hello"})),
            "0500000000000000eab2043e68656c6c6fbb1f1c19");
  EXPECT_EQ(absl::BytesToHexString(Framed(Framing::kOfRecord, {"hello"})),
            "050000000000000068656c6c6f");
}

TEST(FramedRecordsTest, RecordsOfAFileAreFoundByTheirLengths) {
  // Heads that are read many at once, and one behind a long record.
  const std::vector<std::string> records = {"first", std::string(100000, 'x'), "3",
                                            "4",     std::string(70000, 'y'),  "6"};
  for (const Framing framing : kBoth) {
    const std::string path = ::testing::TempDir() + "/records";
    std::ofstream(path, std::ios::binary) << Framed(framing, records);
    auto file = RandomAccessFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto opened = FramedRecords::Open(framing, *std::move(file));
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->cut_bytes(), 0);
    EXPECT_EQ(opened->bytes(), std::filesystem::file_size(path));
    EXPECT_EQ(ReadAll(*opened).value(), records);
    EXPECT_EQ(opened->begin(1), framing == Framing::kTfRecord ? 21 : 13);
    std::filesystem::resize_file(path, 20);
    std::string record;
    EXPECT_THAT(std::string(opened->Read(1, &record).message()),
                HasSubstr("of the file that was opened, got 0"));
  }
  EXPECT_THAT(
      ReadAll(*OpenBytes(Framing::kTfRecord, Framed(Framing::kTfRecord, {"", "a"}))).value(),
      ElementsAre("", "a"));
  EXPECT_EQ(OpenBytes(Framing::kOfRecord, "")->num_records(), 0);
}

TEST(FramedRecordsTest, EveryFlippedByteOfATfRecordIsNamed) {
  const std::string bytes = Framed(Framing::kTfRecord, {"hello", "a longer record"});
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x40);
    const std::string place = at < 21 ? "record 0 at byte 0" : "record 1 at byte 21";
    const size_t within = at < 21 ? at : at - 21;
    EXPECT_THAT(Damage(Framing::kTfRecord, flipped),
                StartsWith(absl::StrCat("data: file: ", place, ": expected a ",
                                        within < 12 ? "length" : "record", " of checksum ")))
        << at;
  }
}

TEST(FramedRecordsTest, ATailThatIsCutIsLeftOutAndCounted) {
  for (const Framing framing : kBoth) {
    const std::string first = Framed(framing, {"hello"}), all = first + Framed(framing, {"more"});
    for (size_t size = 0; size < all.size(); ++size) {
      const auto records = OpenBytes(framing, all.substr(0, size));
      ASSERT_TRUE(records.ok()) << records.status();
      const bool whole = size >= first.size();
      EXPECT_EQ(records->num_records(), whole ? 1 : 0) << size;
      EXPECT_EQ(records->cut_bytes(), whole ? size - first.size() : size) << size;
    }
  }
}

TEST(FramedRecordsTest, LengthsThatNoRecordHasAreRefused) {
  const std::string first = Framed(Framing::kOfRecord, {"hello"});
  const std::string error =
      "data: file: record 1 at byte 13: expected a length of 1 to 2147483647 bytes, got ";
  EXPECT_EQ(Damage(Framing::kOfRecord, first + std::string(8, '\0')), error + "0");
  EXPECT_EQ(Damage(Framing::kOfRecord, first + std::string(8, '\xff')), error + "-1");
  EXPECT_EQ(Damage(Framing::kOfRecord, first + std::string("\0\0\0\x80\0\0\0\0", 8)),
            error + "2147483648");
}

}  // namespace
}  // namespace sluice
