#include "framework/runtime/runtime.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "framework/plan/validate.h"
#include "framework/runtime/nan_check.h"
#include "framework/runtime/test_plan.h"
#include "framework/testing/allocations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RuntimeOptions Options(int workers = 0) {
  RuntimeOptions options;
  options.workers = workers;
  options.prepare = PrepareTestKernel;
  return options;
}

std::unique_ptr<Runtime> StartOrDie(plan::Plan plan, const RuntimeOptions& options) {
  absl::StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::Start(std::move(plan), options);
  EXPECT_EQ(runtime.status(), absl::OkStatus());
  return *std::move(runtime);
}

// w as it is on a device.
std::vector<float> W(Runtime& runtime, int device) {
  const float* w = reinterpret_cast<const float*>(runtime.VariableShard(0, device));
  return std::vector<float>(w, w + kTestColumns);
}

std::vector<float> Fetched(const StepResult& result) {
  const HostTensor& w = (*result.fetches)[0];
  return std::vector<float>(w.data<float>(), w.data<float>() + kTestColumns);
}

plan::Instruction* UpdateOf(plan::Plan* plan, int device) {
  for (plan::Actor& actor : *plan->mutable_programs(0)->mutable_actors()) {
    if (actor.name() == "update" + std::to_string(device)) return actor.mutable_script(0);
  }
  return nullptr;
}

TEST(RuntimeTest, ThePlanOfTheTestsIsValid) {
  EXPECT_EQ(ValidatePlan(TestPlan(4)), absl::OkStatus());
}

// Two steps ahead, on 1 to 4 workers, 100 steps: every fetch is what the steps so far sum to.
TEST(RuntimeTest, StepsGiveTheSameValuesOnAnyNumberOfWorkers) {
  for (const int devices : {1, 2, 4}) {
    for (int workers = 1; workers <= devices; ++workers) {
      const auto runtime = StartOrDie(TestPlan(devices), Options(workers));
      EXPECT_EQ(runtime->workers(), 2 * workers);
      std::vector<float> expected(kTestColumns);
      int64_t begun = 0;
      for (int64_t step = 0; step < 100; ++step) {
        for (; begun < std::min<int64_t>(step + 2, 100); ++begun) {
          const HostTensor x = TestFeed(devices, begun);
          ASSERT_EQ(runtime->Enqueue(0, {Feed(&x)}, begun), absl::OkStatus());
        }
        const auto result = runtime->Next();
        ASSERT_EQ(result.status(), absl::OkStatus());
        const std::vector<float> sums = ColumnSums(TestFeed(devices, step));
        for (int c = 0; c < kTestColumns; ++c) expected[c] += sums[c];
        EXPECT_EQ(Fetched(*result), expected) << step;
      }
      for (int d = 0; d < devices; ++d) EXPECT_EQ(W(*runtime, d), expected);
      int64_t instructions = 0;
      for (int w = 0; w < runtime->workers(); ++w)
        instructions += runtime->statistics(w).instructions;
      EXPECT_EQ(instructions, 100 * TestInstructionsPerStep(devices));
    }
  }
}

