// The order in which things are done here is that of runtime/worker.cc, line for line where it
// matters, because ready lists are first in, first out: who is listed first runs first.
//
// When an instruction ends, its messages are delivered, and those that they make ready are listed;
// then its own actor, if it can go on; then the actor that has the turn of the stream now; then
// what came into the mailbox meanwhile is read. So an actor never goes on before those
// of its worker whom its instruction made ready, and a message waits for one instruction at most.
// There are no other ties: two things at one time are taken in the order in which they were
// scheduled. A real run breaks such ties by chance, and there is no reason to predict one of them.
//
// Example: a worker has the devices 0 and 1, and each has a forward script x y. Both begin, x of
// device 0 runs, and then its actor is listed behind that of device 1: x0 x1 y0 y1. So two devices
// on a worker advance evenly, and each looks half as fast, instead of one being late by a script.
#include "framework/actor/worker_clock.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/actor/program_state.h"
#include "framework/actor/stream_priority.h"
#include "framework/actor/worker_layout.h"
#include "framework/base/status.h"
#include "framework/plan/proof.h"

namespace sluice {
namespace {

class WorkerClock {
 public:
  WorkerClock(const ProgramIndex& index, const WorkerClockOptions& options)
      : index_(index),
        options_(options),
        state_(&index),
        layout_{options.devices, options.workers},
        workers_(layout_.workers()) {
    const int actors = index.num_actors();
    queued_.assign(actors, false);
    for (int a = 0; a < actors; ++a) {
      const plan::StreamKind kind = index.stream_kind(index.actor(a).stream);
      worker_of_.push_back(layout_.WorkerOf(kind, index.device_of(a)));
      priority_.push_back(PriorityOf(kind));
    }
    unended_.assign(options.steps, actors);
    result_.step_end.assign(options.steps, 0);
    result_.busy.assign(options.workers, 0);
    state_.set_step_limit(0);
  }

  absl::StatusOr<WorkerClockResult> Run() {
    for (int step = 0; step < std::min(options_.steps, options_.steps_ahead); ++step) Begin();
    while (!instances_.empty()) {
      RETURN_IF_ERROR(CheckStop(options_.stop));
      const Instance instance = instances_.top();
      instances_.pop();
      now_ = instance.time;
      instance.item.kind == MailboxItem::kEnd ? End(instance.worker) : Arrive(instance);
    }
    if (ended_ < options_.steps) return Stuck();
    const int last = options_.steps - 1, from = last / 2;
    result_.step_nanoseconds =
        last == 0 ? result_.step_end[0]
                  : (result_.step_end[last] - result_.step_end[from]) / (last - from);
    return std::move(result_);
  }

 private:
  struct MailboxItem {
    enum Kind : int8_t { kEnd, kStep, kMessage } kind;
    Message message;
    int64_t step;
    bool woke;  // the worker was asleep when it came
  };
  struct Instance {
    int64_t time, sequence;
    int32_t worker;
    MailboxItem item;
    bool operator<(const Instance& other) const {  // std::priority_queue pops the greatest
      return std::tie(time, sequence) > std::tie(other.time, other.sequence);
    }
  };
  struct Worker {
    std::deque<int32_t> ready[kPriorities];
    std::vector<MailboxItem> items;  // that came while it ran an instruction
    int32_t running = -1;
    int64_t idle_since = 0;
    int64_t awake_at = 0;  // when the last mailbox item that found it asleep has woken it
  };

  void Push(int64_t delay, int32_t worker, const MailboxItem& item) {
    instances_.push({now_ + delay, sequence_++, worker, item});
  }

  // The session asks for another step.
  void Begin() {
    for (int32_t w = 0; w < layout_.workers(); ++w) {
      Push(options_.message_latency, w, {MailboxItem::kStep, {}, begun_, false});
    }
    ++begun_;
  }

  void Arrive(const Instance& instance) {
    Worker& worker = workers_[instance.worker];
    if (worker.running >= 0) {
      worker.items.push_back(instance.item);
      return;
    }
    // It has slept if it has been idle for longer than it spins. Waking takes its time from the
    // first item that found it asleep; one that comes while it wakes is read with that one.
    if (!instance.item.woke && now_ - worker.idle_since > options_.spin) {
      if (worker.awake_at < now_) worker.awake_at = now_ + options_.wake_latency;
      MailboxItem later = instance.item;
      later.woke = true;
      Push(worker.awake_at - now_, instance.worker, later);
      return;
    }
    Open(instance.worker, instance.item);
    RunNext(instance.worker);
  }

