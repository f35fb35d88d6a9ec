// The commit of a checkpoint under every fault at every call: a save that replaces an older one of
// the same step or follows it, pruning included, of one file and of parts.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/faulty_disk.h"
#include "framework/checkpoint/parts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::vector<TensorEntry>& Entries() {
  static const auto& entries =
      *new std::vector<TensorEntry>{{"h0/weight", DType::kF32, Shape{2, 3}},
                                    {"h0/weight.m", DType::kF32, Shape{2, 3}},
                                    {"step", DType::kI32, Shape{}}};
  return entries;
}

// All bytes of a checkpoint of value v are v.
std::function<HostTensor(const TensorEntry&)> Value(int v) {
  return [v](const TensorEntry& entry) {
    HostTensor tensor(entry.dtype, entry.shape);
    for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(v);
    return tensor;
  };
}

// As the ranks of a run would: rows of matrices, and the first has what has no rows.
absl::Status SaveParts(const std::string& dir, const CheckpointMeta& meta, int value, int32_t parts,
                       FileFaults* faults) {
  RETURN_IF_ERROR(BeginCheckpoint(dir, meta, faults));
  absl::Status first;
  for (int32_t part = 0; part < parts; ++part) {
    std::vector<BoxEntry> boxes;
    for (const TensorEntry& entry : Entries()) {
      Box box = WholeBox(entry.shape);
      if (!box.empty()) box[0] = Cut(box[0], parts, part);
      if (!box.empty() || part == 0) boxes.push_back({entry.name, box});
    }
    const absl::Status written = WriteCheckpointPart(
        dir, meta, {part, parts}, Entries(), boxes,
        [&](const BoxEntry& entry) {
          const DType dtype = entry.box.empty() ? DType::kI32 : DType::kF32;
          return Value(value)({entry.tensor, dtype, ShapeOf(entry.box)});
        },
        faults);
    first.Update(written);
  }
  const absl::Status committed = CommitCheckpoint(dir, meta, parts, faults).status();
  first.Update(committed);
  return first;
}

absl::Status Save(const std::string& dir, int64_t step, int value, int64_t keep, int32_t parts = 0,
                  FileFaults* faults = nullptr) {
  const CheckpointMeta meta = {step, 7, step * 8, {{"value", absl::StrCat(value)}}};
  RETURN_IF_ERROR(parts == 0 ? SaveCheckpoint(dir, meta, Entries(), Value(value), faults).status()
                             : SaveParts(dir, meta, value, parts, faults));
  return PruneCheckpoints(dir, step, keep, {}, faults);
}

// The value that every byte of a whole checkpoint has, or an error.
absl::StatusOr<int> ValueOf(const std::string& path) {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(path));
  const std::string value = checkpoint.meta().options.at("value");
  for (const TensorEntry& entry : Entries()) {
    ASSIGN_OR_RETURN(const HostTensor got, checkpoint.Read(entry.name));
    const HostTensor expected = Value(std::stoi(value))(entry);
    if (got.bytes != expected.bytes) return absl::DataLossError(path + ": of two saves");
  }
  return std::stoi(value);
}

using State = std::vector<std::pair<std::string, int>>;  // name and value of every checkpoint

// A save that is disturbed, from the state {step 1: 1, step 2: 2}.
struct Scenario {
  const char* name;
  int64_t step;  // is saved with value 9
  int64_t keep;
  std::vector<State> legal;  // before it is done, on the way, and after
  int32_t parts = 0;
};

const std::vector<State> kNextStep = {{{"step-000001", 1}, {"step-000002", 2}},
                                      {{"step-000001", 1}, {"step-000002", 2}, {"step-000003", 9}},
                                      {{"step-000002", 2}, {"step-000003", 9}}};
const std::vector<State> kSameStep = {{{"step-000001", 1}, {"step-000002", 2}},
                                      {{"step-000001", 1}, {"step-000002", 9}},
                                      {{"step-000002", 9}}};

