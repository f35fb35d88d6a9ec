// Disks that fail while a run trains: nothing that was saved is lost, and the run goes on.
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/checkpoint/faulty_disk.h"
#include "framework/train/trainer_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class TrainerDiskTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    // In memory if that is to be had: hundreds of runs sync a real disk thousands of times.
    root_ = (access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir()) + "train_XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
    out_ = options_.out = root_ + "/run";
    options_.save_every = 3;
    ScriptedSession whole;
    ASSERT_TRUE(Run(&whole).ok());
    log_ = Log();
    w_ = whole.w_;
  }
  void TearDown() override {
    std::filesystem::remove_all(root_);
    TrainerTest::TearDown();
  }
  // What the run told, in `told_`.
  absl::StatusOr<TrainingRecord> Run(ScriptedSession* session, FileFaults* disk) {
    options_.faults = disk;
    char* text = nullptr;
    size_t size = 0;
    FILE* const null = std::exchange(null_, open_memstream(&text, &size));
    absl::StatusOr<TrainingRecord> record = TrainerTest::Run(session);
    fclose(std::exchange(null_, null));
    told_.assign(text, size);
    free(text);
    options_.faults = nullptr;
    return record;
  }
  absl::StatusOr<TrainingRecord> Run(ScriptedSession* session) { return Run(session, nullptr); }
  // Goes on as --resume does, and ends where the undisturbed run did.
  void ExpectResumedRunIsTheWholeRun(bool whole_log) {
    std::vector<DamagedCheckpoint> damaged;
    const auto latest = LatestGoodCheckpoint(out_ + "/checkpoints", &damaged);
    EXPECT_TRUE(damaged.empty());
    ScriptedSession session;
    const auto record = TrainerTest::Run(&session, latest.ok() ? *latest : "");
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_TRUE(record->last_save.ok());
    EXPECT_EQ(session.w_, w_);
    EXPECT_EQ(whole_log ? Log() : log_, log_);
    const std::vector<std::string> names = *ListDirectory(out_ + "/checkpoints");
    EXPECT_LE(names.size(), 2u);  // and nothing unfinished
    EXPECT_THAT(names, ::testing::Each(::testing::MatchesRegex("step-[0-9]*")));
    EXPECT_EQ(names.back(), "step-000010");
  }
  std::string root_, log_, told_;
  float w_ = 0;
};

