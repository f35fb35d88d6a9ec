#include "framework/data/record_parts.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/file.h"
#include "framework/data/pack_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A new folder with files of these names below it, each with the records given.
class RecordPartsTest : public ::testing::Test {
 protected:
  RecordPartsTest() { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::vector<std::string>& records = {},
                    const std::string& after = "", Framing framing = Framing::kTfRecord) {
    std::string bytes, path = absl::StrCat(folder_, "/", name);
    for (const std::string& record : records) AppendFramed(framing, record, &bytes);
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes << after;
    return path;
  }
  // The names of files below the folder.
  std::vector<std::string> Below(const std::vector<std::string>& paths) const {
    std::vector<std::string> names;
    for (const std::string& path : paths) {
      names.push_back(fs::path(path).lexically_relative(folder_).string());
    }
    return names;
  }
  std::string ErrorOf(const std::string& path) const {
    return std::string(ListRecordFiles(path).status().message());
  }

  const std::string folder_ = absl::StrCat(
      ::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(RecordPartsTest, TheNameSaysTheFraming) {
  for (const char* name : {"a.tfrecord", "b/a.tfrecords", "a.tfrecord.gz", "a.tfrecords.zst",
                           "train-00000-of-01024", "of-8/val-x-7-of-8.gz"}) {
    EXPECT_EQ(FramingOfName(name).value(), Framing::kTfRecord) << name;
  }
  for (const char* name : {"a.ofrecord", "b/part-00017", "a.ofrecord.zst"}) {
    EXPECT_EQ(FramingOfName(name).value(), Framing::kOfRecord) << name;
  }
  for (const char* name :
       {"part-0/a.txt", "1-of-8", "train--of-8", "train-1-of-", "train-1-in-8"}) {
    EXPECT_EQ(FramingOfName(name).status(),
              absl::NotFoundError(absl::StrCat("data: ", name,
                                               ": expected a file NAME.tfrecord, NAME-1-of-8, "
                                               "NAME.ofrecord or part-NUMBER")));
  }
}

TEST_F(RecordPartsTest, AFileIsItsOnlyPart) {
  const auto files = ListRecordFiles("some/a.ofrecord");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->framing, Framing::kOfRecord);
  EXPECT_THAT(files->training, ElementsAre("some/a.ofrecord"));
  EXPECT_THAT(files->held_out, IsEmpty());
}

TEST_F(RecordPartsTest, FilesOfAFolderAreInOrderOfTheirNamesAndOthersLeftOut) {
  for (const char* name : {"part-00001", "part-00000", "_SUCCESS", ".part-00000.crc"}) Write(name);
  fs::create_directories(folder_ + "/part-folder");
  const auto files = ListRecordFiles(folder_);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->framing, Framing::kOfRecord);
  EXPECT_THAT(Below(files->training), ElementsAre("part-00000", "part-00001"));
  EXPECT_THAT(files->held_out, IsEmpty());
}

TEST_F(RecordPartsTest, FoldersOrNamesTellWhatIsHeldOut) {
  for (const char* name : {"named/validation-0-of-1", "named/train-1-of-2", "named/train-0-of-2",
                           "apart/train/part-1", "apart/val/part-1", "apart/part-9"}) {
    Write(name);
  }
  const auto named = ListRecordFiles(folder_ + "/named");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(Below(named->training), ElementsAre("named/train-0-of-2", "named/train-1-of-2"));
  EXPECT_THAT(Below(named->held_out), ElementsAre("named/validation-0-of-1"));
  const auto apart = ListRecordFiles(folder_ + "/apart");
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_THAT(Below(apart->training), ElementsAre("apart/train/part-1"));
  EXPECT_THAT(Below(apart->held_out), ElementsAre("apart/val/part-1"));
}

TEST_F(RecordPartsTest, WhatIsNoSetOfPartsIsNamed) {
  Write("pictures/cat/1.jpg");
  EXPECT_EQ(ListRecordFiles(folder_ + "/pictures").status(),
            absl::NotFoundError(absl::StrCat("data: ", folder_,
                                             "/pictures: expected files of records to learn from, "
                                             "got none")));
  Write("mixed/a.ofrecord");
  Write("mixed/b.tfrecord");
  EXPECT_THAT(ErrorOf(folder_ + "/mixed"),
              HasSubstr("mixed/b.tfrecord: expected OFRecord by its name"));
  Write("two/train/part-1");
  Write("two/val/a.tfrecord");
  EXPECT_THAT(ErrorOf(folder_ + "/two"), HasSubstr("val/a.tfrecord: expected OFRecord"));
  Write("part/val-0.tfrecord");
  Write("part/other.tfrecord");
  EXPECT_THAT(ErrorOf(folder_ + "/part"),
              HasSubstr("other.tfrecord: expected a name that begins with train-"));
  Write("none/val-0.tfrecord");
  EXPECT_THAT(ErrorOf(folder_ + "/none"), HasSubstr("expected files of records to learn from"));
}

