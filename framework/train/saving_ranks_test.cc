// Several ranks train, and save while they train, on disks that fail and under kills: the last
// checkpoint that was committed loads, no half of one remains, and who goes on ends where an
// undisturbed run does.
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/faulty_disk.h"
#include "framework/comm/in_process_net.h"
#include "framework/testing/models.h"
#include "framework/train/job.h"
#include "framework/train/trainer.h"
#include "framework/wire/socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSteps = 9, kSaveEvery = 3;  // 3, 6 and 9 are saved
constexpr int64_t kKeep = 2;
constexpr char kMesh[] = "data=2 model=2";

MlpOptions Model() {
  MlpOptions model;
  model.batch = 12;
  model.annotation = MegatronAnnotations(3);
  return model;
}

// Passes on to another what is done to checkpoints alone: that is in one order, whatever the log's
// thread does.
class OfCheckpoints : public FileFaults {
 public:
  explicit OfCheckpoints(FileFaults* faults) : faults_(*faults) {}
  int Before(FileOperation* operation) override {
    return absl::StrContains(operation->path, "/checkpoints") ? faults_.Before(operation) : 0;
  }

 private:
  FileFaults& faults_;
};

// Has every call fail that writes a checkpoint of one step.
class FailsAtStep : public FileFaults {
 public:
  FailsAtStep(int64_t step, int error) : name_(absl::StrCat("step-00000", step)), error_(error) {}
  int Before(FileOperation* operation) override {
    return absl::StrContains(operation->path, name_) ? error_ : 0;
  }

 private:
  const std::string name_;
  const int error_;
};

struct OneRank {
  CommNet* net = nullptr;
  std::string out, resume;
  FileFaults* faults = nullptr;
  FILE* told = nullptr;
  bool waits = false;                         // while it saves
  std::function<void(int64_t step)> at_step;  // when it is begun; may be unset
};

// What a process of a job does, but for its flags.
absl::StatusOr<TrainingRecord> TrainRank(const OneRank& one) {
  Graph graph;
  RETURN_IF_ERROR(BuildMlp(&graph, Model()));
  SessionOptions session_options;
  session_options.mesh = kMesh;
  session_options.workers = 1;
  session_options.threads_per_device = 1;
  session_options.net = one.net;
  ASSIGN_OR_RETURN(const auto session, Session::Start({{"train", &graph}}, session_options));
  TrainerOptions options;
  options.schedule = {.peak = 0.05, .warmup = 0, .steps = kSteps, .floor_fraction = 1};
  options.samples_per_step = Model().batch;
  options.save_every = kSaveEvery;
  options.keep = kKeep;
  options.out = one.out;
  options.rank = one.net->rank();
  options.ranks = one.net->ranks();
  options.faults = one.faults;
  options.save_in_background = !one.waits;
  std::vector<std::pair<std::string, HostTensor>> batch;
  TrainerTask task;
  task.feed = [&](int64_t samples_seen, Feeds* feeds) {
    const int64_t step = samples_seen / Model().batch;
    if (one.at_step) one.at_step(step);
    batch = MlpBatch(Model(), step, 0);
    for (const auto& [name, value] : batch) {
      if (name == "x" || name == "label") feeds->emplace_back(name, &value);
    }
    return absl::OkStatus();
  };
  // Training asks questions of its own all the while.
  task.stop = AgreedStop(session.get(), nullptr);
  ProgressPrinter printer(one.told, false, 0, 1e9);
  Trainer trainer(session.get(), options, task, &printer);
  if (!one.resume.empty()) {
    ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(one.resume));
    RETURN_IF_ERROR(trainer.Restore(checkpoint));
  }
  ASSIGN_OR_RETURN(const TrainingRecord record, trainer.Run());
  RETURN_IF_ERROR(session->Close());
  return record;
}

class SavingRanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // In memory if that is to be had: hundreds of runs sync a real disk thousands of times.
    root_ = (access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir()) + "ranks_XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
    out_ = root_ + "/run";
  }
  void TearDown() override { fs::remove_all(root_); }

  // By rank: what became of it. What the first one told is in `told_`.
  std::vector<absl::StatusOr<TrainingRecord>> OnThreads(
      int32_t ranks, const std::function<void(int32_t rank, OneRank*)>& change) {
    InProcessNet net(ranks, {});
    std::vector<absl::StatusOr<TrainingRecord>> records(ranks);
    char* text = nullptr;
    size_t size = 0;
    FILE* const told = open_memstream(&text, &size);
    FILE* const null = fopen("/dev/null", "w");
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      OneRank one;
      one.net = net.endpoint(rank);
      one.out = out_;
      one.told = rank == 0 ? told : null;
      change(rank, &one);
      threads.emplace_back([&records, rank, one] { records[rank] = TrainRank(one); });
    }
    for (std::thread& thread : threads) thread.join();
    fclose(told);
    fclose(null);
    told_.assign(text, size);
    free(text);
    return records;
  }

  // The names of what lies in the folder of checkpoints.
  std::vector<std::string> Names() const { return *ListDirectory(out_ + "/checkpoints"); }

  // The bits of all tensors, by name.
  static std::map<std::string, std::string> BitsOf(const std::string& path) {
    std::map<std::string, std::string> bits;
    const auto checkpoint = Checkpoint::Load(path);
    EXPECT_EQ(checkpoint.status(), absl::OkStatus());
    if (!checkpoint.ok()) return bits;
    for (const TensorEntry& entry : checkpoint->tensors()) {
      const auto value = checkpoint->Read(entry.name);
      EXPECT_EQ(value.status(), absl::OkStatus());
      if (!value.ok()) continue;
      bits[entry.name].assign(reinterpret_cast<const char*>(value->bytes.data()),
                              value->bytes.size());
    }
    return bits;
  }

  std::string root_, out_, told_;
};

// Holds one rank's writer at its first file until the run is two steps further. A trainer that
// waited for the others' parts would never get there.
TEST_F(SavingRanksTest, StepsGoOnWhileOneRankWrites) {
  class Held : public FileFaults {
   public:
    int Before(FileOperation*) override {
      std::unique_lock<std::mutex> lock(mutex_);
      in_time_ &= changed_.wait_for(lock, std::chrono::seconds(20), [this] { return open_; });
      return 0;
    }
    void Open() {
      const std::lock_guard<std::mutex> lock(mutex_);
      open_ = true;
      changed_.notify_all();
    }
    bool in_time() const { return in_time_; }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false, in_time_ = true;
  };
  for (const int32_t held : {0, 1, 2}) {
    Held gate;
    OfCheckpoints disk(&gate);
    fs::remove_all(out_);
    const auto records = OnThreads(3, [&](int32_t rank, OneRank* one) {
      if (rank == held) one->faults = &disk;
      if (rank != held) return;
      // It is begun two steps ahead: after the first step behind the save has ended on all ranks.
      one->at_step = [&gate](int64_t step) {
        if (step == kSaveEvery + 2) gate.Open();
      };
    });
    for (const auto& record : records) {
      ASSERT_EQ(record.status(), absl::OkStatus());
      EXPECT_EQ(record->checkpoint, out_ + "/checkpoints/step-000009");
    }
    EXPECT_TRUE(gate.in_time());
    EXPECT_THAT(told_, Not(HasSubstr("warning")));
    EXPECT_THAT(Names(), ::testing::ElementsAre("step-000006", "step-000009"));
  }
}