const Scenario kScenarios[] = {{"next step", 3, 2, kNextStep},
                               {"same step", 2, 1, kSameStep},
                               {"next step, of two parts", 3, 2, kNextStep, 2},
                               {"same step, of two parts", 2, 1, kSameStep, 2}};

class CommitCampaignTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // In memory if that is to be had: thousands of syncs of a real disk take a minute.
    root_ = (access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir()) + "commit_XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
    ASSERT_EQ(Save(root_ + "/before", 1, 1, 2), absl::OkStatus());
    ASSERT_EQ(Save(root_ + "/before", 2, 2, 2), absl::OkStatus());
    dir_ = root_ + "/run";
  }
  void TearDown() override { fs::remove_all(root_); }
  void Reset(const Scenario& scenario, bool unfinished) {
    fs::remove_all(dir_);
    fs::copy(root_ + "/before", dir_, fs::copy_options::recursive);
    if (!unfinished) return;
    const std::string left = absl::StrCat(dir_, "/step-00000", scenario.step, ".tmp");
    fs::create_directories(left);
    fs::copy(dir_ + "/step-000001/manifest.json", left + "/manifest.json");
  }
  // All checkpoints of the folder; each must be whole.
  State StateNow() {
    State state;
    const std::vector<std::string> names = *ListDirectory(dir_);
    for (const std::string& name : names) {
      if (absl::EndsWith(name, ".tmp")) continue;
      const absl::StatusOr<int> value = ValueOf(dir_ + "/" + name);
      EXPECT_TRUE(value.ok()) << value.status();
      state.emplace_back(name, value.ok() ? *value : -1);
    }
    return state;
  }
  bool AnythingUnfinished() {
    const std::vector<std::string> names = *ListDirectory(dir_);
    for (const std::string& name : names) {
      if (absl::EndsWith(name, ".tmp")) return true;
    }
    return false;
  }
  // As a trainer that starts again: the latest loads, the next save works and leaves nothing over.
  void ExpectLifeGoesOn() {
    std::vector<DamagedCheckpoint> damaged;
    EXPECT_EQ(LatestGoodCheckpoint(dir_, &damaged).status(), absl::OkStatus());
    EXPECT_TRUE(damaged.empty());
    EXPECT_EQ(Save(dir_, 4, 4, 2), absl::OkStatus());
    const State state = StateNow();
    EXPECT_EQ(state.size(), 2u);
    EXPECT_EQ(state.back(), std::make_pair(std::string("step-000004"), 4));
    EXPECT_FALSE(AnythingUnfinished());
  }
  // Calls `strike(scenario, n)` for n = 0, 1, .. until it says that there is no such call.
  int64_t ForEachCall(const std::function<bool(const Scenario&, int64_t)>& strike) {
    int64_t points = 0;
    for (const Scenario& scenario : kScenarios) {
      for (int64_t n = 0;; ++n, ++points) {
        SCOPED_TRACE(absl::StrCat(scenario.name, ", call ", n));
        if (!strike(scenario, n) || HasFailure()) break;
      }
    }
    return points;
  }
  std::string root_, dir_;
};

