#include "framework/data/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(FileTest, ReadsEveryByte) {
  const std::string path = ::testing::TempDir() + "/file_of_bytes";
  const std::string bytes("a\0\n\xff", 4);
  std::ofstream(path, std::ios::binary) << bytes;
  const absl::StatusOr<std::string> read = ReadFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, bytes);
}

TEST(FileTest, ReadsAnyPartOfAFileOrOfBytes) {
  const std::string path = ::testing::TempDir() + "/file_of_parts", bytes = "0123456789";
  std::ofstream(path, std::ios::binary) << bytes;
  auto opened = RandomAccessFile::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const RandomAccessFile file = *std::move(opened);
  const RandomAccessFile memory = RandomAccessFile::OfBytes(path, bytes);
  for (const RandomAccessFile* each : {&file, &memory}) {
    EXPECT_EQ(each->path(), path);
    EXPECT_EQ(each->size(), 10);
    std::string part(3, '\0');
    ASSERT_TRUE(each->ReadAt(7, 3, part.data()).ok());
    EXPECT_EQ(part, "789");
    EXPECT_TRUE(each->ReadAt(10, 0, part.data()).ok());
  }
  std::filesystem::resize_file(path, 8);
  std::string part(3, '\0');
  EXPECT_EQ(file.ReadAt(7, 3, part.data()),
            absl::DataLossError("data: " + path +
                                ": expected 3 bytes at byte 7 of the file that was opened, got 1"));
}

// Nobody writes to the pipe.
TEST(FileTest, WhatIsNoFileIsRefusedAtOnce) {
  const std::string pipe = ::testing::TempDir() + "/a_pipe";
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0644), 0);
  EXPECT_EQ(ReadFile(pipe).status(),
            absl::InvalidArgumentError("data: expected a file, " + pipe + " is none"));
  EXPECT_EQ(RandomAccessFile::Open(pipe).status(), ReadFile(pipe).status());
  EXPECT_EQ(ReadFile(pipe + "_not").status(),
            absl::NotFoundError("data: cannot read " + pipe + "_not: No such file or directory"));
}

}  // namespace
}  // namespace sluice
