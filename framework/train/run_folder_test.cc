#include "framework/train/run_folder.h"

#include <filesystem>
#include <fstream>

#include "framework/checkpoint/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

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
  EXPECT_FALSE(IsRunFolder(root_ + "/log"));
  EXPECT_FALSE(IsRunFolder(root_ + "/options"));
  EXPECT_FALSE(IsRunFolder(root_ + "/hf"));
  EXPECT_FALSE(IsRunFolder(root_ + "/none"));
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
  Touch("texts/1/log.jsonl");
  Touch("texts/1/options.txt");
  EXPECT_TRUE(is_run(root_ + "/texts/1"));
}

TEST_F(RunFolderTest, OptionsAreALineAFlag) {
  ASSERT_TRUE(WriteOptions(root_ + "/a/b", {{"steps", "7"}, {"mesh", "data=2 model=2"}}).ok());
  EXPECT_EQ(*ReadText(root_ + "/a/b/options.txt", 100), "--steps=7\n--mesh=data=2 model=2\n");
}

}  // namespace
}  // namespace sluice
