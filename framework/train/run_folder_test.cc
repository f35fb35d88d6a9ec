#include "framework/train/run_folder.h"

#include <filesystem>
#include <fstream>

#include "framework/checkpoint/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RunFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/run_folder_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void Touch(const std::string& path) {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << "x";
  }
  std::string root_;
};

TEST_F(RunFolderTest, ALogAloneOrOptionsAloneAreNoRun) {
  Touch("log/log.jsonl");
  Touch("options/options.txt");
  Touch("run/log.jsonl");
  Touch("run/options.txt");
  Touch("old/log.jsonl");
  Touch("old/checkpoints/step-000001/manifest.json");
  Touch("old/checkpoints/step-000001/tensors.safetensors");
  Touch("ranks/step-000001/manifest.json");
  Touch("ranks/step-000001/tensors-00001-of-00004.safetensors");
  Touch("hf/model.safetensors");
  Touch("young/run.lock");
  Touch("old/checkpoints/step-000002.tmp/tensors.safetensors");
  Touch("old/checkpoints/step-000002.damaged/manifest.json");
  Touch("step-by-step/book.txt");
  EXPECT_FALSE(IsRunFolder(root_ + "/log"));
  EXPECT_FALSE(IsRunFolder(root_ + "/options"));
  EXPECT_FALSE(IsRunFolder(root_ + "/hf"));
  EXPECT_FALSE(IsRunFolder(root_ + "/none"));
  EXPECT_FALSE(IsRunFolder(root_ + "/step-by-step"));
  EXPECT_TRUE(IsRunFolder(root_ + "/young"));
  EXPECT_TRUE(IsRunFolder(root_ + "/old/checkpoints/step-000002.tmp"));
  EXPECT_TRUE(IsRunFolder(root_ + "/old/checkpoints/step-000002.damaged"));
  EXPECT_TRUE(IsRunFolder(root_ + "/run"));
  EXPECT_TRUE(IsRunFolder(root_ + "/old"));
  EXPECT_TRUE(IsRunFolder(root_ + "/old/checkpoints/step-000001"));
  EXPECT_TRUE(IsRunFolder(root_ + "/ranks/step-000001"));
}

TEST_F(RunFolderTest, TheRunsOwnFolderIsNoDataBeforeItExists) {
  Touch("texts/a.txt");
  const auto is_run = RunFolders(root_ + "/texts/../mine/");
  EXPECT_TRUE(is_run(root_ + "/mine"));
  EXPECT_FALSE(is_run(root_ + "/texts"));
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  EXPECT_TRUE(RunFolders("later/")(root_ + "/later"));
  fs::current_path(before);
  Touch("texts/1/log.jsonl");
  Touch("texts/1/options.txt");
  EXPECT_TRUE(is_run(root_ + "/texts/1"));
}

TEST_F(RunFolderTest, WhatARunHasWrittenIsKnown) {
  Touch("run/log.jsonl");
  Touch("run/options.txt");
  Touch("run/texts/a.txt");
  Touch("run/checkpoints/step-000002.tmp/tensors.safetensors");
  Touch("loose/log.jsonl");
  EXPECT_EQ(RunAround(root_ + "/run/log.jsonl"), fs::canonical(root_ + "/run"));
  EXPECT_EQ(RunAround(root_ + "/run/checkpoints/"), fs::canonical(root_ + "/run"));
  EXPECT_NE(RunAround(root_ + "/run/checkpoints/step-000002.tmp/tensors.safetensors"), "");
  EXPECT_EQ(RunAround(root_ + "/run/texts/a.txt"), "");
  EXPECT_EQ(RunAround(root_ + "/loose/log.jsonl"), "");
}

TEST_F(RunFolderTest, RunsOfOneSecondGetFoldersOfTheirOwn) {
  const std::string wanted = root_ + "/runs/now";
  const auto first = TakeRun(wanted, /*by_time=*/true, {});
  const auto second = TakeRun(wanted, /*by_time=*/true, {});
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_EQ(first->out(), wanted);
  EXPECT_EQ(second->out(), wanted + "-2");
  EXPECT_EQ(TakeRun(wanted, /*by_time=*/true, {})->out(), wanted + "-3");
}

