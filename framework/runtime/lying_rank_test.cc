// A rank that knows the secret and says what it may not, to ranks whose sessions, runtimes and
// links are the product's. A lie is a message that this rank really sent, changed in one place. It
// ends what runs, on every rank, with one line that names the liar, or is ignored by rule; either
// way no byte of any device's memory changes.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/comm/in_process_net.h"
#include "framework/runtime/runtime.h"
#include "framework/runtime/test_ranks.h"
#include "framework/runtime/waits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Kind = WireMessage::Kind;

constexpr int32_t kRanks = kTestRanks;
constexpr int64_t kSteps = 3;
constexpr int64_t kFar = 1'000'000'000;
// A machine whose cores are busy takes its time; a lie that is not found takes all of it.
constexpr auto kLimit = std::chrono::seconds(20);

// Sees what its rank sends, and which memory its devices have.
class SpyNet final : public CommNet {
 public:
  explicit SpyNet(CommNet* net) : net_(*net) {}
  int32_t rank() const override { return net_.rank(); }
  int32_t ranks() const override { return net_.ranks(); }
  absl::Status Offer(const OfferedMemory& memory) override {
    memory_.push_back(memory.bytes);
    return absl::OkStatus();
  }
  void Open(Receiver* receiver) override { net_.Open(receiver); }
  void Close() override { net_.Close(); }
  void Send(int32_t to, WireMessage message) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      last_[{to, message.kind}] = message;
    }
    net_.Send(to, std::move(message));
  }
  void Pull(int32_t from, const PullRequest& request, int32_t pull, std::byte* to) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      pulled_[from] = {request, pull};
    }
    net_.Pull(from, request, pull, to);
  }

  // The last one that was sent; one that says nothing, if there was none.
  WireMessage Last(int32_t to, Kind kind) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = last_.find({to, kind});
    if (found != last_.end()) return found->second;
    WireMessage message;
    message.kind = kind;
    return message;
  }
  std::pair<PullRequest, int32_t> LastPull(int32_t from) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return pulled_.at(from);
  }
  std::vector<std::byte> Memory() const {
    std::vector<std::byte> bytes;
    for (const auto& memory : memory_) bytes.insert(bytes.end(), memory.begin(), memory.end());
    return bytes;
  }

 private:
  CommNet& net_;
  std::vector<absl::Span<std::byte>> memory_;
  std::mutex mutex_;
  std::map<std::pair<int32_t, Kind>, WireMessage> last_;  // both guarded by mutex_
  std::map<int32_t, std::pair<PullRequest, int32_t>> pulled_;
};

absl::StatusOr<std::unique_ptr<Runtime>> StartRank(int32_t rank, CommNet* net) {
  RuntimeOptions options;
  options.workers = options.threads_per_device = 1;
  options.prepare = PrepareNothing;
  options.wait_limit = std::chrono::seconds(10);
  options.net = net;
  return Runtime::Start(TestPlanOfRank(rank, plan::DEVICE_CPU), options);
}