TEST_F(SavingRanksTest, BesideStepsTheSameIsSaved) {
  for (const int32_t ranks : {1, 2, 3}) {
    std::map<std::string, std::string> bits[2];
    for (const bool waits : {false, true}) {
      fs::remove_all(out_);
      const auto records = OnThreads(ranks, [&](int32_t, OneRank* one) { one->waits = waits; });
      for (const auto& record : records) ASSERT_EQ(record.status(), absl::OkStatus());
      for (const char* name : {"step-000006", "step-000009"}) {
        for (const auto& [tensor, value] : BitsOf(out_ + "/checkpoints/" + name)) {
          bits[waits ? 1 : 0][absl::StrCat(name, " ", tensor)] = value;
        }
      }
    }
    EXPECT_FALSE(bits[0].empty());
    EXPECT_TRUE(bits[0] == bits[1]);
  }
}

TEST_F(SavingRanksTest, OneRankThatCannotWriteCostsAWarningThatNamesIt) {
  const struct {
    int error;
    const char* words;
  } kErrors[] = {{ENOSPC, "No space left on device"},
                 {EIO, "Input/output error"},
                 {EROFS, "Read-only file system"},
                 {EACCES, "Permission denied"}};
  for (const auto& [error, words] : kErrors) {
    for (const int32_t rank : {0, 2}) {
      fs::remove_all(out_);
      FailsAtStep disk(6, error);
      const auto records = OnThreads(3, [&](int32_t each, OneRank* one) {
        if (each == rank) one->faults = &disk;
      });
      for (const auto& record : records) {
        ASSERT_EQ(record.status(), absl::OkStatus());
        EXPECT_EQ(record->steps_done, kSteps);
      }
      EXPECT_EQ(records[0]->failed_saves, 1);
      EXPECT_EQ(records[0]->last_save, absl::OkStatus());
      EXPECT_THAT(told_, AllOf(HasSubstr(absl::StrCat("warning: no checkpoint of step 6: rank ",
                                                      rank, ": ", out_)),
                               HasSubstr(words),
                               HasSubstr("/step-000003 stands; the next try is "
                                         "at step 9\n")));
      EXPECT_THAT(Names(), ::testing::Contains("step-000009"));
      EXPECT_THAT(Names(), ::testing::Each(::testing::MatchesRegex("step-[0-9]*")));
      EXPECT_EQ(BitsOf(records[0]->checkpoint).empty(), false);
    }
  }
}

