#include "framework/data/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
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

// Nobody writes to the pipe.
TEST(FileTest, WhatIsNoFileIsRefusedAtOnce) {
  const std::string pipe = ::testing::TempDir() + "/a_pipe";
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0644), 0);
  EXPECT_EQ(ReadFile(pipe).status(),
            absl::InvalidArgumentError("data: expected a file, " + pipe + " is none"));
  EXPECT_EQ(ReadFile(pipe + "_not").status(),
            absl::NotFoundError("data: cannot read " + pipe + "_not: No such file or directory"));
}

}  // namespace
}  // namespace sluice