// Three ranks that have trained some steps and asked each other something, and stand still.
class Job {
 public:
  Job() {
    InProcessNetOptions options;
    options.ordered = true;
    net_ = std::make_unique<InProcessNet>(kRanks, options);
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      spies_.push_back(std::make_unique<SpyNet>(net_->endpoint(rank)));
    }
    OnRanks([&](int32_t rank) {
      auto runtime = StartRank(rank, spies_[rank].get());
      EXPECT_EQ(runtime.status(), absl::OkStatus());
      if (runtime.ok()) runtimes_[rank] = *std::move(runtime);
    });
    EXPECT_EQ(Train(), std::vector<absl::Status>(kRanks));
  }

  std::vector<absl::Status> Train() {
    std::vector<absl::Status> statuses(kRanks);
    OnRanks([&](int32_t rank) { statuses[rank] = TrainOne(runtimes_[rank].get()); });
    step_ += kSteps;
    return statuses;
  }
  SpyNet& spy(int32_t rank) { return *spies_[rank]; }
  CommNet* net(int32_t rank) { return net_->endpoint(rank); }
  // Of all devices of all ranks.
  std::vector<std::vector<std::byte>> Memory() const {
    std::vector<std::vector<std::byte>> memory;
    for (const auto& spy : spies_) memory.push_back(spy->Memory());
    return memory;
  }
  // The first error of each rank, once it has one.
  std::vector<std::string> Errors() {
    const auto end = std::chrono::steady_clock::now() + kLimit;
    std::vector<std::string> errors;
    for (const auto& runtime : runtimes_) {
      while (runtime->status().ok() && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      errors.emplace_back(runtime->status().message());
    }
    return errors;
  }
  void Close() {
    OnRanks([&](int32_t rank) { (void)runtimes_[rank]->Close(); });
  }

 private:
  absl::Status TrainOne(Runtime* runtime) const {
    for (int64_t step = step_; step < step_ + kSteps; ++step) {
      RETURN_IF_ERROR(runtime->Enqueue(0, {}, step));
      RETURN_IF_ERROR(runtime->Next().status());
    }
    const auto answer = [](absl::Span<const std::string>) -> absl::StatusOr<std::string> {
      return "yes";
    };
    RETURN_IF_ERROR(runtime->Ask(Asker::kSaver, "?", answer).status());
    return runtime->Ask(Asker::kSession, "?", answer).status();
  }
  template <typename F>
  static void OnRanks(const F& run) {
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < kRanks; ++rank) threads.emplace_back([&run, rank] { run(rank); });
    for (std::thread& thread : threads) thread.join();
  }

  std::unique_ptr<InProcessNet> net_;
  std::vector<std::unique_ptr<SpyNet>> spies_;
  std::unique_ptr<Runtime> runtimes_[kRanks];
  int64_t step_ = 0;
};

// From a rank to another, of what it said last to a third or to the same: changed.
struct Lie {
  std::string name;
  Kind kind;
  int32_t from, to, said_to;
  std::function<void(WireMessage*)> change;
  std::string expected;  // of the line; empty: it is ignored
};

// Program, sequence and asker made wrong in every way, of a message that bears them.
void AddNumbers(Kind kind, int32_t from, int32_t to, const std::string& name, bool program,
                bool sequence, bool asker, std::vector<Lie>* lies) {
  const auto add = [&](const std::string& what, const std::function<void(WireMessage*)>& change) {
    lies->push_back({absl::StrCat(name, ", ", what), kind, from, to, to, change, name});
  };
  if (program) {
    add("program -1", [](WireMessage* m) { m->edge.program = -1; });
    add("program 1", [](WireMessage* m) { m->edge.program = 1; });
    add("program 1e9", [](WireMessage* m) { m->edge.program = kFar; });
  }
  if (sequence) {
    add("again", [](WireMessage*) {});
    add("negative", [](WireMessage* m) { m->sequence = -1; });
    add("the least", [](WireMessage* m) { m->sequence = std::numeric_limits<int64_t>::min(); });
    add("of the future", [](WireMessage* m) { m->sequence += 1000; });
    add("the most", [](WireMessage* m) { m->sequence = std::numeric_limits<int64_t>::max(); });
  }
  if (asker) {
    add("asker 7", [](WireMessage* m) { m->asker = static_cast<Asker>(7); });
    add("asker 255", [](WireMessage* m) { m->asker = static_cast<Asker>(255); });
  }
  add("status 99", [](WireMessage* m) { m->code = 99; });
  add("status -1", [](WireMessage* m) { m->code = -1; });
}

// What was said to one rank, to another; or by one that may not.
void AddWrongRanks(std::vector<Lie>* lies) {
  const auto none = [](WireMessage*) {};
  const auto add = [&](const std::string& name, Kind kind, int32_t from, int32_t to,
                       const std::string& expected) {
    lies->push_back(
        {absl::StrCat(name, " from ", from, " to ", to), kind, from, to, to, none, expected});
  };
  for (const auto& [name, kind] : std::map<std::string, Kind>{{"\"welcome\"", Kind::kWelcome},
                                                              {"\"over\"", Kind::kOver},
                                                              {"\"verdict\"", Kind::kVerdict},
                                                              {"\"clock\"", Kind::kClock}}) {
    add(name, kind, 1, 0, "expected it of rank 0 alone, got it of 1");
    add(name, kind, 1, 2, "expected it of rank 0 alone, got it of 1");
  }
  for (const auto& [name, kind] : std::map<std::string, Kind>{{"\"hello\"", Kind::kHello},
                                                              {"\"began\"", Kind::kBegan},
                                                              {"\"ended\"", Kind::kEnded},
                                                              {"\"says\"", Kind::kSays},
                                                              {"\"clock?\"", Kind::kAskClock}}) {
    lies->push_back({absl::StrCat(name, " from 1 to 2"), kind, 1, 2, 0, none,
                     "expected it to be said to rank 0 alone"});
  }
  for (const auto& [name, kind] :
       std::map<std::string, Kind>{{"\"token\"", Kind::kToken}, {"\"pulled\"", Kind::kPulled}}) {
    lies->push_back({absl::StrCat(name, " of an edge to 0, to 2"), kind, 1, 2, 0, none, name});
  }
  add("\"welcome\" again", Kind::kWelcome, 0, 1, "expected it once, got it again");
  add("\"hello\" again", Kind::kHello, 1, 0, "expected it once, got it again");
  lies->push_back(
      {"a kind that there is not", static_cast<Kind>(99), 1, 0, 0, none, "a message of kind 99"});
}

