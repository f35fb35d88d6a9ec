// What the runtime costs beside the kernels it runs: messages between actors of one worker, of two
// workers awake and asleep, and instructions of a script. Everything runs in the real runtime, from
// plans written by hand; kernels do nothing. The limits of the machine come from the same run:
// actors that are no more than a virtual call, a cache line between two cores, a futex.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "benchmark/benchmark.h"
#include "framework/actor/virtual_clock.h"
#include "framework/base/log.h"
#include "framework/plan/text.h"
#include "framework/runtime/runtime.h"
#include "framework/runtime/trace.h"

namespace sluice {
namespace {

using std::chrono::microseconds;

void SpinFor(microseconds duration) {
  const int64_t end = NowNanoseconds() + std::chrono::nanoseconds(duration).count();
  while (NowNanoseconds() < end) {
  }
}

// Longer than an idle worker spins.
constexpr microseconds kHold(200);

// ---- the machine: nanoseconds a piece, the best of several rounds ----

template <typename Round>
double BestOf(int rounds, int64_t count, Round round) {
  int64_t best = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < rounds; ++i) {
    const int64_t begin = NowNanoseconds();
    round();
    best = std::min(best, NowNanoseconds() - begin);
  }
  return static_cast<double>(best) / static_cast<double>(count);
}

class Nothing final : public Kernel {
 public:
  absl::Status Launch(const KernelContext&, std::byte* const*, std::byte*) override { return {}; }
};

double VirtualCallLimit() {
  constexpr int kKernels = 10000;
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (int i = 0; i < kKernels; ++i) kernels.push_back(std::make_unique<Nothing>());
  const KernelContext firing;
  return BestOf(100, kKernels, [&] {
    for (const auto& kernel : kernels) {
      benchmark::DoNotOptimize(kernel->Launch(firing, nullptr, nullptr));
    }
  });
}

// An actor that is no more than a virtual function: it adds, and says whom to tell.
class Neighbour {
 public:
  virtual ~Neighbour() = default;
  virtual int32_t On(int64_t payload) = 0;
};
template <int kind>
class Adder final : public Neighbour {
 public:
  explicit Adder(int32_t next) : next_(next) {}
  int32_t On(int64_t payload) override {
    sum_ += payload + kind;
    return next_;
  }

 private:
  const int32_t next_;
  int64_t sum_ = 0;
};

// 256 of them, of four classes, with 64 messages between them in one ring.
double MailboxLimit() {
  constexpr int kActors = 256, kMessages = 100000;
  struct Mail {
    int32_t to;
    int64_t payload;
  };
  std::vector<std::unique_ptr<Neighbour>> actors;
  for (int a = 0; a < kActors; a += 4) {
    actors.push_back(std::make_unique<Adder<0>>((a * 5 + 97) % kActors));
    actors.push_back(std::make_unique<Adder<1>>((a * 7 + 98) % kActors));
    actors.push_back(std::make_unique<Adder<2>>((a * 3 + 31) % kActors));
    actors.push_back(std::make_unique<Adder<3>>((a * 9 + 60) % kActors));
  }
  std::vector<Mail> ring(1024);
  uint32_t head = 0, tail = 0;
  for (; tail < 64; ++tail) ring[tail] = {static_cast<int32_t>(tail * 4), 1};
  return BestOf(20, kMessages, [&] {
    for (int i = 0; i < kMessages; ++i) {
      const Mail mail = ring[head++ % 1024];
      ring[tail++ % 1024] = {actors[mail.to]->On(mail.payload), mail.payload + 1};
    }
    benchmark::DoNotOptimize(ring.data());
  });
}

struct alignas(64) CacheLineTurn {
  std::atomic<uint32_t> word{0};
  void Give(uint32_t n) { word.store(n, std::memory_order_release); }
  void Await(uint32_t n) {
    while (word.load(std::memory_order_acquire) != n) {
    }
  }
};

// Two threads that take turns: one way, half of there and back.
double CacheLineLimit() {
  constexpr int kTurns = 20000;
  CacheLineTurn turn;
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (uint32_t n = 1;; n += 2) {
      turn.Await(n);
      if (stop.load(std::memory_order_relaxed)) return;
      turn.Give(n + 1);
    }
  });
  uint32_t n = 0;
  const double best = BestOf(20, kTurns, [&] {
    for (int i = 0; i < kTurns; i += 2, n += 2) {
      turn.Give(n + 1);
      turn.Await(n + 2);
    }
  });
  stop.store(true);
  turn.Give(n + 1);
  other.join();
  return best;
}

