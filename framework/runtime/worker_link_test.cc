// A worker and the ranks beside its own: whom it tells first, and when it hands on what was pulled.
// No thread runs the workers: the test gives them their turns.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/comm_net.h"
#include "framework/device/device.h"
#include "framework/plan/text.h"
#include "framework/runtime/rank_link.h"
#include "framework/runtime/test_ranks.h"
#include "framework/runtime/worker.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Rank 0 of two. It makes what rank 1 reads and what `keeps` does, and uses what it pulls.
constexpr const char* kPlan = R"(device 0 0 memory 1024
device 1 0 memory 1024
program train predicted 1000
stream d0.compute
stream d1.net
stream d0.comm
stream d0.net
reg mine quota 2 bytes 8 every 1 number 50 offsets [0,64]
reg theirs quota 2 bytes 0 every 1 number 51
reg theirs.pulled bytes 8 every 1 offsets [128]
actor make on d0.compute x 2
  mine : f32 [2] = make() cost 500 scope "make"
actor writes on d1.net x 2
  theirs : f32 [2] = remote() cost 0 number 70 scope "theirs"
actor reads on d1.net x 2
  remote(mine : f32 [2]) cost 0 number 71 scope "mine"
actor keeps on d0.comm x 2
  keep(mine : f32 [2]) cost 500 scope "keeps"
actor pull on d0.net x 2
  theirs.pulled : f32 [2] = pull(theirs : f32 [2]) cost 0 bytes 8 wire 8 number 70 scope "theirs"
    region [0] [2] sources [0] fold [0] from [0] [1] to 0 [1]
actor use on d0.comm x 2
  use(theirs.pulled : f32 [2]) cost 500 scope "use"
)";
enum Actors : int32_t { kMake, kWrites, kReads, kKeeps, kPull, kUse, kActors };
constexpr int32_t kNobody = -1;

// Says when others are told, and lends what is pulled.
class FakeNet final : public CommNet {
 public:
  int32_t rank() const override { return 0; }
  int32_t ranks() const override { return 2; }
  void Open(Receiver*) override {}
  void Close() override {}
  void Send(int32_t, WireMessage) override {}
  void SendAll(std::vector<AddressedMessage>* messages) override {
    for (const AddressedMessage& each : *messages) on_told_(each.message);
    messages->clear();
  }
  void Pull(int32_t, const PullRequest&, int32_t, std::byte*) override {}
  const std::byte* FindInPlace(int32_t, const PullRequest&, int32_t) override { return lent_; }

  std::function<void(const WireMessage&)> on_told_ = [](const WireMessage&) {};

 private:
  std::byte lent_[8] = {};
};

class NoThreads final : public Executor {
 public:
  void Add(Task*) override {}
  void Remove(Task*) override {}
  void WaitUntil(const char*, const std::function<bool()>&) override {}
};

class WorkerLinkTest : public testing::Test {
 protected:
  // One worker has all actors but `elsewhere`, which a second one has; what does not compute goes
  // first.
  void Start(int32_t elsewhere) {
    auto plan = ParsePlan(kPlan, "ranks");
    ASSERT_EQ(plan.status(), absl::OkStatus());
    plan_ = *std::move(plan);
    for (plan::Device& device : *plan_.mutable_devices()) device.set_kind(plan::DEVICE_CPU);
    plan_.mutable_devices(1)->set_rank(1);
    auto devices = OpenDevices({{DeviceKind::kCpu, 1024, "cpu"}}, {});
    ASSERT_EQ(devices.status(), absl::OkStatus());
    devices_ = *std::move(devices);
    devices_.push_back(nullptr);
    auto index = ProgramIndex::Build(plan_.programs(0));
    ASSERT_EQ(index.status(), absl::OkStatus());
    const std::vector<std::byte*> memories = {devices_[0]->memory(), nullptr};
    auto loaded = LoadedProgram::Load(plan_, 0, *std::move(index), memories);
    ASSERT_EQ(loaded.status(), absl::OkStatus());
    RunningProgram running;
    running.loaded = *std::move(loaded);
    running.state = std::make_unique<ProgramState>(&running.loaded->index());
    running.worker_of.assign(kActors, 0);
    if (elsewhere != kNobody) running.worker_of[elsewhere] = 1;
    running.priority.assign(kActors, 0);
    running.priority[kMake] = 1;
    programs_.push_back(std::move(running));
    RankLink::Setup setup;
    setup.plan = &plan_;
    setup.programs = &programs_;
    setup.workers = &workers_;
    setup.tracker = &tracker_;
    setup.net = &net_;
    auto link = RankLink::Make(setup);
    ASSERT_EQ(link.status(), absl::OkStatus());
    link_ = *std::move(link);
    tracker_.set_ends(&ends_);
    const int workers = elsewhere == kNobody ? 1 : 2;
    for (int w = 0; w < workers; ++w) StartWorker(w);
    tracker_.Begin(0, workers);
    for (const auto& worker : workers_) worker->BeginStep(0);
  }
  void StartWorker(int index) {
    Worker::Setup setup;
    setup.index = index;
    setup.kernels.prepare = PrepareNothing;
    setup.devices = &devices_;
    setup.programs = &programs_;
    setup.tracker = &tracker_;
    setup.link = link_.get();
    setup.peers = &workers_;
    setup.executor = &executor_;
    workers_.push_back(std::make_unique<Worker>(std::move(setup)));
    workers_.back()->Start();
    ASSERT_EQ(workers_.back()->WaitPrepared(), absl::OkStatus());
  }
  // As the net does when rank 1 has its first token.
  void SendToken() {
    const int32_t consumer = programs_[0].loaded->index().ConsumersOf(kPull)[0];
    workers_[0]->Send(0, {Message::Kind::kReq, kPull, consumer, 0});
  }
  // Gives a worker so many turns; the actors that it ran.
  std::vector<int32_t> Turns(int worker, int turns) {
    std::vector<int32_t> ran;
    for (int n = 0; n < turns; ++n) {
      const int64_t before = workers_[worker]->statistics().instructions;
      workers_[worker]->Turn();
      if (workers_[worker]->statistics().instructions == before) continue;
      ran.push_back(programs_[0].loaded->index().ActorOf(workers_[worker]->running().instance));
    }
    return ran;
  }

  struct Ends final : public StepEnds {
    void EndedHere(int, int64_t) override {}
  };
  plan::Plan plan_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<RunningProgram> programs_;
  StepTracker tracker_{1};
  Ends ends_;
  FakeNet net_;
  NoThreads executor_;
  std::unique_ptr<RankLink> link_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// A worker that is woken may take the core of the one that wakes it.
TEST_F(WorkerLinkTest, OtherRanksAreToldBeforeOtherWorkers) {
  Start(kKeeps);
  workers_[1]->Turn();  // the step has begun there
  ASSERT_FALSE(workers_[1]->HasWork());
  int told = 0;
  net_.on_told_ = [&](const WireMessage& message) {
    EXPECT_EQ(message.kind, WireMessage::Kind::kToken);
    EXPECT_FALSE(workers_[1]->HasWork()) << "the other worker had been told before";
    ++told;
  };
  EXPECT_EQ(Turns(0, 1), (std::vector<int32_t>{kMake}));
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(workers_[1]->HasWork());
}

// Of what is read in place nobody says that it has come: it would be held until nothing is ready.
TEST_F(WorkerLinkTest, WhatAPullThatHasEndedBroughtIsHandedOnAtOnce) {
  Start(kNobody);
  SendToken();
  EXPECT_EQ(Turns(0, 2), (std::vector<int32_t>{kPull, kUse}));
}

}  // namespace
}  // namespace sluice