TEST_F(RecordPartsTest, RecordsAreCountedOverAllFilesAndNamedByTheirOwn) {
  const std::vector<std::string> files = {Write("0.tfrecord", {"a", "bc"}, "cut"),
                                          Write("1.tfrecord"), Write("2.tfrecord", {"def"}, "x")};
  const auto parts = RecordParts::Open(Framing::kTfRecord, folder_, files);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->num_records(), 3);
  EXPECT_EQ(parts->bytes(), 3 * 16 + 6 + 4);
  EXPECT_EQ(parts->cut_bytes(), 4);
  std::vector<std::string> records(3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(parts->Read(i, &records[i]).ok());
  EXPECT_THAT(records, ElementsAre("a", "bc", "def"));
  EXPECT_EQ(parts->Name(1), absl::StrCat("data: ", files[0], ": record 1 at byte 17"));
  EXPECT_EQ(parts->NameBelow(2), "2.tfrecord: record 0 at byte 0");
  const auto one = RecordParts::Open(Framing::kTfRecord, files[0], {files[0]});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->NameBelow(1), "record 1 at byte 17");
  EXPECT_EQ(RecordParts::Open(Framing::kTfRecord, folder_, {files[1]}).status(),
            absl::DataLossError(
                absl::StrCat("data: ", folder_, ": expected records, got none in 0 bytes")));
}

// As TFRecordWriter(options="GZIP") writes it, which gives it no other name.
TEST_F(RecordPartsTest, PackedRecordsAreUnpackedWhateverTheirName) {
  const std::string plain = Write("0.tfrecord", {"a", "bc"});
  const std::string packed = folder_ + "/1.tfrecord", other = folder_ + "/records";
  const std::string bytes = ReadFile(plain).value();
  std::ofstream(packed, std::ios::binary) << Gzipped(bytes);
  std::ofstream(other, std::ios::binary) << bytes;
  const auto parts = RecordParts::Open(Framing::kTfRecord, folder_, {packed});
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->num_records(), 2);
  EXPECT_EQ(parts->bytes(), static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(ListRecordFiles(other)->framing, Framing::kTfRecord);
}

TEST_F(RecordPartsTest, AFileThatHasNoRecordsIsNamed) {
  const auto error = [&](const std::string& name, const std::string& bytes) {
    const std::string path = folder_ + "/" + name;
    fs::create_directories(folder_);
    std::ofstream(path, std::ios::binary) << bytes;
    const auto files = ListRecordFiles(path);
    if (!files.ok()) return std::string(files.status().message());
    return std::string(RecordParts::Open(files->framing, path, files->training).status().message());
  };
  const std::string parquet("PAR1\0\0\0\0\0\0\0\0\0PAR1", 17);
  EXPECT_THAT(error("a.tfrecord", parquet),
              HasSubstr("expected TFRecord data, got Apache Parquet"));
  EXPECT_THAT(error("part-0", parquet), HasSubstr("expected OFRecord data, got Apache Parquet"));
  EXPECT_THAT(error("a", parquet), HasSubstr("NAME.ofrecord or part-NUMBER, got Apache Parquet"));
  EXPECT_THAT(error("b", "some text that is no record"), HasSubstr("part-NUMBER, got text"));
  // A damaged record is one all the same.
  EXPECT_THAT(error("b.tfrecord", std::string(20, '\1')),
              HasSubstr("expected a length of checksum"));
}

TEST_F(RecordPartsTest, MorePartsThanFilesMayBeOpenAtFirst) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  constexpr int kFew = 64;
  if (before.rlim_max < 4 * kFew) GTEST_SKIP() << "the system allows " << before.rlim_max;
  std::vector<std::string> files;
  for (int i = 0; i < 2 * kFew; ++i) files.push_back(Write(absl::StrCat(i, ".tfrecord"), {"a"}));
  const rlimit few = {kFew, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto parts = RecordParts::Open(Framing::kTfRecord, folder_, files);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->num_records(), 2 * kFew);
}

}  // namespace
}  // namespace sluice