struct FutexTurn {
  std::atomic<uint32_t> word{0};
  void Call(int operation, uint32_t value) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, nullptr, nullptr, 0);
  }
  void Give(uint32_t n) {
    word.store(n);
    Call(FUTEX_WAKE_PRIVATE, 1);
  }
  // The giver does not wait for an answer, so a sleeper who is late may find a later turn.
  void Await(uint32_t n) {
    for (uint32_t now; (now = word.load()) < n;) Call(FUTEX_WAIT_PRIVATE, now);
  }
};

// From a wake to the next instruction of a thread that has slept for a while.
double WakeLimit() {
  constexpr int kWakes = 100;
  FutexTurn turn;
  std::atomic<int64_t> said{0};
  int64_t sum = 0;
  std::thread other([&] {
    for (uint32_t n = 1; n <= kWakes; ++n) {
      turn.Await(n);
      sum += NowNanoseconds() - said.load();
    }
  });
  for (uint32_t n = 1; n <= kWakes; ++n) {
    SpinFor(kHold);
    said.store(NowNanoseconds());
    turn.Give(n);
  }
  other.join();
  return static_cast<double>(sum) / kWakes;
}

// ---- the runtime ----

// Busy for a while; then says when it ended.
class Hold final : public Kernel {
 public:
  absl::Status Launch(const KernelContext&, std::byte* const* operands, std::byte*) override {
    SpinFor(kHold);
    const int64_t now = NowNanoseconds();
    std::memcpy(operands[0], &now, sizeof(now));
    return {};
  }
};

// Adds how long ago that was to its second operand, and counts in it.
class Late final : public Kernel {
 public:
  absl::Status Launch(const KernelContext&, std::byte* const* operands, std::byte*) override {
    int64_t said, sum[2];
    std::memcpy(&said, operands[0], sizeof(said));
    std::memcpy(sum, operands[1], sizeof(sum));
    sum[0] += NowNanoseconds() - said;
    ++sum[1];
    std::memcpy(operands[1], sum, sizeof(sum));
    return {};
  }
};

absl::StatusOr<std::unique_ptr<Kernel>> PrepareTrivialKernel(const KernelSpec& spec) {
  std::unique_ptr<Kernel> kernel;
  if (spec.op == "hold") {
    kernel = std::make_unique<Hold>();
  } else if (spec.op == "late") {
    kernel = std::make_unique<Late>();
  } else {
    kernel = std::make_unique<Nothing>();
  }
  return absl::StatusOr<std::unique_ptr<Kernel>>(std::move(kernel));
}

std::unique_ptr<Runtime> Start(const std::string& text, int workers) {
  absl::StatusOr<plan::Plan> plan = ParsePlan(text);
  SLUICE_CHECK(plan.ok()) << plan.status().message();
  const auto recorded = RecordOrder(plan->mutable_programs(0));
  SLUICE_CHECK(recorded.ok()) << recorded.status().message();
  RuntimeOptions options;
  options.workers = workers;
  options.prepare = PrepareTrivialKernel;
  options.wait_limit = std::chrono::seconds(10);  // as a session has it
  auto runtime = Runtime::Start(*std::move(plan), options);
  SLUICE_CHECK(runtime.ok()) << runtime.status().message();
  return *std::move(runtime);
}

// Runs steps of a program without ports, two in flight. An iteration is a step, and its time that
// of one of `count` things in it.
void TimeSteps(benchmark::State& state, Runtime& runtime, int64_t count) {
  int64_t step = 0;
  for (int i = 0; i < 20; ++i) {  // wakes everyone
    SLUICE_CHECK(runtime.Enqueue(0, {}, step++).ok() && (i == 0 || runtime.Next().ok()));
  }
  for (auto _ : state) {
    const int64_t begin = NowNanoseconds();
    SLUICE_CHECK(runtime.Enqueue(0, {}, step++).ok() && runtime.Next().ok());
    state.SetIterationTime(1e-9 * static_cast<double>(NowNanoseconds() - begin) /
                           static_cast<double>(count));
  }
  runtime.Quiesce();
}

// Beside the time of an iteration: what binds it, and what we aim for.
void Compare(benchmark::State& state, const char* what, double limit, double goal) {
  state.SetLabel(what);
  state.counters["limit"] = limit;
  state.counters["goal"] = goal;
}