TEST_F(RunFolderTest, ARunIsTakenOnceAndAsItWasFound) {
  const std::string run = root_ + "/run";
  {
    const auto first = TakeRun(run, /*by_time=*/false, {});
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_THAT(std::string(TakeRun(run, false, {}).status().message()), HasSubstr("process "));
  }
  // It has ended before it saved anything: another may begin there.
  Touch("run/log.jsonl");
  EXPECT_EQ(TakeRun(run, false, {}).status(), absl::OkStatus());
  Touch("run/checkpoints/step-000001/manifest.json");
  EXPECT_THAT(std::string(TakeRun(run, false, {}).status().message()),
              HasSubstr("already holds a run"));
  ResumePoint point;
  point.run = run;
  point.checkpoint = run + "/checkpoints/step-000001";
  EXPECT_EQ(TakeRun(run, false, point).status(), absl::OkStatus());
  Touch("run/checkpoints/step-000002/manifest.json");
  EXPECT_THAT(std::string(TakeRun(run, false, point).status().message()),
              AllOf(HasSubstr("step-000001, got "), HasSubstr("step-000002; --resume again")));
  point.damaged.push_back({run + "/checkpoints/step-000002", absl::DataLossError("")});
  EXPECT_EQ(TakeRun(run, false, point).status(), absl::OkStatus());
}

TEST_F(RunFolderTest, AFolderThatIsMovedOrReplacedIsNoticed) {
  const std::string run = root_ + "/moved";
  const auto own = TakeRun(run, /*by_time=*/false, {});
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_TRUE(own->IsInPlace());
  fs::remove(run + "/run.lock");
  EXPECT_TRUE(own->IsInPlace()) << "somebody took the file for one that is left over";
  fs::rename(run, run + "-elsewhere");
  EXPECT_FALSE(own->IsInPlace());
  Touch("moved/run.lock");
  EXPECT_FALSE(own->IsInPlace());
  fs::remove_all(run);
  fs::rename(run + "-elsewhere", run);
  EXPECT_TRUE(own->IsInPlace());
}

TEST_F(RunFolderTest, TheLogOfARunThatSavedNothingIsKept) {
  Touch("run/log.jsonl");
  EXPECT_EQ(SetLogAside(root_ + "/run"), absl::OkStatus());
  Touch("run/log.jsonl");
  EXPECT_EQ(SetLogAside(root_ + "/run"), absl::OkStatus());
  EXPECT_EQ(SetLogAside(root_ + "/run"), absl::OkStatus());  // there is none
  EXPECT_THAT(*ListDirectory(root_ + "/run"),
              ::testing::ElementsAre("log.lost-1.jsonl", "log.lost-2.jsonl"));
}

TEST_F(RunFolderTest, AFolderThatIsGivenUpIsLeftAsItWasFound) {
  ASSERT_TRUE(TakeRun(root_ + "/new", false, {}).ok());
  ASSERT_TRUE(TakeRun(root_ + "/time", true, {}).ok());
  Touch("texts/a.txt");
  ASSERT_TRUE(TakeRun(root_ + "/texts", false, {}).ok());
  fs::create_directories(root_ + "/old");
  std::ofstream(root_ + "/old/run.lock") << "process 7 on a host since 2026-01-01 00:00:00\n";
  ASSERT_TRUE(TakeRun(root_ + "/old", false, {}).ok());
  EXPECT_FALSE(fs::exists(root_ + "/new"));
  EXPECT_FALSE(fs::exists(root_ + "/time"));
  EXPECT_EQ(*ListDirectory(root_ + "/texts"), std::vector<std::string>{"a.txt"});
  EXPECT_TRUE(fs::exists(root_ + "/old/run.lock"));
  auto begun = TakeRun(root_ + "/new", false, {});
  ASSERT_TRUE(begun.ok()) << begun.status();
  begun->Begin();
  { const OwnRun ended = *std::move(begun); }
  EXPECT_TRUE(fs::exists(root_ + "/new/run.lock"));
}

TEST_F(RunFolderTest, OptionsAreALineAFlag) {
  fs::create_directories(root_ + "/a/b");
  ASSERT_TRUE(WriteOptions(root_ + "/a/b", {{"steps", "7"}, {"mesh", "data=2 model=2"}}).ok());
  EXPECT_EQ(*ReadText(root_ + "/a/b/options.txt", 100), "--steps=7\n--mesh=data=2 model=2\n");
  // Where a link lies in the way, the file that it names stays.
  Touch("precious");
  fs::create_symlink(root_ + "/precious", root_ + "/a/b/options.txt.tmp");
  ASSERT_TRUE(WriteOptions(root_ + "/a/b", {{"steps", "8"}}).ok());
  EXPECT_EQ(*ReadText(root_ + "/a/b/options.txt", 100), "--steps=8\n");
  EXPECT_EQ(*ReadText(root_ + "/precious", 100), "x");
}

}  // namespace
}  // namespace sluice
