#include "bench/message_times.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/quantiles.h"
#include "framework/actor/worker_policy.h"
#include "framework/base/queue.h"
#include "framework/base/status.h"
#include "framework/plan/text.h"
#include "framework/runtime/runtime.h"
#include "framework/runtime/trace.h"

namespace sluice {
namespace {

// A step of one script of `length` instructions, of which each reads what the last one wrote, on a
// device that computes nothing.
absl::StatusOr<double> TimeScript(int length) {
  std::string text = "actor a on d0.compute\n  x0 = f()\n";
  for (int i = 1; i < length; ++i) absl::StrAppend(&text, "  x", i, " = f(x", i - 1, ")\n");
  ASSIGN_OR_RETURN(plan::Plan plan, ParsePlan(text));
  // A place of its own for each result: packing would put them all into two, and add reuse edges.
  plan::Program& program = *plan.mutable_programs(0);
  for (int r = 0; r < program.registers_size(); ++r) {
    program.mutable_registers(r)->add_slot_offsets(64 * r);
  }
  plan.mutable_devices(0)->set_memory_bytes(int64_t{64} * program.registers_size());
  for (plan::Device& device : *plan.mutable_devices()) device.set_kind(plan::DEVICE_NULL);
  ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, Runtime::Start(std::move(plan), {}));
  std::vector<double> times;
  for (int step = 0; step < 30; ++step) {
    const int64_t begin = NowNanoseconds();
    RETURN_IF_ERROR(runtime->Enqueue(0, {}, step));
    RETURN_IF_ERROR(runtime->Next().status());
    times.push_back(static_cast<double>(NowNanoseconds() - begin));
  }
  return Median(std::move(times));
}

// There and back between two threads, of which the first pauses before it sends: with a pause, the
// other has gone to sleep.
double TimeMessage(std::chrono::microseconds pause, int rounds) {
  Queue<int> there, back;
  const auto wait = [pause] {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
  };
  std::thread other([&] {
    int item = 0;
    do {
      there.WaitNonEmpty(kIdleSpin);
      there.Pop(&item);
      back.Push(item);
    } while (item >= 0);
  });
  std::vector<double> times;
  int item = 0;
  for (int i = 0; i < rounds; ++i) {
    wait();
    const int64_t begin = NowNanoseconds();
    there.Push(i + 1 < rounds ? i : -1);
    // The answer is spun for: one way alone may find a sleeper.
    while (!back.Pop(&item)) {
    }
    times.push_back(static_cast<double>(NowNanoseconds() - begin));
  }
  other.join();
  return Median(std::move(times));
}

}  // namespace

absl::StatusOr<MessageTimes> MeasureMessages() {
  constexpr int kShort = 500, kLong = 4500;
  ASSIGN_OR_RETURN(const double few, TimeScript(kShort));
  ASSIGN_OR_RETURN(const double many, TimeScript(kLong));
  MessageTimes times;
  times.launch = std::max<int64_t>(1, std::llround((many - few) / (kLong - kShort)));
  times.awake =
      std::max<int64_t>(1, std::llround(TimeMessage(std::chrono::microseconds(0), 2000) / 2));
  const double slow = TimeMessage(std::chrono::microseconds(200), 200);  // there asleep, back awake
  times.asleep = std::max<int64_t>(times.awake, std::llround(slow) - times.awake);
  return times;
}

}  // namespace sluice
