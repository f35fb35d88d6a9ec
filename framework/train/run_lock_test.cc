#include "framework/train/run_lock.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ContainsRegex;

std::string Folder(const char* name) {
  const std::string folder = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(RunLockTest, TheSecondIsToldWhoHasIt) {
  const std::string folder = Folder("second");
  std::optional<RunLock> first = *RunLock::Take(folder);
  const absl::Status second = RunLock::Take(folder).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.message()),
              ContainsRegex(absl::StrCat("second: expected no other process at work, process ",
                                         getpid(), " on .+ since 20..-..-.. ..:..:.. has ")));
  RunLock moved = *std::move(first);
  first.reset();
  EXPECT_FALSE(RunLock::Take(folder).ok());
}

TEST(RunLockTest, AProcessThatIsKilledLeavesNone) {
  const std::string folder = Folder("killed");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = RunLock::Take(folder);
    if (write(ready[1], lock.ok() ? "y" : "n", 1) == 1) pause();
    _exit(1);
  }
  char taken = 0;
  ASSERT_EQ(read(ready[0], &taken, 1), 1);
  EXPECT_EQ(taken, 'y');
  EXPECT_THAT(std::string(RunLock::Take(folder).status().message()),
              ContainsRegex(absl::StrCat("process ", child, " on ")));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(RunLock::Take(folder).status(), absl::OkStatus());
}

TEST(RunLockTest, AFileThatWasRemovedIsNoLock) {
  const std::string folder = Folder("removed"), path = folder + "/export.lock";
  RunLock first = *RunLock::Take(path, "hf");
  EXPECT_TRUE(first.fresh());
  EXPECT_THAT(std::string(RunLock::Take(path, "hf").status().message()),
              ContainsRegex("^hf: expected no other process at work, process .* has "));
  first.RemoveFile();
  EXPECT_FALSE(std::filesystem::exists(path));
  {
    const auto second = RunLock::Take(path, "hf");
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_TRUE(second->fresh());
  }
  EXPECT_FALSE(RunLock::Take(path, "hf")->fresh());
}

TEST(RunLockTest, WhoRemovesTheFileHasNotTheFolder) {
  const std::string folder = Folder("file_removed"), path = folder + "/" + kRunLock;
  {
    const RunLock first = *RunLock::Take(folder);
    std::filesystem::remove(path);
    EXPECT_EQ(RunLock::Take(folder).status().message(),
              folder + ": expected no other process at work, another one has the folder locked");
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(RunLock::Take(folder).ok());
}

TEST(RunLockTest, WhatCannotBeLockedIsAnError) {
  EXPECT_FALSE(RunLock::Take(::testing::TempDir() + "/nowhere").ok());
  const std::string folder = Folder("pipe");
  ASSERT_EQ(mkfifo((folder + "/" + kRunLock).c_str(), 0644), 0);
  EXPECT_EQ(RunLock::Take(folder).status().message(), folder + "/run.lock: expected a file");
  const std::string linked = Folder("linked"), target = linked + "/precious";
  std::ofstream(target) << "of somebody's";
  std::filesystem::create_symlink(target, linked + "/" + kRunLock);
  EXPECT_FALSE(RunLock::Take(linked).ok());
  EXPECT_EQ(std::filesystem::file_size(target), 13u);
  std::filesystem::remove(linked + "/" + kRunLock);
  std::filesystem::create_hard_link(target, linked + "/" + kRunLock);
  EXPECT_EQ(RunLock::Take(linked).status().message(),
            linked + "/run.lock: expected what a process has locked, got a file of somebody's");
  EXPECT_EQ(std::filesystem::file_size(target), 13u);
}

}  // namespace
}  // namespace sluice
