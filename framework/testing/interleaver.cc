#include "framework/testing/interleaver.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/actor/program_state.h"
#include "framework/base/status.h"
#include "framework/testing/checker.h"
#include "framework/testing/xorshift.h"

namespace sluice {
namespace {

// An instruction that its actor has passed to a stream.
struct Launched {
  int32_t actor;
  int64_t firing;
  int32_t instruction;
  Fence serial;
  std::vector<Fence> fences;
  MessageList late;  // to be sent when it has ended
};

class Interleaver {
 public:
  Interleaver(const ProgramIndex& index, const InterleaverOptions& options)
      : index_(index),
        believed_(options.believed != nullptr ? *options.believed : index),
        options_(options),
        random_(options.seed),
        state_(&believed_),
        checker_(index, options.initial),
        queues_(index.num_streams()),
        running_(index.num_streams(), false),
        in_flight_req_(believed_.consumers().size(), 0),
        emitted_(index.num_registers(), 0),
        fifo_(options.fifo || options.launch_ahead) {
    state_.set_step_limit(options.steps);
    for (int c = 0; c < believed_.num_ack_counts(); ++c) {
      ack_count_base_.push_back(static_cast<int32_t>(in_flight_ack_.size()));
      in_flight_ack_.resize(in_flight_ack_.size() +
                            believed_.ring(believed_.ack_count(c).ring).slots);
    }
    released_.assign(in_flight_ack_.size(), 0);
    count_credits_ = options.count_credits && options.fault != PlantedFault::kAckBeforeRead;
    const size_t kinds = index.num_actors() + index.num_streams();
    for (size_t n = 0; n < kinds; ++n) slow_.push_back(random_.Below(20) < 3);
    marked_.assign(kinds, false);
    process_.resize(1);
    for (const plan::Stream& s : index.program().streams()) {
      process_.resize(std::max<size_t>(process_.size(), s.device() + 1));
    }
    for (auto&& process : process_) process = options.launch_ahead ? random_.Below(2) : -1;
    for (int r = 0; r < index.num_registers(); ++r) emitted_[r] = index.reg(r).initial;
    for (int a = 0; a < index.num_actors(); ++a) {
      if (index.program().actors(a).name() == options.ahead) ahead_ = a;
      if (index.program().actors(a).name() == options.behind) behind_ = a;
    }
    drop_ = options.fault == PlantedFault::kMissingReq
                ? random_.Below(1 + believed_.consumers().size() * options.steps)
                : -1;
  }

  absl::StatusOr<Interleaving> Run() {
    MessageList granted;
    for (int64_t step = 0; step < options_.steps; ++step) GrantStep(believed_, step, &granted);
    for (const Message& m : granted) Send(-1, m);
    for (int a = 0; a < index_.num_actors(); ++a) Mark(a);
    while (!todo_.empty()) {
      const int32_t n = random_.Below(todo_.size());
      const int32_t item = todo_[n];
      if (item < NumKinds() && slow_[item] && todo_.size() > 1 && random_.Below(5) != 0) continue;
      todo_[n] = todo_.back();
      todo_.pop_back();
      marked_[item] = false;
      if (item >= NumKinds()) {
        RETURN_IF_ERROR(DeliverFrom(item));
      } else if (item < index_.num_actors()) {
        if (state_.CanRun(item)) RETURN_IF_ERROR(Launch(item));
      } else {
        RETURN_IF_ERROR(Work(item - index_.num_actors()));
      }
    }
    RETURN_IF_ERROR(CheckEnd());
    Interleaving result;
    result.outcome = checker_.TakeOutcome(options_.steps);
    result.order = order_;
    result.ahead = most_ahead_;
    return result;
  }

 private:
  struct Channel {
    int32_t to;
    std::deque<Message> messages;
  };

  int32_t NumKinds() const { return index_.num_actors() + index_.num_streams(); }

  void Mark(int32_t item) {
    if (marked_[item]) return;
    marked_[item] = true;
    todo_.push_back(item);
  }