TEST_F(TrainerDiskTest, ARunKilledAtAnyCallGoesOn) {
  int points = 0;
  for (const DiskFault fault : {DiskFault::kKill, DiskFault::kKillTorn}) {
    for (int64_t n = 0;; ++n, ++points) {
      SCOPED_TRACE(n);
      std::filesystem::remove_all(out_);
      const pid_t child = fork();
      if (child == 0) {
        FaultyDisk disk(fault, n);
        ScriptedSession session;
        _exit(Run(&session, &disk).ok() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ExpectResumedRunIsTheWholeRun(/*whole_log=*/true);
      ASSERT_FALSE(HasFailure());
      if (WIFEXITED(status)) {
        EXPECT_EQ(WEXITSTATUS(status), 0);
        break;
      }
      ASSERT_EQ(WTERMSIG(status), SIGKILL);
    }
  }
  EXPECT_GT(points, 150);
  printf("killed at %d calls\n", points);
}

TEST_F(TrainerDiskTest, ACallThatFailsCostsAWarningAndNotTheRun) {
  int points = 0, lost = 0;
  for (const DiskFault fault : {DiskFault::kFullOnce, DiskFault::kErrorOnce, DiskFault::kFull}) {
    for (int64_t n = 0;; ++n, ++points) {
      SCOPED_TRACE(n);
      std::filesystem::remove_all(out_);
      ScriptedSession session;
      FaultyDisk disk(fault, n);
      const auto record = Run(&session, &disk);
      if (!disk.struck()) break;
      if (record.ok()) {
        EXPECT_EQ(record->steps_done, 10);
        EXPECT_EQ(session.w_, w_);
        EXPECT_EQ(told_.find("warning: ") != std::string::npos, !disk.failed_path().empty());
        EXPECT_THAT(told_, HasSubstr(disk.failed_path()));
        if (!record->last_save.ok()) ++lost;
      } else {
        // A folder that takes nothing at all is told before the first step.
        EXPECT_EQ(session.step_, 0);
        EXPECT_THAT(std::string(record.status().message()), HasSubstr(disk.failed_path()));
      }
      ExpectResumedRunIsTheWholeRun(told_.find("lines of the log") == std::string::npos);
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(points, 200);
  EXPECT_GT(lost, 30);
  printf("failed at %d calls, %d lost the last checkpoint\n", points, lost);
}

// A disk without room for checkpoints.
class NoCheckpoints : public FileFaults {
 public:
  int Before(FileOperation* operation) override {
    return absl::StrContains(operation->path, "/step-") ? ENOSPC : 0;
  }
};

// As `ulimit -f` has it: nothing is wrong with the state, so that the run goes on.
TEST_F(TrainerDiskTest, ALimitOnTheSizeOfFilesIsAsAFullDisk) {
  class SmallFiles : public FileFaults {
    int Before(FileOperation* operation) override {
      return absl::StrContains(operation->path, "/step-") ? EFBIG : 0;
    }
  };
  std::filesystem::remove_all(out_);
  SmallFiles disk;
  ScriptedSession session;
  const auto record = Run(&session, &disk);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->steps_done, 10);
  EXPECT_THAT(told_, HasSubstr(": File too large; there is no earlier one; the next try is at"));
}

TEST_F(TrainerDiskTest, ASaveThatFailedIsToldOfARunThatFails) {
  std::filesystem::remove_all(out_);
  NoCheckpoints disk;
  ScriptedSession session;
  session.nan_at_ = 5;
  EXPECT_THAT(std::string(Run(&session, &disk).status().message()), HasSubstr("step 5: expected"));
  EXPECT_THAT(told_, HasSubstr("warning: no checkpoint of step 3: "));
}

TEST_F(TrainerDiskTest, AStopIsTheNextTry) {
  std::filesystem::remove_all(out_);
  options_.save_in_background = false;  // so that each save is told before the next
  NoCheckpoints disk;
  ScriptedSession session;
  int asked = 0;
  task_.stop = [&asked] { return ++asked > 4; };
  const auto record = Run(&session, &disk);
  task_.stop = nullptr;
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_GT(record->steps_done, 3);
  EXPECT_THAT(told_, HasSubstr("no earlier one; the next try is at step 6\n"));
  EXPECT_THAT(told_, HasSubstr("no earlier one; this was the last one\n"));
}

TEST_F(TrainerDiskTest, WarningsSayWhatStandsAndWhatComes) {
  options_.save_in_background = false;  // so that calls come in one order
  std::filesystem::remove_all(out_);
  FaultyDisk counting;
  options_.schedule.steps = 3;
  {
    ScriptedSession session;
    ASSERT_TRUE(Run(&session, &counting).ok());
  }
  const int64_t calls_until_3 = counting.calls();
  options_.schedule.steps = 10;
  std::filesystem::remove_all(out_);
  FaultyDisk disk(DiskFault::kFull, calls_until_3);
  ScriptedSession session;
  const auto record = Run(&session, &disk);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->failed_saves, 3);
  EXPECT_EQ(record->checkpoint, out_ + "/checkpoints/step-000003");
  EXPECT_EQ(record->last_save.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(told_, HasSubstr("warning: no checkpoint of step 6: " + out_ +
                               "/checkpoints/step-000006.tmp"));
  EXPECT_THAT(told_, HasSubstr(": No space left on device; " + out_ +
                               "/checkpoints/step-000003 stands; the next try is at step 9\n"));
  EXPECT_THAT(told_, HasSubstr("stands; this was the last one\n"));
  EXPECT_THAT(told_, HasSubstr("warning: lines of the log will be missing: " + out_ + "/log"));
}

}  // namespace
}  // namespace sluice