TEST(RuntimeTest, ResultsThatNobodyTakesAreKept) {
  const auto runtime = StartOrDie(TestPlan(2), Options());
  std::vector<float> expected(kTestColumns);
  for (int64_t step = 0; step < 7; ++step) {
    const HostTensor x = TestFeed(2, step);
    ASSERT_EQ(runtime->Enqueue(0, {Feed(&x)}, step), absl::OkStatus());
  }
  for (int64_t step = 0; step < 7; ++step) {
    const std::vector<float> sums = ColumnSums(TestFeed(2, step));
    for (int c = 0; c < kTestColumns; ++c) expected[c] += sums[c];
    EXPECT_EQ(Fetched(*runtime->Next()), expected);
  }
  EXPECT_EQ(runtime->Next().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RuntimeTest, ProgramsShareVariablesAndWaitForEachOther) {
  const auto runtime = StartOrDie(TestPlan(2), Options());
  const HostTensor x = TestFeed(2, 0);
  const std::vector<float> sums = ColumnSums(x);
  for (int round = 1; round <= 20; ++round) {
    ASSERT_EQ(runtime->Enqueue(0, {Feed(&x)}, round), absl::OkStatus());
    ASSERT_EQ(runtime->Enqueue(1, {}, round), absl::OkStatus());
    const auto train = runtime->Next();
    EXPECT_EQ(train->program, 0);
    const std::vector<float> trained = Fetched(*train);
    const auto eval = runtime->Next();
    EXPECT_EQ(eval->program, 1);
    EXPECT_EQ(Fetched(*eval), trained);
    EXPECT_EQ(trained[1], round * sums[1]);
  }
}

TEST(RuntimeTest, AKernelsErrorEndsTheStepAndEveryLaterCall) {
  for (const int device : {0, 1, 3}) {
    plan::Plan plan = TestPlan(4);
    UpdateOf(&plan, device)->set_scope("h0/fail at 3");
    const auto runtime = StartOrDie(std::move(plan), Options(2));
    absl::Status status;
    int64_t begun = 0;
    for (; begun < 50 && status.ok(); ++begun) {
      const HostTensor x = TestFeed(4, begun);
      status = runtime->Enqueue(0, {Feed(&x)}, begun);
      if (status.ok() && begun > 0) status = runtime->Next().status();
    }
    EXPECT_LE(begun, 6);
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("program train, step 3"), HasSubstr("h0/fail at 3 (grow): planted"),
                      HasSubstr("device " + std::to_string(device))));
    runtime->Quiesce();
    EXPECT_EQ(runtime->status(), status);
    EXPECT_EQ(runtime->Next().status(), status);
    const HostTensor x = TestFeed(4, 0);
    EXPECT_EQ(runtime->Enqueue(0, {Feed(&x)}, 9), status);
    EXPECT_EQ(runtime->Enqueue(1, {}, 9), status);
  }
}

TEST(RuntimeTest, CheckNanNamesTheInstruction) {
  for (const bool check : {false, true}) {
    plan::Plan plan = TestPlan(2);
    UpdateOf(&plan, 1)->set_scope("h0/nan at 2");
    RuntimeOptions options = Options();
    options.check_nan = check;
    const auto runtime = StartOrDie(std::move(plan), options);
    absl::Status status;
    for (int64_t step = 0; step < 5 && status.ok(); ++step) {
      const HostTensor x = TestFeed(2, step);
      status = runtime->Enqueue(0, {Feed(&x)}, step);
      if (status.ok()) status = runtime->Next().status();
    }
    EXPECT_EQ(status.ok(), !check);
    if (check) {
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("step 2, device 1, h0/nan at 2 (grow)"), HasSubstr("NaN")));
    }
  }
}

TEST(RuntimeTest, LoadErrorsNameTheInstruction) {
  plan::Plan plan = TestPlan(2);
  UpdateOf(&plan, 1)->set_op("shrink");
  const auto runtime = Runtime::Start(std::move(plan), Options());
  EXPECT_EQ(runtime.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(runtime.status().message()),
              HasSubstr("test/update1 (shrink): no kernel for shrink"));
}

TEST(RuntimeTest, APlanThatWouldDeadlockDoesNotStart) {
  plan::Plan plan = TestPlan(1);
  // The update before the second forward, whose sum it needs.
  for (plan::Stream& stream : *plan.mutable_programs(0)->mutable_streams()) {
    if (stream.order_size() == 3) stream.mutable_order()->SwapElements(1, 2);
  }
  const auto runtime = Runtime::Start(std::move(plan), Options());
  EXPECT_EQ(runtime.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(runtime.status().message()),
              AllOf(HasSubstr("update0"), HasSubstr("forward0")));
}

