#include "framework/data/packed.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/pack_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// All of it, read so many bytes at a time.
absl::StatusOr<std::string> ReadAll(absl::string_view bytes, int64_t at_once) {
  PackedStream stream(bytes);
  std::string all;
  std::vector<uint8_t> some(at_once);
  while (true) {
    const absl::StatusOr<int64_t> got = stream.Read(some.data(), at_once);
    if (!got.ok()) return got.status();
    all.append(some.begin(), some.begin() + *got);
    if (*got < at_once) return all;
  }
}

std::string Text() {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * i % 251);
  return text;
}

TEST(PackedTest, GivesWhatWasPackedOrThePlainBytes) {
  for (int64_t at_once : {1, 7, 4096, 100000}) {
    for (const std::string& text : {Text(), std::string(), std::string("\x1f")}) {
      EXPECT_EQ(ReadAll(text, at_once).value(), text);
      EXPECT_EQ(ReadAll(Gzipped(text), at_once).value(), text);
      EXPECT_EQ(ReadAll(Gzipped(text) + Gzipped("more"), at_once).value(), text + "more");
      EXPECT_EQ(ReadAll(Zstandard(text), at_once).value(), text);
      EXPECT_EQ(ReadAll(Zstandard(text) + Zstandard("more"), at_once).value(), text + "more");
    }
  }
}

TEST(PackedTest, WhatIsDamagedIsAnError) {
  const std::string packed = Gzipped(Text());
  for (size_t size = 2; size < packed.size(); size += 97) {
    const absl::Status status = ReadAll(packed.substr(0, size), 1 << 20).status();
    EXPECT_EQ(status, absl::DataLossError("the gzipped file is cut short")) << size;
  }
  EXPECT_FALSE(ReadAll(packed.substr(0, packed.size() - 1), 1 << 20).ok());
  std::string wrong = packed;
  wrong[packed.size() - 6] ^= 1;  // of the checksum
  EXPECT_THAT(std::string(ReadAll(wrong, 1 << 20).status().message()),
              HasSubstr("the gzipped file is damaged: incorrect data check"));
  EXPECT_THAT(std::string(ReadAll(packed + "garbage", 1 << 20).status().message()),
              HasSubstr("expected the end, zeros or another gzipped file after the first one"));
}

// As tapes and blocks leave them, and gzip(1) takes them: in memory, and over pieces of a file.
TEST(PackedTest, ZerosBehindAGzippedFileAreSkipped) {
  const std::string packed = Gzipped(Text()) + Gzipped("more");
  const std::string path = ::testing::TempDir() + "/zeros.gz";
  for (const size_t zeros : {1, 512, 3 << 20}) {
    const std::string bytes = packed + std::string(zeros, '\0');
    for (const int64_t at_once : {1, 4096, 100000}) {
      EXPECT_EQ(ReadAll(bytes, at_once).value(), Text() + "more") << zeros;
    }
    std::ofstream(path, std::ios::binary) << bytes;
    const auto file = OpenUnpacked(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->size(), 5004);
    EXPECT_THAT(std::string(ReadAll(bytes + "x", 1 << 20).status().message()),
                HasSubstr("expected the end, zeros or another gzipped file after the first one"));
    EXPECT_FALSE(ReadAll(bytes + Gzipped("more"), 1 << 20).ok());
  }
}

TEST(PackedTest, WhatIsDamagedInAZstdFileIsAnError) {
  const std::string packed = Zstandard(Text()) + Zstandard("more");
  const size_t first = Zstandard(Text()).size();
  for (size_t size = 4; size < packed.size(); ++size) {
    if (size == first) continue;  // the end of a file that is one frame
    EXPECT_EQ(ReadAll(packed.substr(0, size), 1 << 20).status(),
              absl::DataLossError("the zstd file is cut short"))
        << size;
  }
  EXPECT_THAT(std::string(ReadAll(packed + "garbage", 1 << 20).status().message()),
              HasSubstr(absl::StrCat("the zstd file is damaged before byte ", packed.size())));
  std::string wrong = packed;
  wrong[4] ^= 8;  // a bit of the frame's head that must not be set
  EXPECT_THAT(std::string(ReadAll(wrong, 1 << 20).status().message()),
              HasSubstr("the zstd file is damaged before byte 0: Unsupported frame parameter"));
}

TEST(PackedTest, FilesArePackedByTheirBytes) {
  const std::string folder = ::testing::TempDir() + "/";
  std::ofstream(folder + "a.zst", std::ios::binary) << Zstandard("text");
  std::ofstream(folder + "a.gz", std::ios::binary) << Gzipped("text");
  std::ofstream(folder + "a", std::ios::binary) << Gzipped("text");
  for (const char* name : {"a.zst", "a.gz", "a"}) {
    const auto file = OpenUnpacked(folder + name);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->size(), 4) << name;
    EXPECT_EQ(file->path(), folder + name);
  }
  std::ofstream(folder + "a.zst", std::ios::binary) << Zstandard("text").substr(0, 7);
  EXPECT_EQ(OpenUnpacked(folder + "a.zst").status(),
            absl::DataLossError("data: " + folder + "a.zst: the zstd file is cut short"));
  std::ofstream(folder + "a.zst", std::ios::binary) << "text";
  EXPECT_THAT(std::string(OpenUnpacked(folder + "a.zst").status().message()),
              HasSubstr("expected packed bytes, as .zst in its name says, got text"));
}

