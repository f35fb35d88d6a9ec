#include "framework/runtime/worker.h"

#include <thread>

#include "framework/plan/text.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kFirings = 3;

// Two null devices, a worker each: what ping writes, pong reads.
class WorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto plan = ParsePlan(R"(
      plan
      device 0 0 kind null
      device 0 1 kind null
      program main
      actor ping on d0.comm x 3; x = nothing()
      actor pong on d1.comm x 3; nothing(x)
      reg x offsets [0])");
    ASSERT_EQ(plan.status(), absl::OkStatus());
    plan_ = *std::move(plan);
    RunningProgram running;
    const std::vector<DeviceSpec> specs(2, {DeviceKind::kNull, 0, "null"});
    auto devices = OpenDevices(specs, {});
    ASSERT_EQ(devices.status(), absl::OkStatus());
    devices_ = *std::move(devices);
    const std::vector<std::byte*> memories(2, nullptr);
    auto index = ProgramIndex::Build(plan_.programs(0));
    ASSERT_EQ(index.status(), absl::OkStatus());
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
      setup.devices = &devices_;
      setup.programs = &programs_;
      setup.tracker = &tracker_;
      setup.peers = &workers_;
      workers_.push_back(std::make_unique<Worker>(std::move(setup)));
    }
    for (const auto& worker : workers_) worker->Start();
    for (const auto& worker : workers_) ASSERT_EQ(worker->WaitPrepared(), absl::OkStatus());
  }
  void TearDown() override {
    for (const auto& worker : workers_) worker->Stop();
  }
  // Waits until a worker has found nothing to do so many times.
  void WaitIdle(int worker, int64_t times) {
    while (workers_[worker]->statistics().sleeps < times) std::this_thread::yield();
  }

  plan::Plan plan_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<RunningProgram> programs_;
  StepTracker tracker_{1};
  std::vector<std::unique_ptr<Worker>> workers_;
};

// The session's thread may lose its core between the two mailbox items.
TEST_F(WorkerTest, TokensMayComeBeforeTheMailboxItemThatBeginsTheStep) {
  WaitIdle(1, 1);
  tracker_.Begin(0, 2);
  workers_[0]->BeginStep(0);
  WaitIdle(1, 2);  // it has looked at ping's token
  ASSERT_EQ(workers_[1]->statistics().instructions, 0);
  workers_[1]->BeginStep(0);
  tracker_.WaitEnded(0, 1);
  EXPECT_EQ(workers_[0]->statistics().instructions, kFirings);
  EXPECT_EQ(workers_[1]->statistics().instructions, kFirings);
}

}  // namespace
}  // namespace sluice