TEST_F(CommitCampaignTest, KilledAtAnyCall) {
  for (const DiskFault fault : {DiskFault::kKill, DiskFault::kKillTorn}) {
    const int64_t points = ForEachCall([&](const Scenario& scenario, int64_t n) {
      Reset(scenario, /*unfinished=*/true);
      const pid_t child = fork();
      if (child == 0) {
        FaultyDisk disk(fault, n);
        _exit(Save(dir_, scenario.step, 9, scenario.keep, scenario.parts, &disk).ok() ? 0 : 1);
      }
      int status = 0;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      EXPECT_TRUE(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
      if (killed) {
        EXPECT_THAT(scenario.legal, ::testing::Contains(StateNow()));
      } else {
        EXPECT_EQ(StateNow(), scenario.legal.back());
      }
      ExpectLifeGoesOn();
      return killed;
    });
    EXPECT_GT(points, 100);
    printf("killed at %d calls\n", static_cast<int>(points));
  }
}

TEST_F(CommitCampaignTest, PowerLostAtAnyCall) {
  const int64_t points = ForEachCall([&](const Scenario& scenario, int64_t n) {
    Reset(scenario, /*unfinished=*/true);
    FaultyDisk disk(DiskFault::kDead, n);
    const absl::Status saved = Save(dir_, scenario.step, 9, scenario.keep, scenario.parts, &disk);
    disk.LosePower();
    EXPECT_THAT(scenario.legal, ::testing::Contains(StateNow()));
    EXPECT_TRUE(disk.struck() || StateNow() == scenario.legal.back()) << saved;
    ExpectLifeGoesOn();
    return disk.struck();
  });
  EXPECT_GT(points, 100);
  printf("power lost at %d calls\n", static_cast<int>(points));
}

TEST_F(CommitCampaignTest, AFailingCallIsAnErrorThatNamesItsPathAndCostsNothingElse) {
  for (const DiskFault fault : {DiskFault::kFullOnce, DiskFault::kErrorOnce, DiskFault::kFull}) {
    int64_t refused = 0;
    const int64_t points = ForEachCall([&](const Scenario& scenario, int64_t n) {
      Reset(scenario, /*unfinished=*/false);
      FaultyDisk disk(fault, n);
      const absl::Status saved = Save(dir_, scenario.step, 9, scenario.keep, scenario.parts, &disk);
      const State state = StateNow();
      EXPECT_THAT(scenario.legal, ::testing::Contains(state));
      if (saved.ok()) {
        EXPECT_EQ(state, scenario.legal.back());
      } else {
        ++refused;
        EXPECT_THAT(std::string(saved.message()), HasSubstr(disk.failed_path()));
        EXPECT_THAT(std::string(saved.message()), HasSubstr(": cannot "));
        // Only what could not be removed, or might be needed, stays.
        const bool may_stay = absl::StrContains(saved.message(), "cannot remove") ||
                              absl::StrContains(saved.message(), dir_ + ": cannot sync");
        EXPECT_TRUE(may_stay || !AnythingUnfinished()) << saved;
      }
      ExpectLifeGoesOn();
      return disk.struck();
    });
    EXPECT_GT(points, 100);
    EXPECT_GT(refused, 60);
    printf("failed at %d calls, %d were errors\n", static_cast<int>(points),
           static_cast<int>(refused));
  }
}

TEST_F(CommitCampaignTest, AShortWriteIsGoneOnWith) {
  ForEachCall([&](const Scenario& scenario, int64_t n) {
    Reset(scenario, /*unfinished=*/false);
    FaultyDisk disk(DiskFault::kShort, n);
    EXPECT_EQ(Save(dir_, scenario.step, 9, scenario.keep, scenario.parts, &disk), absl::OkStatus());
    EXPECT_EQ(StateNow(), scenario.legal.back());
    return disk.struck();
  });
}

// The disk's own test: without a sync, power loss takes bytes and names back.
TEST_F(CommitCampaignTest, PowerLossTakesWhatNobodySynced) {
  FaultyDisk disk;
  fs::create_directories(dir_);
  {
    FileWriter file = *FileWriter::Create(dir_ + "/a", &disk);
    ASSERT_TRUE(file.Append("abcd").ok());
  }
  ASSERT_TRUE(Rename(dir_ + "/a", dir_ + "/b", &disk).ok());
  ASSERT_TRUE(SyncDirectory(dir_, &disk).ok());
  ASSERT_TRUE(Rename(dir_ + "/b", dir_ + "/c", &disk).ok());
  disk.LosePower();
  EXPECT_THAT(*ListDirectory(dir_), ::testing::ElementsAre("b"));
  EXPECT_EQ(*ReadText(dir_ + "/b", 100), "ab");
}

}  // namespace
}  // namespace sluice
