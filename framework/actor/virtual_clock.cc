// The policy of the clock is the schedule: nothing else in Sluice decides what a compute stream
// does next. It is greedy, for a stream that could work never waits for something better, and its
// ties are broken so that known schedules come out of quotas alone.
//
// 1. A script goes on while its tokens are there. What its last instruction wrote is in the cache
//    and is often a temporary; to leave it would keep those bytes, and cost an entry of the order.
// 2. The older step first, so that the next step, which may have begun, never delays the update and
//    the results that the session waits for.
// 3. The actor of lower priority, then of lower place. The schedule numbers both in the
//    model's order, so forward comes before backward: what keeps forward from running away is its
//    slots, and when these are full backward is all that is left.
// 4. An actor's firings have an order of their own, so micro-batches never compete.
//
// Worked example: two stages, four micro-batches, f and b each one unit long. A saved activation
// has min(micro-batches, stages - stage) slots: two on stage 0, one on stage 1.
//   stage 0:  f0 f1 .  b0 f2 b1 f3 b2 .  b3
//   stage 1:  .  f0 b0 f1 b1 f2 b2 f3 b3
// Stage 0 stands still after f1, since both slots are taken until b0; from there on each b frees
// the slot that the next f takes. Stage 1 has to alternate. That is 1F1B, with its bubble of two
// units.
//
// Whatever is due at one time has all happened before any stream chooses, and streams choose in
// the order of their numbers. So the order depends on times and on the program, and neither on how
// a heap orders its equals nor on which message was sent first: every rank that runs this gets the
// same order.
#include "framework/actor/virtual_clock.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/actor/program_state.h"
#include "framework/base/status.h"
#include "framework/plan/kinds.h"
#include "framework/plan/proof.h"

namespace sluice {
namespace {

// An actor that could run, on the heap of its stream. The least goes first.
struct Candidate {
  int64_t step;
  int32_t priority, actor;
  int64_t instance;  // since the start: tells an entry that has been overtaken
  bool operator<(const Candidate& other) const {  // std::priority_queue pops the greatest
    return std::tie(step, priority, actor, instance) >
           std::tie(other.step, other.priority, other.actor, other.instance);
  }
};

// The end of an instruction, or the arrival of a message.
struct Happening {
  int64_t time, sequence;
  int32_t actor;  // -1: the message
  Message message;
  bool operator<(const Happening& other) const {
    return std::tie(time, sequence) > std::tie(other.time, other.sequence);
  }
};

class Clock {
 public:
  Clock(const ProgramIndex& index, const ClockOptions& options)
      : index_(index), options_(options), state_(&index) {
    state_.set_step_limit(options.steps);
    const int actors = index.num_actors(), streams = index.num_streams(),
              instances = index.num_instances();
    ready_.assign(actors, false);
    instance_.assign(actors, 0);
    idle_.assign(streams, true);
    dirty_.assign(streams, true);
    last_.assign(streams, -1);
    heap_.resize(streams);
    group_ready_.assign(index.num_collectives(), 0);
    result_.entries.resize(streams);
    result_.busy.assign(streams, 0);
    result_.begin_rank.assign(instances, -1);
    result_.end_rank.assign(instances, -1);
    result_.begin_time.assign(instances, 0);
    result_.end_time.assign(instances, 0);
    result_.step_end.assign(options.steps, 0);
  }

  absl::StatusOr<ClockResult> Run() {
    MessageList granted;
    for (int64_t step = 0; step < options_.steps; ++step) GrantStep(index_, step, &granted);
    for (const Message& m : granted) state_.Deliver(m);
    for (int a = 0; a < index_.num_actors(); ++a) Look(a);
    for (int s = 0; s < index_.num_streams(); ++s) Try(s);
    while (!queue_.empty()) {
      RETURN_IF_ERROR(CheckStop(options_.stop));
      now_ = queue_.top().time;
      while (!queue_.empty() && queue_.top().time == now_) {
        const Happening next = queue_.top();
        queue_.pop();
        if (next.actor >= 0) {
          End(next.actor);
        } else {
          state_.Deliver(next.message);
          Look(next.message.to);
        }
      }
      std::sort(to_try_.begin(), to_try_.end());
      for (int32_t s : std::exchange(to_try_, {})) Try(s);
    }
    if (!state_.Done()) return Stuck();
    result_.makespan = *std::max_element(result_.step_end.begin(), result_.step_end.end());
    const int last = options_.steps - 1, from = last / 2;
    result_.step_nanoseconds =
        last == 0 ? result_.makespan
                  : (result_.step_end[last] - result_.step_end[from]) / (last - from);
    return std::move(result_);
  }

