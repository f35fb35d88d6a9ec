#include "framework/train/run_files.h"

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

TEST(RunFilesTest, TheRunIsFoundHoweverItsCheckpointIsNamed) {
  EXPECT_EQ(RunFolderOf("runs/a/checkpoints/step-000004"), "runs/a");
  EXPECT_EQ(RunFolderOf("runs/a/checkpoints/step-000004/"), "runs/a");
  EXPECT_EQ(RunFolderOf("runs/b/../a/checkpoints//./step-000004/."), "runs/a");
  EXPECT_EQ(RunFolderOf("checkpoints/step-000004"), ".");
  EXPECT_EQ(FolderAroundCheckpoint("checkpoints/step-000004"), "checkpoints");
  EXPECT_EQ(RunFolderOf("/runs/a/checkpoints/step-000004"), "/runs/a");
}

// One that somebody copied has nothing to do with what is two folders above.
TEST(RunFilesTest, ACopiedCheckpointHasItsFilesBesideIt) {
  EXPECT_EQ(RunFolderOf("elsewhere/step-000004"), "elsewhere");
  EXPECT_EQ(RunFolderOf("elsewhere/step-000004/"), "elsewhere");
  EXPECT_EQ(RunFolderOf("step-000004"), ".");
  EXPECT_EQ(FolderAroundCheckpoint("step-000004"), ".");
  EXPECT_EQ(FolderAroundCheckpoint("elsewhere/step-000004/."), "elsewhere");
}

TEST(RunFilesTest, LinksAndTheFolderOfTheCallerAreFollowed) {
  const fs::path root = fs::weakly_canonical(fs::path(::testing::TempDir()) / "run_files");
  fs::remove_all(root);
  fs::create_directories(root / "run/checkpoints/step-000004");
  fs::create_directory_symlink(root / "run/checkpoints/step-000004", root / "newest");
  fs::create_directory_symlink(root / "run/checkpoints", root / "linked");
  EXPECT_EQ(RunFolderOf(root / "newest"), root / "run");
  EXPECT_EQ(RunFolderOf(root / "linked/step-000004"), root / "run");
  EXPECT_EQ(FolderAroundCheckpoint(root / "newest"), root / "run/checkpoints");
  const fs::path before = fs::current_path();
  fs::current_path(root / "run/checkpoints");
  EXPECT_EQ(RunFolderOf("step-000004"), root / "run");
  EXPECT_EQ(FolderAroundCheckpoint("step-000004/"), root / "run/checkpoints");
  fs::current_path(root / "run/checkpoints/step-000004");
  EXPECT_EQ(RunFolderOf("."), root / "run");
  fs::current_path(before);
}

}  // namespace
}  // namespace sluice
