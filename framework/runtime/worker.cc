#include "framework/runtime/worker.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"
#include "framework/plan/kinds.h"

namespace sluice {
namespace {

constexpr int64_t kScratchAlignment = 64;

}  // namespace

Worker::Worker(Setup setup) : setup_(std::move(setup)), mailbox_(512) {
  thread_pool_ = std::make_unique<CpuThreadPool>(setup_.kernels.threads, setup_.init_thread);
  own_.resize(setup_.programs->size());
  Most most;
  for (size_t p = 0; p < own_.size(); ++p) TakeProgram(static_cast<int>(p), &most);
  for (ReadyList& list : ready_) list.items.resize(std::bit_ceil(most.actors));
  out_.reserve(most.messages);
  context_.seed = setup_.seed;
  if (setup_.link != nullptr) inbox_ = setup_.link->OpenInbox(setup_.index);
  for (const auto& device : *setup_.devices) {
    if (device != nullptr && !IsHost(device->kind())) fences_ = device.get();
  }
  if (fences_ == nullptr && setup_.link == nullptr) return;
  held_.reserve(most.held);
  awaited_.reserve(most.held);
  ends_.reserve(own_.size() * kStepsAhead);
  for (Own& own : own_) {
    for (std::vector<Fence>& fences : own.end_fences) fences.resize(late_.size());
  }
}

// Takes the actors that this worker runs of a program, and opens their streams.
void Worker::TakeProgram(int p, Most* most) {
  const RunningProgram& running = (*setup_.programs)[p];
  const ProgramIndex& index = running.loaded->index();
  Own& own = own_[p];
  own.loaded = running.loaded.get();
  own.state = running.state.get();
  own.worker_of = running.worker_of.data();
  own.priority = running.priority.data();
  own.queued.assign(index.num_actors(), 0);
  own.opened.assign(index.num_streams(), nullptr);
  own.takes_fences.assign(index.num_streams(), 0);
  own.remote.assign(index.num_actors(), 0);
  own.pulls.assign(index.num_actors(), 0);
  most->held += static_cast<size_t>(index.program().reuse_edges_size());
  for (const ProgramIndex::Consumer& reading : index.consumers()) {
    // A req and an ack of each slot, and an ack of a token that nobody reads.
    most->held += 3 * static_cast<size_t>(index.ring(index.reg(reading.reg).ring).slots);
  }
  for (int a = 0; a < index.num_actors(); ++a) {
    if (running.worker_of[a] == setup_.index) TakeActor(p, a, most);
  }
  // A trace says what the device's main work waits for, rather than what its copies do.
  std::stable_partition(own.streams.begin(), own.streams.end(), [&](int32_t stream) {
    return index.stream_kind(stream) == plan::STREAM_COMPUTE;
  });
  for (const auto& [stretch, captures] : own.stretches) {
    const size_t length = stretch.end - stretch.first;
    most->messages =
        std::max(most->messages, length * running.state->actor(stretch.actor).MostMessages());
  }
  MessageList grants;
  GrantStep(index, 0, &grants);
  for (const Message& grant : grants) {
    if (running.worker_of[grant.to] == setup_.index) own.grants.push_back(grant);
  }
  most->actors += own.actors.size();
}

void Worker::TakeActor(int p, int32_t a, Most* most) {
  Own& own = own_[p];
  Actor& actor = (*setup_.programs)[p].state->actor(a);
  most->messages = std::max(most->messages, static_cast<size_t>(actor.MostMessages()));
  // Tokens of others may come before the mailbox item that begins the step.
  actor.set_step_limit(0);
  const plan::Instruction& first = own.state->index().instruction(a, 0);
  if (first.kind() == plan::INSTRUCTION_REMOTE) {
    own.remote[a] = 1;
    if (first.inputs_size() > 0) own.readers.push_back(a);
    return;
  }
  own.pulls[a] = setup_.link != nullptr && first.kind() == plan::INSTRUCTION_PULL;
  own.actors.push_back(a);
  const int32_t stream = actor.stream();
  if (own.opened[stream] != nullptr) return;
  own.streams.push_back(stream);
  OpenStream(p, stream);
}

void Worker::OpenStream(int program, int32_t stream) {
  Own& own = own_[program];
  const ProgramIndex& index = own.state->index();
  if (index.stream_kind(stream) == plan::STREAM_NET && setup_.link != nullptr) {
    own.opened[stream] = setup_.link->OpenStream();
    late_.push_back(own.opened[stream]);
    return;
  }
  Device& device = *(*setup_.devices)[index.program().streams(stream).device()];
  own.opened[stream] = device.OpenStream(thread_pool_.get());
  if (IsHost(device.kind())) return;
  late_.push_back(own.opened[stream]);
  own.takes_fences[stream] = index.listed(stream) ? 1 : 0;
  if (setup_.trace) trace_.Watch(own.opened[stream]);
  // A timeline shows each instruction, so what is traced is given to its stream one by one.
  if (setup_.captures && !setup_.trace && own.opened[stream]->captures()) {
    KeepStretches(program, stream);
  }
}

void Worker::KeepStretches(int program, int32_t stream) {
  Own& own = own_[program];
  const ProgramIndex& index = own.state->index();
  for (const Stretch& stretch : FindStretches(index, stream)) {
    own.stretch_at.resize(index.num_instances(), -1);
    own.stretch_at[index.InstanceOf(stretch.actor, stretch.micro, stretch.first)] =
        static_cast<int32_t>(own.stretches.size());
    own.stretches.push_back({stretch, std::vector<int32_t>(stretch.variants, -1)});
  }
}

void Worker::Stop() {
  if (setup_.executor != nullptr) setup_.executor->Remove(this);
  if (!thread_.joinable()) return;
  mailbox_.Push({kStop, 0, {}});
  thread_.join();
  trace_.TakeTimesOnDevices();
}

void Worker::Start() {
  if (setup_.executor != nullptr) {
    PrepareHere();
    return setup_.executor->Add(this);
  }
  const absl::Status started = StartThread([this] { Main(); }, &thread_);
  if (started.ok()) return;
  prepare_status_ = started;
  is_prepared_ = true;
}

absl::Status Worker::WaitPrepared() {
  std::unique_lock<std::mutex> lock(mutex_);
  prepared_.wait(lock, [this] { return is_prepared_; });
  return prepare_status_;
}

void Worker::Main() {
  PrepareHere();
  if (setup_.trace) trace_.Start(setup_.computes, NowNanoseconds());
  Loop();
}

void Worker::PrepareHere() {
  absl::Status status;
  try {
    status = Prepare();
  } catch (const std::bad_alloc&) {  // nobody else can catch it: this thread is the worker's own
    status = absl::ResourceExhaustedError("out of memory while kernels were prepared");
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    prepare_status_ = status;
    is_prepared_ = true;
  }
  prepared_.notify_all();
}

absl::Status Worker::Prepare() {
  if (setup_.init_thread != nullptr) setup_.init_thread();
  int64_t scratch = 0;
  for (size_t p = 0; p < own_.size(); ++p) {
    LoadedProgram& loaded = *own_[p].loaded;
    for (const int32_t a : own_[p].actors) {
      Stream* const stream = own_[p].opened[own_[p].state->actor(a).stream()];
      RETURN_IF_ERROR(loaded.Prepare(a, setup_.kernels, stream));
      if (setup_.link != nullptr && setup_.link->PullOf(static_cast<int>(p), a) >= 0) {
        loaded.SetPull(a, setup_.link->PullOf(static_cast<int>(p), a));
      }
      scratch = std::max(scratch, loaded.scratch(a));
    }
  }
  scratch_storage_.resize(scratch + kScratchAlignment);
  const auto address = reinterpret_cast<uintptr_t>(scratch_storage_.data());
  scratch_ = scratch_storage_.data() +
             (kScratchAlignment - address % kScratchAlignment) % kScratchAlignment;
  return absl::OkStatus();
}

inline void Worker::Consider(int program, int32_t actor) {
  Own& own = own_[program];
  if (own.queued[actor] != 0 || !own.state->CanRun(actor)) return;
  own.queued[actor] = 1;
  ready_[own.priority[actor]].Push({program, actor});
}

inline void Worker::Deliver(int program, const Message& message) {
  Own& own = own_[program];
  const bool is_taken = own.takes_fences[own.state->actor(message.to).stream()] != 0 &&
                        (message.fence & kNetFence) == 0;
  if (message.fence != 0 && !is_taken) return Hold(program, message);
  if (own.remote[message.to] != 0) return DeliverRemote(program, message);
  if (own.pulls[message.to] != 0 && message.kind == Message::Kind::kAck) {
    setup_.link->Read(program, message.to, &unsent_);
  }
  own.state->Deliver(message);
  Consider(program, message.to);
  if (own.pulls[message.to] != 0 && message.kind != Message::Kind::kReq) {
    PullAhead(program, message.to);
  }
}

// Of a pull that has the space and not yet the token. Devices without memory bring nothing.
void Worker::PullAhead(int program, int32_t a) {
  const Actor& actor = own_[program].state->actor(a);
  if (actor.Done() || actor.Ready() || !actor.CanTake(actor.cursor())) return;
  std::byte* const to = own_[program].loaded->PulledTo(a);
  if (to != nullptr) setup_.link->PullAhead(program, a, actor.firing(), to);
}

// Of a pull that has ended it is delivered at once, as of what is read in place: whoever holds it
// looks again only when nothing else is ready. It may overtake what its actor has here, which is
// another edge's, or of an earlier firing, whose bytes came before: actors count.
void Worker::Hold(int program, const Message& message) {
  if ((message.fence & kNetFence) == 0 || !setup_.link->Done(message.fence)) {
    return held_.push_back({program, message});
  }
  Message ended = message;
  ended.fence = 0;
  Deliver(program, ended);
}

// To an actor that stands for another rank's: what it is to know crosses the net.
void Worker::DeliverRemote(int program, const Message& message) {
  Own& own = own_[program];
  if (message.kind == Message::Kind::kAck) {
    const ProgramIndex& index = own.state->index();
    const int32_t slots = index.ring(index.ack_count(message.index).ring).slots;
    return setup_.link->Pulled(program, message.to, message.sequence - slots, &unsent_);
  }
  own.state->Deliver(message);
  TellTokens(program, message.to);
}

// Tells the tokens that are there and whose steps have begun here.
void Worker::TellTokens(int program, int32_t reader) {
  Own& own = own_[program];
  const ProgramIndex& index = own.state->index();
  const Actor& actor = own.state->actor(reader);
  const ProgramIndex::Consumer& consumer = index.consumer(index.ConsumersOf(reader)[0]);
  const int64_t begun = own.steps * index.actor(reader).firings;
  for (int64_t next = setup_.link->told(program, reader);
       next < begun && index.TokenOf(consumer, next) < actor.arrived(0); ++next) {
    setup_.link->TokenThere(program, reader, next, &unsent_);
  }
}

void Worker::EndRemote(int program, int32_t reader) {
  Own& own = own_[program];
  const Actor& actor = own.state->actor(reader);
  const int64_t step = actor.step();
  out_.clear();
  own.state->Finish(reader, 0, &out_);
  if (!out_.empty()) SendAll(program);
  if (actor.step() != step) EndStep(program, step);
}

// Other ranks are told before other workers: one that is woken may take this one's core.
inline void Worker::SendAll(int program) {
  size_t apart = 0;
  for (Message& message : out_) {
    if (setup_.tamper != nullptr) setup_.tamper(&message);
    if (own_[program].worker_of[message.to] == setup_.index) {
      Deliver(program, message);
    } else {
      out_[apart++] = message;
    }
  }
  if (apart == 0) return;
  SendUnsent();
  for (size_t n = 0; n < apart; ++n) {
    (*setup_.peers)[own_[program].worker_of[out_[n].to]]->Send(program, out_[n]);
    Count(&messages_sent_);
  }
}

// What this worker has told since it last looked into its mailbox, or in one instruction's name.
inline void Worker::SendUnsent() {
  if (!unsent_.empty()) setup_.link->Send(&unsent_);
}

inline void Worker::EndStep(int program, int64_t step) {
  int32_t& left = own_[program].actors_left[step % kStepsAhead];
  if (--left > 0) return;
  SendUnsent();
  if (late_.empty()) return setup_.tracker->WorkerEnded(program, step);
  std::vector<Fence>& fences = own_[program].end_fences[step % kStepsAhead];
  for (size_t n = 0; n < late_.size(); ++n) fences[n] = late_[n]->Record();
  // Else it would be told when nothing of the next step is ready.
  const StepEnd end = {program, step};
  if (fences_ == nullptr && ends_.empty() && IsOver(end)) {
    return setup_.tracker->WorkerEnded(program, step);
  }
  ends_.push_back(end);
}

// What an instruction at an actor's cursor or behind it waits for, its stream waits for.
void Worker::WaitForFences(Stream* stream, const Actor& actor, int32_t instruction) {
  awaited_.clear();
  actor.AppendFences(instruction, &awaited_);
  for (const Fence fence : awaited_) stream->Wait(fence);
}

// Whether a fence is done. One of a device that is not is to be asked for again; the end of a pull
// is told.
bool Worker::IsDone(Fence fence) {
  if ((fence & kNetFence) != 0) return setup_.link->Done(fence);
  const bool done = fence == 0 || fences_->Done(fence);
  asks_again_ = asks_again_ || !done;
  return done;
}

// Delivers the messages, and ends the steps, whose fences are done by now. False: none are.
bool Worker::LookAtFences() {
  asks_again_ = false;
  const size_t before = held_.size() + ends_.size();
  size_t kept = 0;
  for (size_t n = 0; n < held_.size(); ++n) {
    Held held = held_[n];
    if (!IsDone(held.message.fence)) {
      held_[kept++] = held;
      continue;
    }
    held.message.fence = 0;
    Deliver(held.program, held.message);
  }
  held_.resize(kept);
  SendUnsent();
  kept = 0;
  for (const StepEnd end : ends_) {
    if (!IsOver(end)) {
      ends_[kept++] = end;
      continue;
    }
    const absl::Status status = fences_ == nullptr ? absl::OkStatus() : fences_->status();
    if (!status.ok()) setup_.tracker->Fail(status);
    setup_.tracker->WorkerEnded(end.program, end.step);
  }
  ends_.resize(kept);
  return held_.size() + ends_.size() < before;
}

bool Worker::IsOver(const StepEnd& end) {
  for (const Fence fence : own_[end.program].end_fences[end.step % kStepsAhead]) {
    if (!IsDone(fence)) return false;
  }
  return true;
}

inline void Worker::SetRunning(int program, const Actor& actor) {
  running_.store((int64_t{program} + 1) << 32 | actor.instance(), std::memory_order_relaxed);
  running_step_.store(actor.step(), std::memory_order_relaxed);
}

inline void Worker::Run(int program, const Actor& actor, int32_t instruction) {
  Count(&instructions_);
  SetRunning(program, actor);
  context_.stream = own_[program].opened[actor.stream()];
  if (!late_.empty()) WaitForFences(context_.stream, actor, instruction);
  if (setup_.tracker->failed()) return;
  const absl::Status status = own_[program].loaded->Run(actor, instruction, &context_, scratch_);
  if (!status.ok()) setup_.tracker->Fail(Explain(status, program, actor, instruction));
}

void Worker::RunTraced(int program, const Actor& actor) {
  TraceSpan span;
  span.program = program;
  span.actor = actor.id();
  span.instruction = actor.cursor();
  span.micro = actor.micro();
  span.step = actor.step();
  span.begin = NowNanoseconds();
  Run(program, actor, actor.cursor());
  trace_.Add(span, NowNanoseconds(), context_.stream);
}

// Which of its program's stretches begins at an actor's cursor; null: none.
inline Worker::KeptStretch* Worker::StretchAt(Own* own, const Actor& actor) {
  if (own->stretch_at.empty()) return nullptr;
  const int32_t n = own->stretch_at[actor.instance()];
  return n < 0 ? nullptr : &own->stretches[n];
}

// Gives the stream a stretch at the actor's cursor: what was captured of it, or, the first time
// that its operands lie where they lie, instruction by instruction, which loads all that is loaded
// at first use and could not be in a capture; then it is captured.
void Worker::RunStretch(int program, const Actor& actor, KeptStretch* kept) {
  const Stretch& stretch = kept->stretch;
  Stream* const stream = own_[program].opened[actor.stream()];
  int32_t& capture = kept->captures[actor.step() % stretch.variants];
  if (capture < 0) {
    for (int32_t i = stretch.first; i < stretch.end; ++i) Run(program, actor, i);
    if (setup_.tracker->failed()) return;
    const absl::StatusOr<int32_t> captured = stream->Capture([&]() -> absl::Status {
      for (int32_t i = stretch.first; i < stretch.end; ++i) {
        RETURN_IF_ERROR(own_[program].loaded->Run(actor, i, &context_, scratch_));
      }
      return absl::OkStatus();
    });
    if (captured.ok()) {
      capture = *captured;
    } else {
      setup_.tracker->Fail(Explain(captured.status(), program, actor, stretch.first));
    }
    return;
  }
  SetRunning(program, actor);
  WaitForFences(stream, actor, stretch.first);
  for (const int32_t i : stretch.takers) WaitForFences(stream, actor, i);
  if (setup_.tracker->failed()) return;
  instructions_.store(instructions_.load(std::memory_order_relaxed) + stretch.end - stretch.first,
                      std::memory_order_relaxed);
  context_.stream = stream;
  stream->Replay(capture, own_[program].loaded->ports(actor.step()).number);
}

// Whether nobody has yet what a stretch takes behind its beginning. It mostly is so: another stream
// has had a step's time to let go of it.
inline bool Worker::CanTakeAll(const Stretch& stretch, const Actor& actor) {
  return std::all_of(stretch.takers.begin(), stretch.takers.end(),
                     [&](int32_t i) { return actor.CanTake(i); });
}

// Runs what is at an actor's cursor, and returns how many instructions that was.
inline int32_t Worker::RunHere(int program, const Actor& actor) {
  KeptStretch* const kept = StretchAt(&own_[program], actor);
  if (kept != nullptr && CanTakeAll(kept->stretch, actor)) {
    RunStretch(program, actor, kept);
    return kept->stretch.end - kept->stretch.first;
  }
  setup_.trace ? RunTraced(program, actor) : Run(program, actor, actor.cursor());
  return 1;
}

// Tells what instructions that have been run one after the other have to tell, all with the last
// one's fence. Returns the actor that has the turn now if that has changed, else -1.
inline int32_t Worker::FinishHere(int program, int32_t a, int32_t instructions) {
  Own& own = own_[program];
  out_.clear();
  const Fence fence = late_.empty() ? 0 : context_.stream->Record();
  int32_t entry = -1;
  for (int32_t n = 0; n < instructions; ++n) entry = own.state->Finish(a, fence, &out_);
  if (!out_.empty()) SendAll(program);
  SendUnsent();
  return entry;
}

// Runs an actor for as long as it can and no one else asks for the worker.
void Worker::RunNext() {
  const Ready next = ready_[ready_[0].empty() ? 1 : 0].Pop();
  Own& own = own_[next.program];
  own.queued[next.actor] = 0;
  const Actor& actor = own.state->actor(next.actor);
  while (true) {
    const int64_t step = actor.step();
    const int32_t instructions = RunHere(next.program, actor);
    const int32_t entry = FinishHere(next.program, next.actor, instructions);
    if (actor.step() != step) EndStep(next.program, step);
    const bool others = entry >= 0 && entry != next.actor;
    if (others || HasReady() || HasMail() || setup_.executor != nullptr) {
      Consider(next.program, next.actor);
      if (others) Consider(next.program, entry);
      return;
    }
    if (!own.state->CanRun(next.actor)) return;
  }
}

void Worker::Loop() {
  while (OpenMailbox()) {
    if (!DoNext()) Idle();
  }
}

// False: there is nothing to do before somebody sends an item.
inline bool Worker::DoNext() {
  if (std::exchange(woken_, false)) LookAtFences();
  if (HasReady()) {
    RunNext();
    return true;
  }
  if (held_.empty() && ends_.empty()) return false;
  running_.store(0, std::memory_order_relaxed);
  return LookAtFences() || asks_again_;
}

void Worker::Turn() {
  OpenMailbox();
  DoNext();
  while (!HasReady() && LookAtFences()) {
  }
}

// What is taken of the inbox comes into the mailbox.
bool Worker::OpenMailbox() {
  if (inbox_ != nullptr && inbox_->HasRung()) inbox_->Take();
  if (mailbox_.Empty()) return true;
  MailboxItem item;
  while (mailbox_.Pop(&item)) {
    if (item.kind == kStop) return false;
    item.kind == kWake ? void(woken_ = true) : Open(item);
  }
  SendUnsent();
  return true;
}

void Worker::Open(const MailboxItem& item) {
  if (item.kind == kMessage) return Deliver(item.program, item.message);
  if (item.kind == kRemoteEnded) return EndRemote(item.program, item.message.to);
  if (item.kind == kReport) return Report(item.message.sequence);
  program_ = item.program;
  Own& own = own_[item.program];
  ProgramState& state = *own.state;
  const int64_t step = own.steps++;
  const size_t actors = own.actors.size() + own.readers.size();
  own.actors_left[step % kStepsAhead] = static_cast<int32_t>(actors);
  if (actors == 0) setup_.tracker->WorkerEnded(item.program, step);
  for (const int32_t a : own.actors) state.actor(a).set_step_limit(own.steps);
  for (const int32_t a : own.readers) state.actor(a).set_step_limit(own.steps);
  for (Message grant : own.grants) {
    grant.sequence += step;
    state.Deliver(grant);
  }
  for (const int32_t a : own.readers) TellTokens(item.program, a);
  for (const int32_t a : own.actors) {
    Consider(item.program, a);
    if (own.pulls[a] != 0) PullAhead(item.program, a);
  }
}

void Worker::Idle() {
  Count(&sleeps_);
  running_.store(0, std::memory_order_relaxed);
  if (!setup_.trace) {
    mailbox_.WaitNonEmpty(IdleSpin(setup_.spins), std::nullopt, inbox_);
    return;
  }
  TraceSpan span;
  span.blocked_on = FindBlockedOn(&span.actor);
  span.program = program_;
  span.begin = NowNanoseconds();
  mailbox_.WaitNonEmpty(IdleSpin(setup_.spins), std::nullopt, inbox_);
  trace_.Add(span, NowNanoseconds());
}

}  // namespace sluice
