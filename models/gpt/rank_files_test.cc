// The files that several processes read and write together: copies of which one is stale, and a
// folder that is not the same for all.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/testing/trainer_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class RankFilesTest : public TrainerProcessTest {
 protected:
  RankFilesTest() : TrainerProcessTest("models/gpt/train") {}

  void SetUp() override {
    TrainerProcessTest::SetUp();
    fs::copy(fs::current_path() / "models/gpt/testdata/fixed.txt", folder() + "/text.txt");
  }

  static std::vector<std::string> Small(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "--preset=tiny", "--layers=1",        "--hidden=16",          "--heads=2",
        "--steps=2",     "--warmup=1",        "--sequence_length=16", "--data=text.txt",
        "--mesh=data=2", "--sample_length=0", "--eval_every=0",       "--measure_peak=false"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // Two ranks, each with arguments of its own.
  std::vector<EndedProcess> RunTwo(const std::vector<std::string>& arguments,
                                   const std::vector<std::vector<std::string>>& own) {
    const std::vector<pid_t> ranks = StartRanks(2, arguments, own);
    std::vector<EndedProcess> ended;
    for (size_t rank = 0; rank < 2; ++rank) ended.push_back(Wait(ranks[rank], absl::StrCat(rank)));
    return ended;
  }
};

// Each host may have a copy of its own. A stale one would train other replicas, so the bytes are
// compared; where they are stored is not.
TEST_F(RankFilesTest, CompareTheCheckpointsThatTheyBeginWith) {
  ASSERT_EQ(Run(Small({"--out=new"})).code, 0);
  Write("older.txt", Read("text.txt").substr(1));
  ASSERT_EQ(Run(Small({"--out=stale", "--data=older.txt"})).code, 0);
  fs::copy(folder() + "/new", folder() + "/copy", fs::copy_options::recursive);
  const std::string checkpoint = "/checkpoints/step-000002";
  const auto differs = [&](const std::string& flag, const std::vector<std::string>& arguments) {
    for (const EndedProcess& ended :
         RunTwo(arguments, {{flag + "=new" + checkpoint}, {flag + "=stale" + checkpoint}})) {
      EXPECT_EQ(ended.code, 1);
      EXPECT_THAT(ended.error, ContainsRegex(flag + ": expected new" + checkpoint +
                                             " of digest [0-9a-f]+, as on rank 0, got stale" +
                                             checkpoint + " of digest [0-9a-f]+ on rank 1"));
    }
  };
  differs("--init", Small({"--out=run"}));
  differs("--resume", {"--steps=8"});
  EXPECT_FALSE(fs::exists(folder() + "/run"));
  for (const EndedProcess& ended :
       RunTwo(Small({"--out=run"}), {{"--init=new" + checkpoint}, {"--init=copy" + checkpoint}})) {
    EXPECT_EQ(ended.code, 0) << ended.error;
  }
}

// Rank 1 is started in another folder, so that the same path is another folder there.
TEST_F(RankFilesTest, RefuseAFolderThatTheyDoNotShare) {
  fs::create_directories(folder() + "/elsewhere");
  const std::string address = FreeAddress();
  std::vector<std::string> arguments =
      Small({"--out=run", "--data=" + folder() + "/text.txt", "--ranks=2",
             "--rendezvous=" + address, "--rendezvous_limit=3"});
  std::vector<pid_t> ranks;
  for (const std::string rank : {"0", "1"}) {
    arguments.push_back("--rank=" + rank);
    ranks.push_back(Start(arguments, rank, rank == "0" ? "" : "elsewhere"));
    arguments.pop_back();
  }
  for (const std::string rank : {"0", "1"}) {
    const EndedProcess ended = Wait(ranks[rank == "1"], rank);
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.error, HasSubstr("to be one folder that all ranks share"));
  }
  EXPECT_FALSE(fs::exists(folder() + "/run/checkpoints"));
}

}  // namespace
}  // namespace sluice