  void Send(int32_t from, const Message& message) {
    if (message.kind == Message::Kind::kReq) {
      if (from >= 0 && sent_++ == drop_) return;
      ++in_flight_req_[message.index];
    }
    if (message.kind == Message::Kind::kAck) ++in_flight_ack_[CounterOf(message)];
    const uint64_t key = static_cast<uint64_t>(from + 1) << 32 | static_cast<uint32_t>(message.to);
    auto [it, fresh] =
        channel_of_.emplace(key, NumKinds() + static_cast<int32_t>(channels_.size()));
    if (fresh) {
      channels_.push_back({message.to, {}});
      marked_.push_back(false);
    }
    channels_[it->second - NumKinds()].messages.push_back(message);
    Mark(it->second);
    if (options_.fault != PlantedFault::kEarlyUpdate || from < 0) return;
    if (message.kind != Message::Kind::kAck || tampered_ || random_.Below(4) != 0) return;
    const ProgramIndex::Ring& ring = believed_.ring(believed_.ack_count(message.index).ring);
    const int32_t r = believed_.PlaceOf(believed_.ack_count(message.index).ring, 0).reg;
    if (ring.slots != 1 || !believed_.reg(r).updated || believed_.reg(r).initial == 0) return;
    tampered_ = true;
    Send(from, message);
  }

  absl::Status DeliverFrom(int32_t item) {
    Channel& channel = channels_[item - NumKinds()];
    const int32_t n = fifo_ ? 0 : random_.Below(channel.messages.size());
    const Message message = channel.messages[n];
    channel.messages.erase(channel.messages.begin() + n);
    if (!channel.messages.empty()) Mark(item);
    Mark(message.to);
    if (message.kind == Message::Kind::kAck) {
      state_.Deliver(message);
      --in_flight_ack_[CounterOf(message)];
      return CheckAckCount(message.index, message.sequence);
    }
    if (message.kind == Message::Kind::kReuse) {
      state_.Deliver(message);
      return {};
    }
    // Tokens arrive in order, each once.
    const ProgramIndex::Consumer& consumer = believed_.consumer(message.index);
    const int64_t arrived = state_.actor(message.to).arrived(consumer.local);
    if (fifo_ && message.sequence != arrived) {
      return absl::InternalError(absl::StrCat(believed_.RegisterName(consumer.reg), ": token ",
                                              message.sequence, " arrived, expected ", arrived));
    }
    state_.Deliver(message);
    --in_flight_req_[message.index];
    return CheckConsumer(message.index);
  }

  // What was emitted is what arrived and what is under way.
  absl::Status CheckConsumer(int32_t n) const {
    const ProgramIndex::Consumer& consumer = believed_.consumer(n);
    if (believed_.reg(consumer.reg).producer < 0) return {};
    const int64_t arrived = state_.actor(consumer.actor).arrived(consumer.local);
    if (arrived + in_flight_req_[n] == emitted_[consumer.reg]) return {};
    return absl::InternalError(absl::StrCat(believed_.RegisterName(consumer.reg), ": ",
                                            emitted_[consumer.reg], " tokens emitted, ", arrived,
                                            " arrived at ", believed_.ActorName(consumer.actor),
                                            ", ", in_flight_req_[n], " under way"));
  }

  int32_t CounterOf(int32_t ack_count, int64_t sequence) const {
    return static_cast<int32_t>(ack_count_base_[ack_count] +
                                sequence %
                                    believed_.ring(believed_.ack_count(ack_count).ring).slots);
  }
  int32_t CounterOf(const Message& ack) const { return CounterOf(ack.index, ack.sequence); }

  // The acks of a slot that have arrived or are under way are those that its readers gave.
  absl::Status CheckAckCount(int32_t ack_count, int64_t sequence) const {
    if (!count_credits_) return {};
    const ProgramIndex::AckCount& x = believed_.ack_count(ack_count);
    const int32_t slot = static_cast<int32_t>(sequence % believed_.ring(x.ring).slots);
    const int32_t counter = CounterOf(ack_count, sequence);
    const int32_t acks = state_.actor(x.actor).acks(ack_count, slot);
    if (acks + in_flight_ack_[counter] == released_[counter]) return {};
    return absl::InternalError(absl::StrCat(
        "slot ", slot, " of ", believed_.RegisterName(believed_.PlaceOf(x.ring, sequence).reg),
        ": ", acks, " acks arrived at ", believed_.ActorName(x.actor), ", ",
        in_flight_ack_[counter], " under way, ", released_[counter], " given"));
  }