constexpr int kFirings = 4000;

// A token there, its slot back: two messages, and two instructions that they let run.
std::string PingPong(const char* ping, const char* pong) {
  return absl::Substitute(R"(
    device 0 0 memory 4096
    device 0 1 memory 4096
    actor ping on $0 x $2; x = nothing()
    actor pong on $1 x $2; nothing(x)
    reg x offsets [64])",
                          ping, pong, kFirings);
}

void OneWorker(benchmark::State& state) {
  const auto runtime = Start(PingPong("d0.compute", "d0.comm"), 1);
  TimeSteps(state, *runtime, 2 * kFirings);
  Compare(state, "mailbox", MailboxLimit(), 40);
}
BENCHMARK(OneWorker)->Name("runtime/message/one_worker")->UseManualTime()->Iterations(500);

// Tokens that go round 64 actors, the credits of their slots going back.
void Ring(benchmark::State& state) {
  constexpr int kActors = 64, kRounds = 100;
  std::string text = "device 0 0 memory 65536\n";
  for (int a = 0; a < kActors; ++a) {
    absl::StrAppend(&text, "actor a", a, " on d0.comm x ", kRounds, "; x", (a + 1) % kActors,
                    " = nothing(x", a, ")\nreg x", a, " quota 2 tokens ", a % 8 == 0 ? 1 : 0,
                    " offsets [", 128 * a, ",", 128 * a + 64, "]\n");
  }
  const auto runtime = Start(text, 1);
  TimeSteps(state, *runtime, 2 * kActors * kRounds);
  Compare(state, "mailbox", MailboxLimit(), 40);
}
BENCHMARK(Ring)->Name("runtime/message/ring_of_64")->UseManualTime()->Iterations(500);

// One way, with the instruction that it lets run; there is nothing else to do, so both stay awake.
void Awake(benchmark::State& state) {
  const auto runtime = Start(PingPong("d0.compute", "d1.compute"), 2);
  TimeSteps(state, *runtime, 2 * kFirings);
  Compare(state, "cache line, one way", CacheLineLimit(), 400);
}
BENCHMARK(Awake)->Name("runtime/message/awake")->UseManualTime()->Iterations(30);

// From the end of one kernel to the beginning of the one that waits for it on a sleeping worker.
void Asleep(benchmark::State& state) {
  constexpr int kHolds = 50;
  const auto runtime = Start(absl::Substitute(R"(
    device 0 0 memory 4096
    device 0 1 variables 64 memory 4096
    variable late f32 [4]
      shard 1 : f32 [4]
    program main
    actor hold on d0.compute x $0; x = hold()
    actor late on d1.compute x $0; late(x, &w)
    reg x offsets [64]
    reg w bytes 16 tokens 1 variable late device 1)",
                                              kHolds),
                             2);
  TimeSteps(state, *runtime, kHolds);
  int64_t sum[2];
  std::memcpy(sum, runtime->VariableShard(0, 0), sizeof(sum));
  // An iteration holds for 200 us on purpose; the figure is what came after.
  state.counters["figure"] = 1e9 * static_cast<double>(sum[1]) / static_cast<double>(sum[0]);
  Compare(state, "futex, one way", 1e9 / WakeLimit(), 0.5);
}
BENCHMARK(Asleep)->Name("runtime/message/asleep")->UseManualTime()->Iterations(20);

// Instructions without tokens, of so many operands each.
void Script(benchmark::State& state) {
  constexpr int kInstructions = 10000;
  const bool operands = state.range(0) > 0;
  std::string text = "device 0 0 memory 4096\n";
  absl::StrAppend(&text, "actor script on d0.compute\n");
  for (int i = 0; i < kInstructions; ++i) {
    absl::StrAppend(&text, operands ? "  %c = nothing(%a, %b)\n" : "  nothing()\n");
  }
  if (operands) absl::StrAppend(&text, "temporary %a offset 64\ntemporary %b offset 128\n");
  const auto runtime = Start(text, 1);
  TimeSteps(state, *runtime, kInstructions);
  Compare(state, "virtual call", VirtualCallLimit(), 30);
}
BENCHMARK(Script)
    ->Name("runtime/script/operands")
    ->Arg(0)
    ->Arg(3)
    ->UseManualTime()
    ->Iterations(500);

}  // namespace
}  // namespace sluice