// A job of processes, as the ranks of a machine are: what is killed leaves its descriptors' peers
// to notice.
class KilledRanksTest : public SavingRanksTest {
 protected:
  // Ranks of this process, which has no threads: what each exits with, or minus its signal. The
  // faulty one notes which checkpoint stands before it is killed.
  std::vector<int> OnProcesses(int32_t ranks, const std::string& resume, int32_t faulty,
                               DiskFault fault, int64_t at) {
    const auto listener = Listen({"127.0.0.1", 0});
    EXPECT_EQ(listener.status(), absl::OkStatus());
    const std::string address = EndpointText(*LocalEndpoint(listener->number()));
    std::vector<pid_t> children;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      JobOptions options;
      options.place.rank = rank;
      options.place.ranks = ranks;
      options.place.address = address;
      if (rank == 0) options.place.listener = dup(listener->number());
      _exit(Child(options, resume, rank == faulty ? fault : DiskFault::kNone, at));
    }
    std::vector<int> codes;
    for (const pid_t child : children) {
      int status = 0;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    }
    return codes;
  }

  // Kills `rank` at its n-th call on checkpoints, and goes on. False: it has no such call.
  bool KillAndGoOn(int32_t ranks, int32_t rank, DiskFault fault, int64_t n,
                   const std::map<std::string, std::string>& expected) {
    fs::remove_all(out_);
    fs::create_directories(out_);
    const std::vector<int> codes = OnProcesses(ranks, "", rank, fault, n);
    if (codes == std::vector<int>(ranks, 0)) return false;
    EXPECT_EQ(codes[rank], -SIGKILL);
    for (int32_t other = 0; other < ranks; ++other) {
      // One that had its last word already ends well.
      if (other == rank) continue;
      EXPECT_TRUE(codes[other] == 0 || codes[other] == 1) << codes[other];
    }
    std::vector<DamagedCheckpoint> damaged;
    const auto latest = LatestGoodCheckpoint(out_ + "/checkpoints", &damaged);
    EXPECT_TRUE(damaged.empty()) << damaged[0].status;
    const absl::StatusOr<std::string> stood = ReadText(out_ + "/stood", 1 << 12);
    EXPECT_EQ(stood.status(), absl::OkStatus());
    EXPECT_GE(latest.ok() ? *latest : "", stood.ok() ? *stood : "");  // nothing is lost
    EXPECT_EQ(OnProcesses(ranks, latest.ok() ? *latest : "", -1, DiskFault::kNone, 0),
              std::vector<int>(ranks, 0));
    const std::vector<std::string> names = Names();
    EXPECT_LE(names.size(), static_cast<size_t>(kKeep));
    EXPECT_THAT(names, ::testing::Each(::testing::MatchesRegex("step-[0-9]*")));
    EXPECT_TRUE(BitsOf(out_ + "/checkpoints/step-000009") == expected);
    return true;
  }

  // Every `stride`-th of the calls of every rank.
  void KillEach(int32_t ranks, DiskFault fault, int64_t stride) {
    EXPECT_EQ(OnProcesses(ranks, "", -1, DiskFault::kNone, 0), std::vector<int>(ranks, 0));
    const auto expected = BitsOf(out_ + "/checkpoints/step-000009");
    ASSERT_FALSE(expected.empty());
    int64_t points = 0;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      for (int64_t n = 0;; n += stride, ++points) {
        SCOPED_TRACE(absl::StrCat("rank ", rank, " of ", ranks, ", call ", n));
        if (!KillAndGoOn(ranks, rank, fault, n, expected)) break;
        ASSERT_FALSE(HasFailure());
      }
    }
    EXPECT_GT(points * stride, 20 * ranks);
    printf("%d ranks: killed at %d points\n", ranks, static_cast<int>(points));
  }

 private:
  int Child(const JobOptions& place, const std::string& resume, DiskFault fault, int64_t at) {
    class Noted : public FaultyDisk {
     public:
      Noted(DiskFault fault, int64_t at, std::string out)
          : FaultyDisk(fault, at), at_(at), out_(std::move(out)) {}
      int Before(FileOperation* operation) override {
        if (calls() == at_) {
          const auto stands = LatestCheckpoint(out_ + "/checkpoints");
          FILE* const file = fopen((out_ + "/stood").c_str(), "w");
          fputs(stands.ok() ? stands->c_str() : "", file);
          fclose(file);
        }
        return FaultyDisk::Before(operation);
      }

     private:
      const int64_t at_;
      const std::string out_;
    };
    const auto job = Job::Join(place);
    if (!job.ok()) return Say(job.status());
    const auto net = (*job)->net();
    if (!net.ok()) return Say(net.status());
    Noted killing(fault, at, out_);
    OfCheckpoints disk(&killing);
    FILE* const null = fopen("/dev/null", "w");
    OneRank one;
    one.net = *net;
    one.out = out_;
    one.resume = resume;
    one.faults = fault == DiskFault::kNone ? nullptr : &disk;
    one.told = null;
    const auto record = TrainRank(one);
    return record.ok() ? 0 : absl::IsUnavailable(record.status()) ? 1 : Say(record.status());
  }
  static int Say(const absl::Status& status) {
    fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 2;
  }
};

TEST_F(KilledRanksTest, ARankKilledAtSomeCalls) { KillEach(2, DiskFault::kKillTorn, 7); }

TEST_F(KilledRanksTest, ARankKilledAtEveryCall) {
  KillEach(3, DiskFault::kKill, 1);
  KillEach(2, DiskFault::kKillTorn, 1);
}

}  // namespace
}  // namespace sluice