std::string OwnWaits(int32_t rank, const std::function<void(RankWaits*)>& change) {
  RankWaits waits;
  waits.rank = rank;
  change(&waits);
  return WaitsToBytes(waits);
}

void AddWaits(std::vector<Lie>* lies) {
  const auto add = [&](const std::string& name, Kind kind, int64_t sequence,
                       const std::string& text, const std::string& expected) {
    lies->push_back({name, kind, 1, 0, 0,
                     [sequence, text](WireMessage* m) {
                       m->sequence = sequence;
                       m->text = text;
                     },
                     expected});
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto load = [](int32_t device, double busy) {
    return OwnWaits(1, [=](RankWaits* waits) { waits->loads.push_back({device, busy}); });
  };
  const auto stream = [](int32_t device, int32_t peer) {
    return OwnWaits(1, [=](RankWaits* waits) {
      waits->streams.emplace_back();
      waits->streams[0].device = device;
      waits->streams[0].peer = peer;
    });
  };
  add("a second introduction", Kind::kWaits, kIntroduction, OwnWaits(1, [](RankWaits*) {}),
      "expected an introduction once");
  add("an answer to no question", Kind::kWaits, 1, OwnWaits(1, [](RankWaits*) {}), "0 rounds");
  add("a number of nothing", Kind::kWaits, -7, OwnWaits(1, [](RankWaits*) {}), "0 rounds");
  add("a load that is no number", Kind::kWaits, kLoads, load(1, nan), "a load of nan");
  add("a load of 2", Kind::kWaits, kLoads, load(1, 2), "a load of 2");
  add("a load of another's device", Kind::kWaits, kLoads, load(2, 0.5), "the load of device 2");
  add("a load of no device", Kind::kWaits, kLoads, load(-1, 0.5), "the load of device -1");
  add("a stream of another's device", Kind::kWaits, kLoads, stream(0, -1), "device 0");
  add("a peer that is not there", Kind::kWaits, kLoads, stream(1, 9), "rank 9");
  add("another's table", Kind::kWaits, kLoads, OwnWaits(2, [](RankWaits*) {}),
      "a table of its own");
  add("no table", Kind::kWaits, kLoads, "nonsense", "a table of its own");
  add("loads", Kind::kWaits, kLoads, load(1, 0.5), "");
  add("round 0", Kind::kAskWaits, 0, "", "\"waits?\" with a round");
  add("round 1e9", Kind::kAskWaits, kFar, "", "\"waits?\" with a round");
  add("that a rank stood still", Kind::kAskWaits, kStoodStill, "", "");
  add("a time before all", Kind::kAskClock, -5, "", "expected times");
}

void AddHellosAndLeaves(std::vector<Lie>* lies) {
  for (const int64_t sequence : {int64_t{-1}, kFar}) {
    lies->push_back({absl::StrCat("left after ", sequence, " steps"), Kind::kLeft, 1, 2, 2,
                     [=](WireMessage* m) { m->sequence = sequence; }, "\"left\""});
    lies->push_back({absl::StrCat("left after ", sequence, " questions"), Kind::kLeft, 1, 2, 2,
                     [=](WireMessage* m) { m->number = sequence; }, "\"left\""});
  }
  lies->push_back({"left, asker 9", Kind::kLeft, 1, 2, 2,
                   [](WireMessage* m) { m->asker = static_cast<Asker>(9); }, "\"left\""});
  lies->push_back({"an error of 2 MiB", Kind::kLeft, 1, 2, 2,
                   [](WireMessage* m) {
                     m->code = 13;
                     m->text = std::string(size_t{2} << 20, 'x');
                   },
                   "expected an error of at most"});
  lies->push_back({"a clock that nobody asked", Kind::kClock, 0, 1, 1,
                   [](WireMessage* m) { m->sequence = 5; }, "an answer to what was asked"});
  lies->push_back({"a clock of the least time", Kind::kClock, 0, 1, 1,
                   [](WireMessage* m) { m->sequence = std::numeric_limits<int64_t>::min(); },
                   "expected times"});
}

std::vector<Lie> Lies() {
  std::vector<Lie> lies;
  AddNumbers(Kind::kToken, 1, 0, "\"token\"", true, true, false, &lies);
  AddNumbers(Kind::kPulled, 0, 1, "\"pulled\"", true, true, false, &lies);
  AddNumbers(Kind::kPulled, 1, 0, "\"pulled\"", true, true, false, &lies);
  AddNumbers(Kind::kBegan, 1, 0, "\"began\"", true, true, false, &lies);
  AddNumbers(Kind::kEnded, 1, 0, "\"ended\"", true, true, false, &lies);
  AddNumbers(Kind::kOver, 0, 1, "\"over\"", true, true, false, &lies);
  AddNumbers(Kind::kSays, 1, 0, "\"says\"", false, true, true, &lies);
  AddNumbers(Kind::kVerdict, 0, 1, "\"verdict\"", false, true, true, &lies);
  // The one that comes next, before its time.
  lies.push_back({"a step is over that has not begun", Kind::kOver, 0, 1, 1,
                  [](WireMessage* m) { ++m->sequence; }, "\"over\""});
  lies.push_back({"a token is pulled that was not told", Kind::kPulled, 1, 0, 0,
                  [](WireMessage* m) { ++m->sequence; }, "\"pulled\""});
  lies.push_back({"an answer to a question that nobody asked", Kind::kVerdict, 0, 1, 1,
                  [](WireMessage* m) { ++m->sequence; }, "\"verdict\""});
  // Edges that there are, one number changed.
  for (const Kind kind : {Kind::kToken, Kind::kPulled}) {
    const std::string name = kind == Kind::kToken ? "\"token\"" : "\"pulled\"";
    for (int32_t Edge::*number :
         {&Edge::source_device, &Edge::source, &Edge::reader_device, &Edge::reader}) {
      lies.push_back({absl::StrCat(name, " of an edge that there is not"), kind, 1, 0, 0,
                      [number](WireMessage* m) { m->edge.*number += 1000; }, name});
    }
  }
  AddWrongRanks(&lies);
  AddWaits(&lies);
  AddHellosAndLeaves(&lies);
  return lies;
}

void Tell(const Lie& lie, Job* job) {
  WireMessage message = job->spy(lie.from).Last(lie.said_to, lie.kind);
  lie.change(&message);
  job->net(lie.from)->Send(lie.to, std::move(message));
}

void ExpectFound(const Lie& lie, Job* job) {
  const auto before = job->Memory();
  Tell(lie, job);
  for (const std::string& error : job->Errors()) {
    EXPECT_THAT(error, HasSubstr(absl::StrCat("rank ", lie.from, " breaks the rules: it says")));
    EXPECT_THAT(error, HasSubstr(lie.expected));
    EXPECT_LT(error.size(), 1000u);
  }
  EXPECT_TRUE(job->Memory() == before);
  job->Close();
}

class EachLieTest : public testing::TestWithParam<int> {};

constexpr int kParts = 8;

TEST_P(EachLieTest, EndsTheStepOnAllRanksOrIsIgnored) {
  const std::vector<Lie> lies = Lies();
  for (size_t n = static_cast<size_t>(GetParam()); n < lies.size(); n += kParts) {
    SCOPED_TRACE(lies[n].name);
    Job job;
    ASSERT_FALSE(job.Memory()[0].empty());
    if (!lies[n].expected.empty()) {
      ExpectFound(lies[n], &job);
      continue;
    }
    Tell(lies[n], &job);
    EXPECT_EQ(job.Train(), std::vector<absl::Status>(kRanks));
    job.Close();
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, EachLieTest, testing::Range(0, kParts));

// One that goes on lying is told on once: the others say no more than their own ends.
TEST(LyingRankTest, IsNotLookedAtAnyMore) {
  Job job;
  Lie lie{"", Kind::kOver, 1, 2, 2, [](WireMessage* m) { m->edge.program = kFar; }, "\"over\""};
  for (int times = 0; times < 1000; ++times) Tell(lie, &job);
  for (const std::string& error : job.Errors()) EXPECT_THAT(error, HasSubstr("of rank 0 alone"));
  job.Close();
}

struct LyingPull {
  const char* name;
  std::function<void(PullRequest*)> change;
  const char* expected;
};

// What is asked for is checked as what is told.
TEST(LyingRankTest, Pulls) {
  const std::vector<LyingPull> pulls = {
      {"again", [](PullRequest*) {}, "expected a token of ["},
      {"negative", [](PullRequest* r) { r->sequence = -1; }, "expected a token of ["},
      {"of the future", [](PullRequest* r) { r->sequence += 2; }, "expected a token of ["},
      {"program -1", [](PullRequest* r) { r->edge.program = -1; }, "an edge that is read"},
      {"program 1e9", [](PullRequest* r) { r->edge.program = kFar; }, "an edge that is read"},
      {"edge", [](PullRequest* r) { r->edge.reader += 1000; }, "an edge that is read"}};
  for (const LyingPull& lie : pulls) {
    SCOPED_TRACE(lie.name);
    Job job;
    const auto before = job.Memory();
    auto [request, pull] = job.spy(1).LastPull(0);
    lie.change(&request);
    std::vector<std::byte> to(static_cast<size_t>(request.bytes));
    job.net(1)->Pull(0, request, pull, to.data());
    for (const std::string& error : job.Errors()) {
      EXPECT_THAT(error, HasSubstr("rank 1 breaks the rules: it says \"pull\""));
      EXPECT_THAT(error, HasSubstr(lie.expected));
    }
    EXPECT_TRUE(job.Memory() == before);
    EXPECT_EQ(to, std::vector<std::byte>(to.size()));
    job.Close();
  }
}

// What an owner says of its registers is its own to say; and what a rank has pulled is: another may
// not free a slot that it still reads.
TEST(LyingRankTest, AnotherRanksEdge) {
  for (const Kind kind : {Kind::kToken, Kind::kPulled}) {
    Job job;
    WireMessage message = job.spy(1).Last(0, kind);
    ++message.sequence;
    const auto before = job.Memory();
    job.net(2)->Send(0, message);
    for (const std::string& error : job.Errors()) {
      EXPECT_THAT(error, HasSubstr(absl::StrCat("rank 2 breaks the rules: it says \"",
                                                kind == Kind::kToken ? "token" : "pulled",
                                                "\" to rank 0")));
      EXPECT_THAT(error, HasSubstr(kind == Kind::kToken ? ", of rank 1" : ", which rank 1 reads"));
    }
    EXPECT_TRUE(job.Memory() == before);
    job.Close();
  }
}

// Before they have met.
TEST(LyingRankTest, HellosThatAreNone) {
  for (const char* edges : {"reads", "reads 9 1 00", "reads 1 1 00", "serves -1 1 00",
                            "reads 0 1 00\nreads 0 1 00", "reads 0 x 00", "chair 0 1 00"}) {
    SCOPED_TRACE(edges);
    InProcessNet net(kRanks, {});
    WireMessage hello;
    hello.edges = edges;
    net.endpoint(1)->Send(0, hello);
    const auto runtime = StartRank(0, net.endpoint(0));
    EXPECT_THAT(std::string(runtime.status().message()),
                HasSubstr("rank 1 breaks the rules: it says \"hello\" to rank 0, expected a line"));
  }
}

// Rank 0 alone says so, and a rank that was refused by it does not take that back.
TEST(LyingRankTest, AWelcomeOfAnother) {
  InProcessNet net(kRanks, {});
  WireMessage welcome;
  welcome.kind = Kind::kWelcome;
  net.endpoint(2)->Send(1, welcome);
  const auto runtime = StartRank(1, net.endpoint(1));
  EXPECT_THAT(std::string(runtime.status().message()),
              HasSubstr("rank 2 breaks the rules: it says \"welcome\" to rank 1"));
}

}  // namespace
}  // namespace sluice
