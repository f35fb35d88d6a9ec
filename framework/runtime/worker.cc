#include "framework/runtime/worker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

// Long enough for the answer of another worker that is running, short enough that an idle session
// costs nothing.
constexpr std::chrono::microseconds kSpin(30);

constexpr int64_t kScratchAlignment = 64;

}  // namespace

Worker::Worker(Setup setup) : setup_(std::move(setup)), inbox_(4096) {
  size_t actors = 1, most_messages = 0;
  own_.resize(setup_.programs->size());
  for (size_t p = 0; p < own_.size(); ++p) {
    const RunningProgram& running = (*setup_.programs)[p];
    const ProgramIndex& index = running.loaded->index();
    std::vector<bool> streams(index.num_streams(), false);
    for (int a = 0; a < index.num_actors(); ++a) {
      if (running.worker_of[a] != setup_.index) continue;
      own_[p].actors.push_back(a);
      const int32_t stream = index.actor(a).stream;
      if (!streams[stream]) own_[p].streams.push_back(stream);
      streams[stream] = true;
      most_messages =
          std::max(most_messages, static_cast<size_t>(running.state->actor(a).MostMessages()));
    }
    // A trace says what the device's main work waits for, rather than what its copies do.
    std::stable_partition(own_[p].streams.begin(), own_[p].streams.end(),
                          [&](int32_t stream) { return index.stream_kind(stream) == "compute"; });
    MessageList grants;
    GrantStep(index, 0, &grants);
    for (const Message& grant : grants) {
      if (running.worker_of[grant.to] == setup_.index) own_[p].grants.push_back(grant);
    }
    actors += own_[p].actors.size();
  }
  for (ReadyList& list : ready_) list.items.resize(actors);
  out_.reserve(most_messages);
  context_.seed = setup_.seed;
  context_.check_nan = setup_.check_nan;
}

void Worker::Stop() {
  if (!thread_.joinable()) return;
  inbox_.Push({kStop, 0, {}});
  thread_.join();
}

void Worker::Start() {
  thread_ = std::thread([this] { Main(); });
}

absl::Status Worker::WaitPrepared() {
  std::unique_lock<std::mutex> lock(mutex_);
  prepared_.wait(lock, [this] { return is_prepared_; });
  return prepare_status_;
}

void Worker::Main() {
  const absl::Status status = Prepare();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    prepare_status_ = status;
    is_prepared_ = true;
  }
  prepared_.notify_all();
  if (setup_.trace) trace_.Start(NowNanoseconds());
  Loop();
}

absl::Status Worker::Prepare() {
  if (setup_.init_thread != nullptr) setup_.init_thread();
  team_ = std::make_unique<CpuThreadTeam>(setup_.threads, setup_.init_thread);
  context_.team = team_.get();
  int64_t scratch = 0;
  for (size_t p = 0; p < own_.size(); ++p) {
    LoadedProgram& loaded = *(*setup_.programs)[p].loaded;
    for (const int32_t a : own_[p].actors) {
      RETURN_IF_ERROR(loaded.Prepare(a, setup_.prepare, setup_.threads));
      scratch = std::max(scratch, loaded.scratch(a));
    }
  }
  scratch_storage_.resize(scratch + kScratchAlignment);
  const auto address = reinterpret_cast<uintptr_t>(scratch_storage_.data());
  scratch_ = scratch_storage_.data() +
             (kScratchAlignment - address % kScratchAlignment) % kScratchAlignment;
  return absl::OkStatus();
}

void Worker::Loop() {
  while (TakeLetters()) {
    if (ready_[0].count + ready_[1].count > 0) {
      RunNext();
    } else {
      Idle();
    }
  }
}

bool Worker::TakeLetters() {
  Letter letter;
  while (inbox_.Pop(&letter)) {
    if (letter.kind == kStop) return false;
    Open(letter);
  }
  return true;
}