TEST(PackedTest, AFileOfAnotherKindIsNamed) {
  const std::string path = ::testing::TempDir() + "/kind";
  const auto explain = [&](const std::string& bytes, absl::Status status) {
    std::ofstream(path, std::ios::binary) << bytes;
    return ExplainKind(status, path, FileKind::kIdx, "an IDX array");
  };
  const absl::Status damaged = absl::DataLossError("damaged");
  const std::string idx("\0\0\x08\x01", 4);
  for (const std::string& own : {idx, Gzipped(idx), std::string("\x01\x02\0", 3)}) {
    EXPECT_EQ(explain(own, damaged), damaged);
  }
  EXPECT_EQ(explain("text", absl::NotFoundError("none")), absl::NotFoundError("none"));
  EXPECT_EQ(explain("text", damaged),
            absl::DataLossError("data: " + path + ": expected an IDX array, got text"));
  EXPECT_THAT(std::string(explain(Gzipped(std::string("PAR1\0", 5)), damaged).message()),
              HasSubstr("expected an IDX array, got Apache Parquet; "));
}

// A file of several MiB, of which the stream has one in memory at a time.
TEST(PackedTest, FilesAreReadAPieceAtATime) {
  std::string text;
  for (uint64_t i = 0; text.size() < (5u << 20); ++i) absl::StrAppend(&text, i * i * 2654435761u);
  const std::string path = ::testing::TempDir() + "/pieces";
  for (const std::string& bytes : {text, Gzipped(text) + Gzipped("more"),
                                   Zstandard(text) + Zstandard("more"), std::string()}) {
    const std::string expected = bytes.empty() || bytes == text ? bytes : text + "more";
    std::ofstream(path, std::ios::binary) << bytes;
    const absl::StatusOr<RandomAccessFile> file = RandomAccessFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    for (const int64_t at_once : {1000, 3000000, 10000000}) {
      PackedStream stream(*file);
      std::string all, some(at_once, '\0');
      for (int64_t got = at_once; got == at_once;) {
        got = stream.Read(reinterpret_cast<uint8_t*>(some.data()), at_once).value();
        all.append(some, 0, got);
      }
      EXPECT_TRUE(all == expected) << at_once;
    }
  }
}

// A gzipped file may end where the piece that is in memory does, and another follow it.
TEST(PackedTest, AMemberMayBeginWithAPiece) {
  const std::string none = Gzipped(""), one = Gzipped("a"),
                    path = ::testing::TempDir() + "/members";
  constexpr size_t kPiece = size_t{1} << 20;
  std::string packed, text;
  while ((kPiece - packed.size()) % none.size() != 0) packed += one, text += "a";
  while (packed.size() < kPiece) packed += none;
  ASSERT_EQ(packed.size(), kPiece);
  std::ofstream(path, std::ios::binary) << packed << Gzipped("more");
  const absl::StatusOr<RandomAccessFile> file = RandomAccessFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  PackedStream stream(*file);
  std::string read(100, ' ');
  const absl::StatusOr<int64_t> got = stream.Read(reinterpret_cast<uint8_t*>(read.data()), 100);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(read.substr(0, *got), text + "more");
}

TEST(PackedTest, WhatIsUnpackedIsTheSameInAFile) {
  const std::string folder = ::testing::TempDir() + "/unpacked";
  std::filesystem::create_directories(folder);
  const std::string path = ::testing::TempDir() + "/text.gz", text(3 << 20, 'a');
  std::ofstream(path, std::ios::binary) << Gzipped(text);
  const auto file = OpenUnpacked(path, {.most_in_memory = 1000, .folder = folder});
  ASSERT_TRUE(file.ok()) << file.status();
  std::string read(text.size(), ' ');
  ASSERT_EQ(file->size(), static_cast<int64_t>(text.size()));
  ASSERT_EQ(file->ReadAt(0, file->size(), read.data()), absl::OkStatus());
  EXPECT_TRUE(read == text);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(PackedTest, SaysWhatTheFileAnnouncesAndNoMoreThanThereCanBe) {
  const std::string text(5 << 20, 'a'), path = ::testing::TempDir() + "/announced";
  std::string lie = Gzipped("a"), liar = Zstandard(std::string(300, 'a'));
  lie.replace(lie.size() - 4, 4, "\xff\xff\xff\xff");
  ASSERT_EQ(liar[4], 0x60) << "a frame's size of two bytes";
  liar.replace(5, 2, "\xff\xff");
  struct Case {
    std::string packed;
    int64_t announced;
  };
  for (const auto& [packed, announced] :
       {Case{text, 5 << 20}, Case{Gzipped(text), 5 << 20}, Case{Zstandard(text), 5 << 20},
        Case{Gzipped("a") + Gzipped(text), 5 << 20}, Case{"", 0}, Case{"\x1f\x8b", 0},
        Case{liar, 65535 + 256}, Case{lie, PackedStream(lie).AtMostLeft()}}) {
    EXPECT_EQ(PackedStream(packed).AnnouncedSize(), announced);
    std::ofstream(path, std::ios::binary) << packed;
    const absl::StatusOr<RandomAccessFile> file = RandomAccessFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(PackedStream(*file).AnnouncedSize(), announced);
  }
}

TEST(PackedTest, NoMoreIsLeftThanItSays) {
  const std::string zeros(1 << 20, '\0');
  for (const std::string& packed : {Gzipped(zeros), Zstandard(zeros)}) {
    PackedStream stream(packed);
    std::vector<uint8_t> some(1000);
    for (int64_t left = 1 << 20; left > 0; left -= 1000) {
      ASSERT_GE(stream.AtMostLeft(), left);
      ASSERT_TRUE(stream.Read(some.data(), 1000).ok());
    }
  }
  EXPECT_EQ(PackedStream("plain").AtMostLeft(), 5);
  EXPECT_LT(PackedStream(Gzipped("a")).AtMostLeft(), 50000);
}

}  // namespace
}  // namespace sluice