  void Open(int32_t w, const MailboxItem& item) {
    if (item.kind == MailboxItem::kMessage) return Deliver(item.message);
    MessageList grants;
    GrantStep(index_, item.step, &grants);
    for (int a = 0; a < index_.num_actors(); ++a) {
      if (worker_of_[a] == w) state_.actor(a).set_step_limit(item.step + 1);
    }
    for (const Message& grant : grants) {
      if (worker_of_[grant.to] == w) state_.Deliver(grant);
    }
    for (int a = 0; a < index_.num_actors(); ++a) {
      if (worker_of_[a] == w) Consider(a);
    }
  }

  void Deliver(const Message& message) {
    state_.Deliver(message);
    Consider(message.to);
  }

  void Consider(int32_t a) {
    if (queued_[a] || !state_.CanRun(a)) return;
    queued_[a] = true;
    workers_[worker_of_[a]].ready[priority_[a]].push_back(a);
  }

  void RunNext(int32_t w) {
    Worker& worker = workers_[w];
    for (std::deque<int32_t>& ready : worker.ready) {
      if (ready.empty()) continue;
      const int32_t a = ready.front();
      ready.pop_front();
      queued_[a] = false;
      const Actor& actor = state_.actor(a);
      const int64_t duration = std::max<int64_t>(
          0, options_.duration ? options_.duration(w, actor) : actor.instruction().nanoseconds());
      worker.running = a;
      if (layout_.computes(w)) result_.busy[w] += duration;
      result_.spans.push_back(
          {now_, now_ + duration, actor.step(), w, a, actor.cursor(), actor.micro()});
      Push(duration, w, {MailboxItem::kEnd, {}, 0, false});
      return;
    }
    worker.idle_since = now_;
  }

  void End(int32_t w) {
    Worker& worker = workers_[w];
    const int32_t a = std::exchange(worker.running, -1);
    const Actor& actor = state_.actor(a);
    const int64_t step = actor.step();
    messages_.clear();
    const int32_t entry = state_.Finish(a, 0, &messages_);
    for (const Message& message : messages_) {
      const int32_t to = worker_of_[message.to];
      if (to == w) {
        Deliver(message);
      } else {
        Push(options_.message_latency, to, {MailboxItem::kMessage, message, 0, false});
      }
    }
    Consider(a);
    if (entry >= 0) Consider(entry);
    if (actor.step() != step && --unended_[step] == 0) {
      result_.step_end[step] = now_;
      ++ended_;
      if (begun_ < options_.steps) Begin();
    }
    for (const MailboxItem& item : std::exchange(worker.items, {})) Open(w, item);
    RunNext(w);
  }

  absl::Status Stuck() const {
    Certificate certificate;
    RETURN_IF_ERROR(ProveLive(index_, &certificate));
    return absl::InternalError(
        absl::StrCat("the workers' clock stopped in step ", ended_, " though the program is live"));
  }

  const ProgramIndex& index_;
  const WorkerClockOptions options_;
  ProgramState state_;
  WorkerClockResult result_;
  const WorkerLayout layout_;
  std::vector<Worker> workers_;
  std::vector<int32_t> worker_of_, priority_;  // by actor
  std::vector<bool> queued_;                   // by actor: it stands in its worker's ready list
  std::vector<int> unended_;                   // by step: actors that have not ended it
  std::priority_queue<Instance> instances_;
  MessageList messages_;
  int64_t now_ = 0, sequence_ = 0;
  int begun_ = 0, ended_ = 0;
};

}  // namespace

absl::StatusOr<WorkerClockResult> RunWorkerClock(const ProgramIndex& index,
                                                 const WorkerClockOptions& options) {
  if (options.workers < 1 || options.steps < 1 || options.steps_ahead < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a worker, a step and a step ahead, got ", options.workers, ", ",
                     options.steps, " and ", options.steps_ahead));
  }
  for (int a = 0; a < index.num_actors(); ++a) {
    if (index.device_of(a) < 0 || index.device_of(a) >= options.devices) {
      return absl::InvalidArgumentError(absl::StrCat("expected streams of ", options.devices,
                                                     " devices, got device ", index.device_of(a)));
    }
  }
  return WorkerClock(index, options).Run();
}

}  // namespace sluice