TEST(RuntimeTest, APlanWhoseTensorsShareBytesDoesNotStart) {
  plan::Plan plan = TestPlan(1);
  plan::Register *sums = nullptr, *total = nullptr;
  for (plan::Register& reg : *plan.mutable_programs(0)->mutable_registers()) {
    if (reg.name() == "sums0") sums = &reg;
    if (reg.name() == "total0") total = &reg;
  }
  ASSERT_TRUE(sums != nullptr && total != nullptr);
  total->set_slot_offsets(0, sums->slot_offsets(0));
  const auto runtime = Runtime::Start(plan, Options());
  EXPECT_EQ(runtime.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(runtime.status().message()),
              AllOf(HasSubstr("program \"train\", device 0"), HasSubstr("\"sums0\""),
                    HasSubstr("\"total0\""), HasSubstr("share bytes and are live at one time")));
  total->set_slot_offsets(0, 0);
  EXPECT_THAT(std::string(Runtime::Start(plan, Options()).status().message()),
              AllOf(HasSubstr("\"total0\""), HasSubstr("among its variables")));
}

TEST(RuntimeTest, StepsAllocateNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "allocations are the sanitizer's";
  const auto runtime = StartOrDie(TestPlan(4), Options(2));
  const HostTensor x = TestFeed(4, 0);
  const Feed feeds[] = {&x};
  for (int64_t step = 0; step <= 10; ++step) {
    if (step == 3) StartCountingAllocations();
    ASSERT_TRUE(runtime->Enqueue(0, feeds, step).ok());
    if (step > 0) {
      ASSERT_TRUE(runtime->Next().ok());
    }
  }
  ASSERT_TRUE(runtime->Next().ok());
  EXPECT_EQ(CountedAllocations().own, 0);
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
         1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

TEST(RuntimeTest, AnIdleSessionSleeps) {
  const auto runtime = StartOrDie(TestPlan(4), Options(4));
  const HostTensor x = TestFeed(4, 0);
  ASSERT_TRUE(runtime->Enqueue(0, {Feed(&x)}, 0).ok());
  ASSERT_TRUE(runtime->Next().ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = CpuSeconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(CpuSeconds() - before, 0.02);
}

TEST(RuntimeTest, NullDevicesRunTheProtocolAlone) {
  constexpr int kDevices = 400;
  RuntimeOptions options;
  options.workers = 2;
  plan::Plan plan = TestPlan(kDevices);
  for (plan::Device& device : *plan.mutable_devices()) device.set_kind(plan::DEVICE_NULL);
  const auto runtime = StartOrDie(std::move(plan), options);
  const HostTensor x = TestFeed(kDevices, 0);
  for (int64_t step = 0; step < 20; ++step) {
    ASSERT_EQ(runtime->Enqueue(0, {Feed(&x)}, step), absl::OkStatus());
    ASSERT_EQ(runtime->Next().status(), absl::OkStatus());
  }
  EXPECT_EQ(runtime->VariableShard(0, 0), nullptr);
  int64_t instructions = 0;
  for (int w = 0; w < runtime->workers(); ++w) instructions += runtime->statistics(w).instructions;
  EXPECT_EQ(instructions, 20 * TestInstructionsPerStep(kDevices));
  EXPECT_EQ(runtime->null_counts().instructions, 20 * TestInstructionsPerStep(kDevices));
}

// Two that wait for each other, each for ten seconds at most.
class Meeting {
 public:
  void Come(int who) {
    std::unique_lock<std::mutex> lock(mutex_);
    came_[who] = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(10), [this] { return came_[0] && came_[1]; });
    met_ = met_ || (came_[0] && came_[1]);
    came_[who] = met_;  // who has given up is not there any more
  }
  bool met() const { return met_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool came_[2] = {}, met_ = false;  // guarded by mutex_
};
Meeting* meeting = nullptr;

// Of ones; the second step's first rows cannot be read before a kernel of the first step runs.
class MeetingRows : public Dataset {
 public:
  int64_t num_samples() const override { return 100; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return {}; }
  absl::Status Fill(int, absl::Span<const int64_t> samples, int64_t, const Box& box,
                    std::byte* to) const override {
    if (fills_++ == kTestMicroBatches) meeting->Come(0);
    const int64_t elements = static_cast<int64_t>(samples.size()) * ShapeOf(box).NumElements();
    std::fill_n(reinterpret_cast<float*>(to), elements, 1.0f);
    return absl::OkStatus();
  }

 private:
  const std::vector<SampleField> fields_ = {{"x", DType::kF32, Shape{kTestColumns}}};
  mutable int fills_ = 0;  // by the one worker that reads
};

// A kernel of the first step that does not end before the second step's rows are being read.
class MeetingKernel : public Kernel {
 public:
  explicit MeetingKernel(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte* scratch) override {
    if (context.step == 0) meeting->Come(1);
    return kernel_->Launch(context, operands, scratch);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
};

// One device, and so one worker that computes.
TEST(RuntimeTest, RowsAreReadWhileTheirDeviceComputes) {
  Meeting once;
  meeting = &once;
  const MeetingRows rows;
  RuntimeOptions options = Options(1);
  options.prepare = [](const KernelSpec& spec) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = PrepareTestKernel(spec);
    if (!kernel.ok() || spec.op != "grow") return kernel;
    return std::make_unique<MeetingKernel>(*std::move(kernel));
  };
  const auto runtime = StartOrDie(TestPlan(1), options);
  for (int64_t step = 0; step < 2; ++step) {
    const SampleRows fed = {&rows, 0, {}, step * kTestMicroBatches};
    ASSERT_EQ(runtime->Enqueue(0, {Feed(fed)}, step), absl::OkStatus());
  }
  for (int64_t step = 0; step < 2; ++step) {
    ASSERT_EQ(runtime->Next().status(), absl::OkStatus());
  }
  EXPECT_TRUE(once.met());
}

// How long the threads that called BeginLife lived, and for how much of that the system let others
// run in their place: by their own clocks, not by what a trace says of them.
struct Lives {
  int threads = 0;
  int64_t lived = 0, delayed = 0;  // nanoseconds
};
std::mutex lives_mutex;
Lives lives;  // guarded by lives_mutex

struct Life {
  const int64_t begin = NowNanoseconds();
  ~Life() {
    int64_t ran = 0, delayed = 0;
    std::ifstream("/proc/thread-self/schedstat") >> ran >> delayed;
    std::lock_guard<std::mutex> lock(lives_mutex);
    ++lives.threads;
    lives.lived += NowNanoseconds() - begin;
    lives.delayed += delayed;
  }
};

void BeginLife() {
  static thread_local Life life;
  (void)life;
}

// What the spans of all workers add up to, kernels and waits with a name, in nanoseconds; `lives`
// has the workers' threads after it.
int64_t TimeInSpans(int workers) {
  RuntimeOptions options = Options(workers);
  options.trace = testing::TempDir() + "/shares.json";
  options.threads_per_device = 1;  // no thread but the workers
  options.init_thread = BeginLife;
  int64_t spans = 0;
  options.traced = [&](const plan::Plan&, absl::Span<const WorkerTrace* const> traces) {
    for (const WorkerTrace* trace : traces) {
      for (const TraceSpan& span : trace->spans()) {
        if (span.instruction >= 0 || span.blocked_on.kind != BlockedOn::kNothing) {
          spans += span.end - span.begin;
        }
      }
    }
    return absl::OkStatus();
  };
  lives = {};
  {
    plan::Plan plan = TestPlan(workers);
    for (int device = 0; device < workers; ++device) {
      UpdateOf(&plan, device)->set_scope("h0/spin");
    }
    const auto runtime = StartOrDie(std::move(plan), options);
    const HostTensor x = TestFeed(workers, 0);
    for (int64_t step = 0; step < 100; ++step) {
      std::this_thread::sleep_for(std::chrono::microseconds(300));  // the workers wait for a step
      EXPECT_EQ(runtime->Enqueue(0, {Feed(&x)}, step), absl::OkStatus());
      EXPECT_EQ(runtime->Next().status(), absl::OkStatus());
    }
  }
  EXPECT_EQ(lives.threads, 2 * workers);
  return spans;
}

#ifdef THREAD_SANITIZER
constexpr double kLeastInSpans = 0.8;  // it stretches the runtime's own work and no kernel's
#else
constexpr double kLeastInSpans = 0.98;
#endif

// A thread that is put aside between two spans has no span of that; how much of it there was the
// system tells, and the rest is noise, of which the best of some runs has least. Nothing can make
// spans longer than the threads that had them.
TEST(RuntimeTest, KernelsAndNamedWaitsAreTheWorkersWholeTime) {
  for (const int workers : {1, 2}) {
    double most = 0;
    for (int run = 0; run < 5 && most < kLeastInSpans; ++run) {
      const auto spans = static_cast<double>(TimeInSpans(workers));
      const auto lived = static_cast<double>(lives.lived);
      EXPECT_LE(spans, lived) << workers << " workers";
      most = std::max(most, (spans + static_cast<double>(lives.delayed)) / lived);
      std::printf("%d workers: %.2f %% of their time is in spans, %.2f %% went to others\n",
                  workers, 100 * spans / lived, 100 * static_cast<double>(lives.delayed) / lived);
    }
    EXPECT_GE(most, kLeastInSpans) << workers << " workers";
  }
}

TEST(RuntimeTest, TheTracesFileHasEverySpan) {
  const std::string path = testing::TempDir() + "/trace.json";
  const auto begin = std::chrono::steady_clock::now();
  {
    RuntimeOptions options = Options(2);
    options.trace = path;
    plan::Plan plan = TestPlan(2);
    for (const int device : {0, 1}) UpdateOf(&plan, device)->set_scope("h0/\"spin\"");
    const auto runtime = StartOrDie(std::move(plan), options);
    const HostTensor x = TestFeed(2, 0);
    for (int64_t step = 0; step < 50; ++step) {
      ASSERT_EQ(runtime->Enqueue(0, {Feed(&x)}, step), absl::OkStatus());
      ASSERT_EQ(runtime->Next().status(), absl::OkStatus());
    }
  }
  const double wall =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(trace.is_discarded());
  std::map<int, double> spent, last, first;
  double kernel_time = 0, runtime_time = 0;
  int64_t runs = 0, waits = 0, named = 0;
  for (const auto& instance : trace["traceEvents"]) {
    if (instance["ph"] != "X") continue;
    const int worker = instance["pid"];
    const double ts = instance["ts"], duration = instance["dur"];
    const double before = instance["args"]["runtime_before_us"];
    EXPECT_GE(before, 0);
    spent[worker] += before + duration;
    const bool computes = worker < 2;  // the totals are of such workers
    if (computes) runtime_time += before;
    if (first.count(worker) == 0) first[worker] = ts - before;
    last[worker] = ts + duration;
    if (instance["cat"] == "run") {
      ++runs;
      if (computes) kernel_time += duration;
      EXPECT_NE(instance["args"]["op"], "");
    } else {
      ++waits;
      named += instance["name"].get<std::string>() != "waits";
    }
  }
  EXPECT_EQ(runs, 50 * TestInstructionsPerStep(2));
  EXPECT_GT(waits, 50);
  EXPECT_EQ(named, waits);
  ASSERT_EQ(spent.size(), 4u);
  for (const auto& [worker, time] : spent) {
    // One span begins where the runtime's own work after the last one ends.
    EXPECT_NEAR(time, last[worker] - first[worker], 0.002 * time) << worker;
    EXPECT_LT(time, wall);
    EXPECT_GT(time, 50 * 1000.0);
  }
  const nlohmann::json& totals = trace["otherData"]["train"];
  EXPECT_EQ(totals["steps"], 50);
  EXPECT_EQ(totals["instructions"], runs);
  EXPECT_NEAR(totals["kernels_us"].get<double>(), kernel_time, 1e-3 * (runs + 1));
  EXPECT_NEAR(totals["runtime_us"].get<double>(), runtime_time, 1e-3 * (runs + waits + 1));
  const double share = totals["runtime_share"];
  EXPECT_NEAR(share, runtime_time / (kernel_time + runtime_time + totals["waits_us"].get<double>()),
              1e-4);
}

}  // namespace
}  // namespace sluice