 private:
  void Touch(int32_t stream) {
    if (dirty_[stream]) return;
    dirty_[stream] = true;
    to_try_.push_back(stream);
  }

  // Notes it if an actor's next instruction has got all its tokens.
  void Look(int32_t a) {
    if (ready_[a] || Running(a) || !state_.actor(a).Ready()) return;
    ready_[a] = true;
    const int32_t collective = index_.CollectiveOf(a, state_.actor(a).cursor());
    if (collective < 0) return Offer(a);
    const auto members = index_.Members(collective);
    if (++group_ready_[collective] < static_cast<int>(members.size())) return;
    for (const ProgramIndex::Member& m : members) Offer(m.actor);
  }

  bool Running(int32_t a) const {
    const int32_t s = index_.actor(a).stream;
    return !idle_[s] && last_[s] == a;
  }

  void Offer(int32_t a) {
    const int32_t s = index_.actor(a).stream;
    if (!index_.listed(s)) {
      heap_[s].push({state_.actor(a).step(), index_.actor(a).priority, a, instance_[a]});
    }
    Touch(s);
  }

  // Can this actor's instruction begin now, with all its peers? A collective waits until all of its
  // streams are idle; until then these take other work, rather than stand still for each other.
  bool CanBegin(int32_t a) const {
    if (!ready_[a]) return false;
    const int32_t collective = index_.CollectiveOf(a, state_.actor(a).cursor());
    if (collective < 0) return state_.HasTurn(a);
    const auto members = index_.Members(collective);
    if (group_ready_[collective] < static_cast<int>(members.size())) return false;
    for (const ProgramIndex::Member& m : members) {
      if (!idle_[index_.actor(m.actor).stream] || !state_.HasTurn(m.actor)) return false;
    }
    return true;
  }

  void Try(int32_t s) {
    dirty_[s] = false;
    if (!idle_[s]) return;
    if (index_.listed(s)) {
      const int32_t a = state_.order(s).actor();
      if (CanBegin(a)) Begin(a);
      return;
    }
    const int32_t last = last_[s];
    if (last >= 0 && state_.actor(last).cursor() > 0 && CanBegin(last)) return Begin(last);
    std::vector<Candidate> put_back;  // collectives whose other streams are busy
    while (!heap_[s].empty()) {
      const Candidate best = heap_[s].top();
      heap_[s].pop();
      // It has begun since it was offered, as it went on with its script: such entries are dropped
      // here, because a heap cannot be searched for them.
      if (best.instance != instance_[best.actor]) continue;
      if (CanBegin(best.actor)) {
        Begin(best.actor);
        break;
      }
      put_back.push_back(best);
    }
    for (const Candidate& c : put_back) heap_[s].push(c);
  }

  void Begin(int32_t a) {
    const int32_t cursor = state_.actor(a).cursor();
    const int32_t collective = index_.CollectiveOf(a, cursor);
    if (collective < 0) {
      BeginOne(a, index_.Nanoseconds(a, cursor));
    } else {
      int64_t duration = 0;
      for (const ProgramIndex::Member& m : index_.Members(collective)) {
        duration = std::max(duration, index_.Nanoseconds(m.actor, m.instruction));
      }
      group_ready_[collective] = 0;
      for (const ProgramIndex::Member& m : index_.Members(collective)) BeginOne(m.actor, duration);
    }
    // Times alone do not order instructions: one that takes no time begins and ends at once.
    // Packing goes by ranks, and members of a collective share one.
    ++rank_;
  }