  // Notes what an instruction takes and gives back, as the index has it.
  void CountCredits(int32_t a, int64_t firing, int32_t i, std::vector<Message>* given) {
    for (int32_t r : believed_.Acquires(a, i)) {
      const ProgramIndex::Register& x = believed_.reg(r);
      if (firing % x.every != 0) continue;
      const int64_t sequence = believed_.SequenceOf(r, x.initial + firing / x.every);
      released_[CounterOf(believed_.PlaceOf(x.ring, sequence).ack_count, sequence)] = 0;
    }
    const auto give = [&](int32_t r, int64_t token) {
      const ProgramIndex::Register& x = believed_.reg(r);
      if (x.producer < 0) return;
      const int64_t sequence = believed_.SequenceOf(r, token) + believed_.ring(x.ring).slots;
      const int32_t ack_count = believed_.PlaceOf(x.ring, sequence).ack_count;
      ++released_[CounterOf(ack_count, sequence)];
      given->push_back({Message::Kind::kAck, a, ack_count, sequence});
    };
    for (int32_t r : believed_.Emits(a, i)) {
      const ProgramIndex::Register& x = believed_.reg(r);
      const bool read = x.consumers_begin != x.consumers_end;
      if (!read && (firing + 1) % x.every == 0) give(r, x.initial + firing / x.every);
    }
    for (int32_t n : believed_.Releases(a, i)) {
      const ProgramIndex::Consumer& consumer = believed_.consumer(n);
      if ((firing + 1) % consumer.serves == 0)
        give(consumer.reg, believed_.TokenOf(consumer, firing));
    }
  }

  // Moves the actor on and sends what it says; what must wait for the work's end goes to `late`.
  absl::Status Advance(int32_t a, Fence fence, MessageList* late) {
    const Actor& actor = state_.actor(a);
    const int64_t firing = actor.firing();
    const int32_t i = actor.cursor();
    MessageList messages;
    const int32_t next = state_.Finish(a, fence, &messages);
    for (int32_t r : believed_.Emits(a, i)) {
      if ((firing + 1) % believed_.reg(r).every == 0) ++emitted_[r];
    }
    for (Message& m : messages) {
      if (early_acks_ && m.kind == Message::Kind::kAck) continue;  // gone already
      const int32_t stream = index_.actor(m.to).stream;
      const bool now =
          fence == 0 || (believed_.listed(stream) &&
                         process_[index_.device_of(m.to)] == process_[index_.device_of(a)]);
      if (now) {
        Send(a, m);
      } else {
        if (m.kind == Message::Kind::kReq) ++in_flight_req_[m.index];
        if (m.kind == Message::Kind::kAck) ++in_flight_ack_[CounterOf(m)];
        m.fence = 0;
        late->push_back(m);
      }
    }
    for (int32_t r : believed_.Emits(a, i)) {
      const ProgramIndex::Register& x = believed_.reg(r);
      for (int32_t n = x.consumers_begin; n < x.consumers_end; ++n) {
        if (drop_ < 0) RETURN_IF_ERROR(CheckConsumer(n));
      }
    }
    std::vector<Message> given;
    CountCredits(a, firing, i, &given);
    for (const Message& m : given) RETURN_IF_ERROR(CheckAckCount(m.index, m.sequence));
    Mark(a);
    if (next >= 0) Mark(next);
    if (ahead_ >= 0 && behind_ >= 0) {
      most_ahead_ =
          std::max(most_ahead_, state_.actor(ahead_).firing() - state_.actor(behind_).firing());
    }
    return {};
  }

  absl::Status Launch(int32_t a) {
    const int32_t s = index_.actor(a).stream;
    const Actor& actor = state_.actor(a);
    Launched work{a, actor.firing(), actor.cursor(), ++serial_, {}, {}};
    if (options_.launch_ahead) {
      actor.AppendFences(actor.cursor(), &work.fences);
      RETURN_IF_ERROR(Advance(a, work.serial, &work.late));
    } else if (!queues_[s].empty()) {
      return {};  // busy; looked at again when the stream is free
    }
    queues_[s].push_back(std::move(work));
    Mark(index_.num_actors() + s);
    return {};
  }

  bool IsFinished(Fence serial) const { return finished_.count(serial) > 0; }