void Worker::Open(const Letter& letter) {
  if (letter.kind == kMessage) return Deliver(letter.program, letter.message);
  program_ = letter.program;
  Own& own = own_[letter.program];
  ProgramState& state = *(*setup_.programs)[letter.program].state;
  const int64_t step = own.steps++;
  for (const int32_t a : own.actors) state.actor(a).set_step_limit(own.steps);
  for (Message grant : own.grants) {
    grant.take += step;
    state.Deliver(grant);
  }
  for (const int32_t a : own.actors) Consider(letter.program, a);
}

void Worker::Deliver(int program, const Message& message) {
  (*setup_.programs)[program].state->Deliver(message);
  Consider(program, message.to);
}

void Worker::Consider(int program, int32_t actor) {
  RunningProgram& running = (*setup_.programs)[program];
  if (running.queued[actor] != 0 || !running.state->CanRun(actor)) return;
  running.queued[actor] = 1;
  ready_[running.urgency[actor]].Push({program, actor});
}

void Worker::RunNext() {
  const Ready next = ready_[ready_[0].count > 0 ? 0 : 1].Pop();
  RunningProgram& running = (*setup_.programs)[next.program];
  running.queued[next.actor] = 0;
  const Actor& actor = running.state->actor(next.actor);
  TraceSpan span;
  span.program = next.program;
  span.actor = next.actor;
  span.instruction = actor.cursor();
  span.micro = actor.micro();
  span.step = actor.step();
  if (!setup_.board->failed()) {
    const absl::Status status = Execute(running, actor);
    if (!status.ok()) setup_.board->Fail(status);
  }
  Count(&instructions_);
  out_.clear();
  const int32_t turn = running.state->Finish(next.actor, 0, &out_);
  for (const Message& message : out_) {
    const int32_t to = running.worker_of[message.to];
    if (to == setup_.index) {
      Deliver(next.program, message);
    } else {
      (*setup_.peers)[to]->Send(next.program, message);
      Count(&messages_sent_);
    }
  }
  Consider(next.program, next.actor);
  if (turn >= 0) Consider(next.program, turn);
  if (setup_.trace) trace_.Add(span, NowNanoseconds());
  if (actor.step() != span.step) setup_.board->ActorEnded(next.program, span.step);
}

absl::Status Worker::Execute(RunningProgram& running, const Actor& actor) {
  const absl::Status status =
      running.loaded->Run(actor.id(), actor.fire(), actor.cursor(), &context_, scratch_);
  if (status.ok()) return status;
  const plan::Instruction& instruction = actor.instruction();
  return Annotate(
      status, absl::StrCat("program ", running.loaded->program().name(), ", step ", context_.step,
                           ", device ", running.loaded->index().device_of(actor.id()), ", ",
                           instruction.scope(), " (", instruction.op(), ")"));
}

void Worker::Idle() {
  Count(&sleeps_);
  if (!setup_.trace) {
    inbox_.WaitNonEmpty(kSpin);
    return;
  }
  TraceSpan span;
  span.lack = FindLack(&span.actor);
  span.program = program_;
  inbox_.WaitNonEmpty(kSpin);
  trace_.Add(span, NowNanoseconds());
}

// What the first stream that cannot run is waiting for; kStep where all have ended.
Lack Worker::FindLack(int32_t* actor) const {
  const ProgramState& state = *(*setup_.programs)[program_].state;
  const ProgramIndex& index = state.index();
  for (const int32_t stream : own_[program_].streams) {
    for (const int32_t a : index.StreamActors(stream)) {
      const bool listed = index.listed(stream);
      if (listed && state.order(stream).actor() != a) continue;
      ProgramIndex::Wait wait;
      if (!state.actor(a).FindMissing(&wait)) continue;
      *actor = a;
      switch (wait.kind) {
        case ProgramIndex::WaitKind::kToken:
          return {Lack::kToken, wait.actor, wait.what};
        case ProgramIndex::WaitKind::kSlot:
          return {Lack::kSlot, wait.actor, wait.what};
        case ProgramIndex::WaitKind::kPass:
          return {Lack::kPass, wait.actor, wait.what};
        default:
          break;
      }
    }
  }
  return {Lack::kStep, -1, -1};
}

}  // namespace sluice