  void BeginOne(int32_t a, int64_t duration) {
    const Actor& actor = state_.actor(a);
    const int32_t s = index_.actor(a).stream;
    idle_[s] = false;
    last_[s] = a;
    ready_[a] = false;
    ++instance_[a];
    result_.busy[s] += duration;
    queue_.push({now_ + duration, sequence_++, a, {}});
    if (actor.step() > 0) return;
    result_.begin_rank[actor.instance()] = rank_;
    result_.begin_time[actor.instance()] = now_;
    std::vector<plan::ScheduleEntry>& entries = result_.entries[s];
    if (!entries.empty() && entries.back().actor() == a &&
        entries.back().firing() == actor.micro() && entries.back().to() == actor.cursor()) {
      entries.back().set_to(actor.cursor() + 1);
      return;
    }
    plan::ScheduleEntry& entry = entries.emplace_back();
    entry.set_actor(a);
    entry.set_firing(actor.micro());
    entry.set_from(actor.cursor());
    entry.set_to(actor.cursor() + 1);
  }

  void End(int32_t a) {
    const Actor& actor = state_.actor(a);
    const int32_t s = index_.actor(a).stream;
    if (actor.step() == 0) {
      result_.end_rank[actor.instance()] = rank_++;
      result_.end_time[actor.instance()] = now_;
    }
    result_.step_end[actor.step()] = now_;
    idle_[s] = true;
    Touch(s);
    messages_.clear();
    state_.Finish(a, 0, &messages_);
    for (const Message& m : messages_) {
      if (options_.message_latency > 0 && index_.device_of(m.to) != index_.device_of(a)) {
        queue_.push({now_ + options_.message_latency, sequence_++, -1, m});
      } else {
        state_.Deliver(m);
        Look(m.to);
      }
    }
    Look(a);
  }

  absl::Status Stuck() const {
    Certificate certificate;
    RETURN_IF_ERROR(ProveLive(index_, &certificate));
    for (int a = 0; a < index_.num_actors(); ++a) {
      const Actor& actor = state_.actor(a);
      if (actor.Done()) continue;
      return absl::InternalError(absl::StrCat("the virtual clock stopped before ",
                                              index_.Describe(a, actor.firing(), actor.cursor()),
                                              " though the program is live"));
    }
    return absl::InternalError("the virtual clock stopped");
  }

  const ProgramIndex& index_;
  const ClockOptions options_;
  ProgramState state_;
  ClockResult result_;
  std::vector<bool> ready_, idle_, dirty_;  // by actor, stream, stream
  std::vector<int64_t> instance_;           // by actor: instructions begun
  std::vector<int32_t> last_;               // by stream: the actor that ran last
  std::vector<int32_t> group_ready_;        // by collective: members with all their tokens
  std::vector<std::priority_queue<Candidate>> heap_;  // by stream without an order
  std::vector<int32_t> to_try_;
  std::priority_queue<Happening> queue_;
  MessageList messages_;
  int64_t now_ = 0, sequence_ = 0;
  int32_t rank_ = 0;
};

}  // namespace

absl::StatusOr<ClockResult> RunClock(const ProgramIndex& index, const ClockOptions& options) {
  return Clock(index, options).Run();
}

absl::StatusOr<ClockResult> RecordOrder(plan::Program* program, const Stop& stop) {
  for (plan::Stream& stream : *program->mutable_streams()) stream.clear_order();
  ASSIGN_OR_RETURN(ProgramIndex index, ProgramIndex::Build(*program));
  ClockOptions options;
  options.stop = stop;
  ASSIGN_OR_RETURN(ClockResult run, RunClock(index, options));
  for (int s = 0; s < program->streams_size(); ++s) {
    bool listed = IsListed(program->streams(s).kind());
    for (int32_t a : index.StreamActors(s)) {
      for (const plan::Instruction& x : program->actors(a).script()) {
        listed = listed || x.collective() > 0;
      }
    }
    if (!listed) continue;
    for (const plan::ScheduleEntry& entry : run.entries[s])
      *program->mutable_streams(s)->add_order() = entry;
  }
  return run;
}

}  // namespace sluice
