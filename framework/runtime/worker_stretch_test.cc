// A worker on streams that capture what they are given: when it replays a stretch, and what it does
// where the stretch may not begin yet.
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/kernels/prepared.h"
#include "framework/plan/text.h"
#include "framework/runtime/worker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::ElementsAre;

// What the stream of device 0 is given.
class Log {
 public:
  void Add(const std::string& what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!captures_) given_.push_back(what);
  }
  void SetCaptures(bool captures) {
    const std::lock_guard<std::mutex> lock(mutex_);
    captures_ = captures;
  }
  std::vector<std::string> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(given_, {});
  }

 private:
  std::mutex mutex_;
  bool captures_ = false;
  std::vector<std::string> given_;
};
Log the_log;

// Fences of device 0 are 101, 102, and so on, those of device 1 are 201, 202.
class LoggingStream final : public Stream {
 public:
  explicit LoggingStream(int device) : Stream(nullptr), device_(device) {}
  Fence Record() override { return static_cast<Fence>(100 * (device_ + 1) + ++records_); }
  void Wait(Fence fence) override {
    if (device_ == 0 && fence >= 200) the_log.Add(absl::StrCat("wait ", fence));  // not its own
  }
  bool captures() const override { return true; }
  absl::StatusOr<int32_t> Capture(absl::FunctionRef<absl::Status()> give) override {
    the_log.SetCaptures(true);
    const absl::Status given = give();
    the_log.SetCaptures(false);
    if (!given.ok()) return given;
    if (device_ == 0) the_log.Add("capture");
    return 0;
  }
  void Replay(int32_t, int64_t) override {
    if (device_ == 0) the_log.Add("replay");
  }

 private:
  const int device_;
  int records_ = 0;
};

class LoggingDevice final : public Device {
 public:
  explicit LoggingDevice(int device) : stream_(device) {}
  DeviceKind kind() const override { return DeviceKind::kAsync; }
  std::byte* memory() const override { return nullptr; }
  Stream* OpenStream(ThreadPool*) override { return &stream_; }
  void CopyIn(int64_t, absl::Span<const std::byte>) override {}
  void CopyOut(int64_t, absl::Span<std::byte>) const override {}

 private:
  LoggingStream stream_;
};

absl::StatusOr<std::unique_ptr<Kernel>> PrepareLogging(const KernelSpec& spec) {
  return MakeKernel([name = std::string(spec.op)](const KernelContext&, const Operands&) {
    if (name != "log") the_log.Add(name);
  });
}

// What device 0 makes in the middle of a stretch, device 1 reads.
constexpr char kPlan[] = R"(
    plan
    device 0 0 kind cpu
    device 0 1 kind cpu
    program main
    actor make on d0.compute; a = one(); x = two(a); three(a)
    actor log on d1.compute; log(x)
    order d0.compute (make 0 0 3)
    order d1.compute (log 0 0 1)
    reg a offsets [0]
    reg x offsets [0])";

class WorkerStretchTest : public testing::Test {
 protected:
  void SetUp() override {
    auto plan = ParsePlan(kPlan);
    ASSERT_EQ(plan.status(), absl::OkStatus());
    plan_ = *std::move(plan);
    for (int device = 0; device < 2; ++device) {
      devices_.push_back(std::make_unique<LoggingDevice>(device));
    }
    auto index = ProgramIndex::Build(plan_.programs(0));
    ASSERT_EQ(index.status(), absl::OkStatus());
    const std::vector<std::byte*> memories(2, nullptr);
    RunningProgram running;
    auto loaded = LoadedProgram::Load(plan_, 0, *std::move(index), memories);
    ASSERT_EQ(loaded.status(), absl::OkStatus());
    running.loaded = *std::move(loaded);
    running.state = std::make_unique<ProgramState>(&running.loaded->index());
    running.worker_of = {0, 1};
    running.priority = {0, 0};
    programs_.push_back(std::move(running));
    for (int w = 0; w < 2; ++w) {
      Worker::Setup setup;
      setup.index = w;
      setup.kernels.prepare = PrepareLogging;
      setup.devices = &devices_;
      setup.programs = &programs_;
      setup.tracker = &tracker_;
      setup.peers = &workers_;
      workers_.push_back(std::make_unique<Worker>(std::move(setup)));
    }
    Start(0);
  }
  void TearDown() override {
    for (const auto& worker : workers_) worker->Stop();
  }
  void Start(int worker) {
    workers_[worker]->Start();
    ASSERT_EQ(workers_[worker]->WaitPrepared(), absl::OkStatus());
  }
  void BeginStep() {
    tracker_.Begin(0, 2);
    for (const auto& worker : workers_) worker->BeginStep(0);
  }
  void WaitFor(int worker, int64_t instructions) {
    while (workers_[worker]->statistics().instructions < instructions) std::this_thread::yield();
  }
  // Until a worker sleeps that has run so many instructions.
  void WaitIdle(int worker, int64_t instructions) {
    WaitFor(worker, instructions);
    const int64_t sleeps = workers_[worker]->statistics().sleeps;
    workers_[worker]->Wake();
    while (workers_[worker]->statistics().sleeps <= sleeps) std::this_thread::yield();
  }

  plan::Plan plan_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<RunningProgram> programs_;
  StepTracker tracker_{1};
  std::vector<std::unique_ptr<Worker>> workers_;
};

TEST_F(WorkerStretchTest, IsGivenOneByOneWhereAnotherStreamStillHasWhatItTakes) {
  BeginStep();
  BeginStep();
  WaitIdle(0, 4);
  EXPECT_THAT(the_log.Take(), ElementsAre("one", "two", "three", "capture", "one"));
  EXPECT_EQ(workers_[0]->statistics().instructions, 4);
  Start(1);
  tracker_.WaitEnded(0, 2);
  EXPECT_THAT(the_log.Take(), ElementsAre("wait 201", "two", "three"));
}

TEST_F(WorkerStretchTest, IsReplayedBehindTheFencesOfAllThatItTakes) {
  Start(1);
  BeginStep();
  tracker_.WaitEnded(0, 1);
  EXPECT_THAT(the_log.Take(), ElementsAre("one", "two", "three", "capture"));
  WaitIdle(0, 3);  // it has been told that x is free
  BeginStep();
  tracker_.WaitEnded(0, 2);
  EXPECT_THAT(the_log.Take(), ElementsAre("wait 201", "replay"));
}

}  // namespace
}  // namespace sluice