  absl::Status Work(int32_t s) {
    if (queues_[s].empty()) return {};
    Launched& work = queues_[s].front();
    if (!running_[s]) {
      for (Fence fence : work.fences) {
        if (!IsFinished(fence)) return {};
      }
      RETURN_IF_ERROR(checker_.Begin(work.actor, work.firing, work.instruction));
      order_ = (order_ ^
                static_cast<uint64_t>(index_.actor(work.actor).first_instance + work.instruction)) *
               0x100000001B3ull;
      running_[s] = true;
      if (options_.fault == PlantedFault::kAckBeforeRead) SendAcksEarly(work.actor);
    } else if (checker_.MayEnd(work.actor, work.firing, work.instruction)) {
      return EndWork(s);
    } else {
      return {};
    }
    Mark(index_.num_actors() + s);
    if (const int32_t c = index_.CollectiveOf(work.actor, work.instruction); c >= 0) {
      for (const ProgramIndex::Member& m : index_.Members(c)) {
        Mark(index_.num_actors() + index_.actor(m.actor).stream);
      }
    }
    return {};
  }

  absl::Status EndWork(int32_t s) {
    const Launched work = std::move(queues_[s].front());
    queues_[s].pop_front();
    running_[s] = false;
    checker_.End(work.actor, work.firing, work.instruction);
    if (options_.launch_ahead) {
      finished_[work.serial] = true;
      for (const Message& m : work.late) {
        if (m.kind == Message::Kind::kReq) --in_flight_req_[m.index];
        if (m.kind == Message::Kind::kAck) --in_flight_ack_[CounterOf(m)];
        Send(work.actor, m);
      }
      for (int32_t other = 0; other < index_.num_streams(); ++other) {
        if (!queues_[other].empty()) Mark(index_.num_actors() + other);
      }
      return {};
    }
    early_acks_ = options_.fault == PlantedFault::kAckBeforeRead;
    RETURN_IF_ERROR(Advance(work.actor, 0, nullptr));
    early_acks_ = false;
    for (int32_t a : index_.StreamActors(s)) Mark(a);
    return {};
  }

  void SendAcksEarly(int32_t a) {
    Actor copy = state_.actor(a);
    MessageList messages;
    copy.Finish(0, &messages);
    for (const Message& m : messages) {
      if (m.kind == Message::Kind::kAck) Send(a, m);
    }
  }

  absl::Status CheckEnd() const {
    for (int a = 0; a < index_.num_actors(); ++a) {
      const Actor& actor = state_.actor(a);
      if (actor.Done()) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("stuck before ", index_.Describe(a, actor.firing(), actor.cursor()),
                       " of step ", actor.step()));
    }
    for (int s = 0; s < index_.num_streams(); ++s) {
      if (queues_[s].empty()) continue;
      const Launched& work = queues_[s].front();
      return absl::FailedPreconditionError(
          absl::StrCat("stuck in ", index_.Describe(work.actor, work.firing, work.instruction)));
    }
    for (size_t n = 0; n < in_flight_req_.size(); ++n) {
      RETURN_IF_ERROR(CheckConsumer(static_cast<int32_t>(n)));
    }
    return checker_.CheckSettled(options_.steps);
  }

  const ProgramIndex& index_;
  const ProgramIndex& believed_;
  const InterleaverOptions& options_;
  Xorshift random_;
  ProgramState state_;
  Checker checker_;
  std::vector<std::deque<Launched>> queues_;  // by stream; the first one may be running
  std::vector<bool> running_;
  std::vector<int64_t> in_flight_req_, emitted_;  // by consumer, by register
  // By slot of each credit: acks under way, and given since the slot was last taken.
  std::vector<int32_t> ack_count_base_, in_flight_ack_, released_;
  bool count_credits_ = true;
  std::vector<bool> slow_, marked_;  // actors, streams, channels
  std::vector<int32_t> todo_;
  std::vector<int32_t> process_;  // by device
  std::unordered_map<uint64_t, int32_t> channel_of_;
  std::vector<Channel> channels_;
  std::unordered_map<Fence, bool> finished_;
  const bool fifo_;
  Fence serial_ = 0;
  int64_t sent_ = 0, drop_ = -1, most_ahead_ = 0;
  int32_t ahead_ = -1, behind_ = -1;
  bool early_acks_ = false, tampered_ = false;
  uint64_t order_ = 0xCBF29CE484222325ull;
};

}  // namespace

absl::StatusOr<Interleaving> RunInterleaved(const ProgramIndex& index,
                                            const InterleaverOptions& options) {
  return Interleaver(index, options).Run();
}

}  // namespace sluice
