#include "framework/runtime/rank_link.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/comm/pieces.h"
#include "framework/plan/kinds.h"
#include "framework/runtime/planned_pull.h"
#include "framework/runtime/rank_clock.h"
#include "framework/runtime/runtime.h"
#include "framework/runtime/transfer_trace.h"
#include "framework/runtime/wait_watch.h"
#include "framework/runtime/worker.h"

namespace sluice {
namespace {

// A fence is a pull and one of its firings, so that pulls of one stream may end in any order.
constexpr auto kBetweenStops = std::chrono::milliseconds(100);
constexpr int kSequenceBits = 40;

Fence FenceOf(int32_t pull, int64_t sequence) {
  return kNetFence | static_cast<Fence>(pull) << kSequenceBits |
         (static_cast<Fence>(sequence + 1) & ((Fence{1} << kSequenceBits) - 1));
}

// A worker's number is that of its inbox.
int32_t InboxOf(int32_t worker) { return worker < CommNet::kInboxes ? worker : -1; }

// How many edges, and a digest that does not depend on their order.
struct EdgeSum {
  int64_t count = 0;
  uint64_t digest = 0;
  void Add(const Edge& edge) {
    ++count;
    digest += StableHash(&edge, sizeof(edge));
  }
};

}  // namespace

class RankLink::Net final : public PullStream {
 public:
  explicit Net(RankLink* link) : link_(*link) {}
  std::byte* Pull(int32_t pull, int64_t sequence, std::byte* to) override {
    RankLink::Pull& planned = *link_.pulls_[pull];
    planned.last = sequence;
    planned.in_place = planned.read = planned.waits = false;
    // Also where the bytes are there by now: the end of a step asks for the stream's last one.
    last_ = FenceOf(pull, sequence);
    planned.begun.store(sequence + 1, std::memory_order_seq_cst);
    if (planned.ahead.load(std::memory_order_relaxed) > sequence) return to;
    return link_.BeginPull(pull, sequence, to);
  }
  Fence Record() override { return last_; }
  void Wait(Fence) override {}  // what comes here has been waited for: net streams have no order

 private:
  RankLink& link_;
  Fence last_ = 0;
};

RankLink::RankLink(const Setup& setup)
    : setup_(setup),
      rules_(setup.plan, setup.net->rank(), setup.net->ranks(), setup.clock),
      refused_(std::make_unique<std::atomic<bool>[]>(setup.net->ranks())),
      agreement_(setup.plan, setup.net->rank(), setup.net->ranks()) {}

RankLink::~RankLink() {
  if (open_) setup_.net->Close();
}

absl::StatusOr<std::unique_ptr<RankLink>> RankLink::Make(const Setup& setup) {
  std::unique_ptr<RankLink> link(new RankLink(setup));
  for (int p = 0; p < static_cast<int>(setup.programs->size()); ++p) {
    RETURN_IF_ERROR(link->AddEdges(p));
  }
  return link;
}

absl::Status RankLink::AddEdges(int program) {
  const plan::Program& planned = setup_.plan->programs(program);
  reader_of_.emplace_back(planned.actors_size(), -1);
  pull_of_.emplace_back(planned.actors_size(), -1);
  for (int a = 0; a < planned.actors_size(); ++a) {
    const plan::Instruction& x = planned.actors(a).script(0);
    if (x.kind() == plan::INSTRUCTION_PULL) {
      RETURN_IF_ERROR(AddPull(program, a));
    } else if (x.kind() == plan::INSTRUCTION_REMOTE && x.inputs_size() > 0) {
      RETURN_IF_ERROR(AddReader(program, a));
    }
  }
  // The actor that writes for another rank shares the pull's number.
  for (int a = 0; a < planned.actors_size(); ++a) {
    const plan::Instruction& x = planned.actors(a).script(0);
    if (x.kind() != plan::INSTRUCTION_PULL) continue;
    pull_of_[program][planned.registers(x.inputs(0).register_()).producer()] = pull_of_[program][a];
  }
  return absl::OkStatus();
}

absl::Status RankLink::AddReader(int program, int32_t actor) {
  const plan::Program& planned = setup_.plan->programs(program);
  const plan::Instruction& x = planned.actors(actor).script(0);
  const plan::Register& reg = planned.registers(x.inputs(0).register_());
  auto reader = std::make_unique<Reader>();
  const int32_t device = planned.streams(planned.actors(actor).stream()).device();
  reader->edge = {program, reg.device(), reg.number(), device, x.number()};
  reader->rank = setup_.plan->devices(device).rank();
  reader->actor = actor;
  reader->worker = (*setup_.programs)[program].worker_of[actor];
  const auto number = static_cast<int32_t>(readers_.size());
  if (!rules_.AddReader(reader->edge, reader->rank, &reader->told)) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: two remote actors stand for ", EdgeText(reader->edge)));
  }
  reader_of_[program][actor] = number;
  readers_.push_back(std::move(reader));
  return absl::OkStatus();
}

absl::Status RankLink::AddPull(int program, int32_t actor) {
  const ProgramIndex& index = (*setup_.programs)[program].loaded->index();
  const std::vector<int32_t>& worker_of = (*setup_.programs)[program].worker_of;
  const int32_t source = index.program().actors(actor).script(0).inputs(0).register_();
  auto pull = std::make_unique<Pull>();
  pull->request = PlannedRequest(index, program, actor);
  pull->rank = setup_.plan->devices(pull->request.edge.source_device).rank();
  pull->worker = worker_of[actor];
  pull->request.worker = InboxOf(pull->worker);
  pull->consumer_actor = actor;
  pull->consumer = index.reg(source).consumers_begin;
  pull->may_lend = MayLend(index, actor);
  pull->is_asked_ahead = pull->may_lend && setup_.net->pulls_ahead(pull->rank) &&
                         pull->request.bytes > setup_.net->most_along();
  const int32_t reader = ReaderOfPull(index, actor);
  pull->reader_worker = reader >= 0 ? worker_of[reader] : pull->worker;
  const auto number = static_cast<int32_t>(pulls_.size());
  const Edge& edge = pull->request.edge;
  if (!rules_.AddPull(edge, pull->rank, index.actor(actor).firings)) {
    return absl::InvalidArgumentError(absl::StrCat("plan: two pulls of ", EdgeText(edge)));
  }
  pull_of_[program][actor] = number;
  pulls_.push_back(std::move(pull));
  return absl::OkStatus();
}

std::string RankLink::EdgesText() const {
  std::map<std::pair<std::string, int32_t>, EdgeSum> sums;
  for (const auto& pull : pulls_) sums[{"reads", pull->rank}].Add(pull->request.edge);
  for (const auto& reader : readers_) sums[{"serves", reader->rank}].Add(reader->edge);
  std::string text;
  for (const auto& [key, sum] : sums) {
    absl::StrAppend(&text, key.first, " ", key.second, " ", sum.count, " ", HashText(sum.digest),
                    "\n");
  }
  return text;
}

Stream* RankLink::OpenStream() {
  std::lock_guard<std::mutex> lock(mutex_);
  streams_.push_back(std::make_unique<Net>(this));
  return streams_.back().get();
}

// The lock is not held: the net may call back. Others are told that a step is over before it is
// over here: who leaves first is missed by a step that still runs.
void RankLink::Apply(const RankAgreement::Effects& effects) {
  for (const RankAgreement::Effects::Over& over : effects.over) rules_.Over(over.program);
  if (!effects.abort.ok()) {
    // The first error is kept, and so is who it is about.
    if (setup_.tracker->status().ok()) missed_ = effects.missed;
    setup_.tracker->Abort(effects.abort);
  }
  for (const RankAgreement::Effects::Over& over : effects.over) {
    if (!over.error.ok()) setup_.tracker->Agree(over.error);
  }
  for (const RankAgreement::Effects::Sent& sent : effects.sent) {
    if (sent.to >= 0) {
      setup_.net->Send(sent.to, sent.message);
      continue;
    }
    for (int32_t rank = 0; rank < setup_.net->ranks(); ++rank) {
      if (rank != setup_.net->rank()) setup_.net->Send(rank, sent.message);
    }
  }
  for (const RankAgreement::Effects::Over& over : effects.over) {
    setup_.tracker->End(over.program);
  }
}

// What a call of the agreement gives, the lock held for that long.
template <typename Call>
void RankLink::Tell(const Call& call) {
  RankAgreement::Effects effects;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    effects = call();
  }
  Apply(effects);
  changed_.notify_all();
}

Inbox* RankLink::OpenInbox(int32_t worker) {
  if (InboxOf(worker) < 0) return nullptr;
  return setup_.net->OpenInbox(worker, [this, worker] { (*setup_.workers)[worker]->Wake(); });
}

absl::Status RankLink::Join() {
  open_ = true;
  for (const OfferedMemory& memory : setup_.memory) {
    RETURN_IF_ERROR(setup_.net->Offer(memory));
  }
  setup_.net->Open(this);
  rules_.Joins();
  Tell([this] { return agreement_.Join(EdgesText()); });
  const auto joined = [this] { return agreement_.joined(); };
  std::unique_lock<std::mutex> lock(mutex_);
  if (setup_.executor != nullptr) {
    WaitUntil(setup_.executor, "ranks to join", &lock, &changed_, joined);
  }
  const auto begin = std::chrono::steady_clock::now();
  bool told = setup_.wait_limit.count() == 0 || setup_.net->rank() != 0;
  while (!changed_.wait_for(lock, kBetweenStops, joined)) {
    const std::vector<int32_t> missing = agreement_.Missing();
    lock.unlock();
    RETURN_IF_ERROR(CheckStop(setup_.stop));
    if (!told && std::chrono::steady_clock::now() - begin >= setup_.wait_limit) {
      told = true;
      SLUICE_LOG(WARNING) << "all wait for " << (missing.size() == 1 ? "rank " : "ranks ")
                          << absl::StrJoin(missing, ", ")
                          << ", to have read, compiled and mapped what it trains, for "
                          << static_cast<double>(setup_.wait_limit.count()) / 1000 << " s";
    }
    lock.lock();
  }
  return agreement_.welcome();
}

void RankLink::Leave() {
  Tell([this] { return agreement_.Leave(); });
}

void RankLink::TokenThere(int program, int32_t actor, int64_t sequence, Unsent* unsent) {
  Reader& reader = *readers_[reader_of_[program][actor]];
  reader.told.store(sequence + 1);
  if (setup_.transfers != nullptr) setup_.transfers->Tell(reader.edge, reader.rank, sequence);
  AddressedMessage& added = unsent->emplace_back();
  added.to = reader.rank;
  added.message.kind = WireMessage::Kind::kToken;
  added.message.failed = setup_.tracker->failed();
  added.message.edge = reader.edge;
  added.message.worker = InboxOf(reader.worker);
  added.message.sequence = sequence;
}

void RankLink::PullAhead(int program, int32_t actor, int64_t sequence, std::byte* to) {
  const int32_t number = pull_of_[program][actor];
  Pull& pull = *pulls_[number];
  if (!pull.is_asked_ahead || pull.ahead.load(std::memory_order_relaxed) > sequence) return;
  if (setup_.tracker->failed()) return;
  pull.ahead.store(sequence + 1, std::memory_order_relaxed);
  pull.request.sequence = sequence;
  setup_.net->Pull(pull.rank, pull.request, number, to);
}

// Where the bytes will be.
std::byte* RankLink::BeginPull(int32_t number, int64_t sequence, std::byte* to) {
  Pull& pull = *pulls_[number];
  pull.request.sequence = sequence;
  TracePull(number, sequence);
  const std::byte* const there =
      pull.may_lend ? setup_.net->FindInPlace(pull.rank, pull.request, number) : nullptr;
  pull.in_place = there != nullptr;
  if (!pull.in_place) {
    setup_.net->Pull(pull.rank, pull.request, number, to);
    return to;
  }
  pull.ended.store(sequence + 1, std::memory_order_release);
  if (setup_.transfers != nullptr) setup_.transfers->EndPull(number, sequence);
  return const_cast<std::byte*>(there);
}

void RankLink::TracePull(int32_t number, int64_t sequence) {
  if (setup_.transfers == nullptr) return;
  const Pull& pull = *pulls_[number];
  TransferSpan span;
  span.peer = pull.rank;
  span.edge = pull.request.edge;
  span.sequence = sequence;
  span.bytes = pull.request.bytes;
  setup_.transfers->BeginPull(number, span);
}

int64_t RankLink::told(int program, int32_t actor) const {
  return readers_[reader_of_[program][actor]]->told.load(std::memory_order_relaxed);
}

// Messages of a firing may be held until after its reader is through, and even after the next one
// has begun: then what it brought has been read.
void RankLink::Pulled(int program, int32_t actor, int64_t sequence, Unsent* unsent) {
  Pull& pull = *pulls_[pull_of_[program][actor]];
  const bool is_lent = pull.last == sequence && pull.in_place && !pull.read;
  if (!is_lent) return AddPulled(pull, sequence, unsent);
  pull.waits = true;
}

void RankLink::Read(int program, int32_t actor, Unsent* unsent) {
  Pull& pull = *pulls_[pull_of_[program][actor]];
  pull.read = true;
  if (std::exchange(pull.waits, false)) AddPulled(pull, pull.last, unsent);
}

void RankLink::AddPulled(const Pull& pull, int64_t sequence, Unsent* unsent) {
  AddressedMessage& added = unsent->emplace_back();
  added.to = pull.rank;
  added.message.kind = WireMessage::Kind::kPulled;
  added.message.edge = pull.request.edge;
  added.message.worker = pull.owner_inbox.load(std::memory_order_relaxed);
  added.message.sequence = sequence;
}

bool RankLink::Done(Fence fence) const {
  if (fence == 0) return true;
  const auto pull = static_cast<size_t>((fence & ~kNetFence) >> kSequenceBits);
  const auto sequence = static_cast<int64_t>(fence & ((Fence{1} << kSequenceBits) - 1));
  return pulls_[pull]->ended.load(std::memory_order_seq_cst) >= sequence;
}

void RankLink::Begin(int program, int64_t number) {
  rules_.Began();
  Tell([&] { return agreement_.Begin(program, number); });
}

void RankLink::EndedHere(int program, int64_t step) {
  const absl::Status error = setup_.tracker->own_status();
  rules_.Ended(program, step);
  Tell([&] { return agreement_.Ended(program, step, error); });
}

void RankLink::Receive(int32_t from, const WireMessage& message) {
  if (refused_[from]) return;
  const absl::StatusOr<int32_t> number = [&] {
    const std::lock_guard<std::mutex> lock(rules_mutex_);
    return rules_.Check(from, message);
  }();
  if (!number.ok()) return Refuse(from, number.status());
  switch (message.kind) {
    case WireMessage::Kind::kToken:
      return OnToken(*number, message);
    case WireMessage::Kind::kPulled:
      return OnPulled(readers_[*number].get(), message);
    case WireMessage::Kind::kAskWaits:
    case WireMessage::Kind::kWaits:
      if (setup_.watch != nullptr) setup_.watch->Receive(from, message);
      return;
    case WireMessage::Kind::kAskClock:
    case WireMessage::Kind::kClock:
      if (setup_.clock != nullptr) setup_.clock->Receive(setup_.net, from, message);
      return;
    default:
      Tell([&] { return agreement_.On(from, message); });
  }
}

// The first thing that a rank says against the rules ends what runs, on all ranks. Were each of
// them told on, a rank that runs wild would make every other one as loud as itself.
void RankLink::Refuse(int32_t from, const absl::Status& why) {
  if (!refused_[from].exchange(true)) Abort(why, from);
}

void RankLink::OnToken(int32_t number, const WireMessage& message) {
  if (message.failed) setup_.tracker->Skip();
  Pull& pull = *pulls_[number];
  pull.owner_inbox.store(message.worker, std::memory_order_relaxed);
  (*setup_.workers)[pull.worker]->Send(
      message.edge.program,
      {Message::Kind::kReq, pull.consumer_actor, pull.consumer, message.sequence});
}

// Pulls of an edge are one after another, so those before this one have ended as well; which of
// their messages comes first makes no difference.
void RankLink::OnPulled(Reader* reader, const WireMessage& message) {
  reader->done.fetch_add(1);
  (*setup_.workers)[reader->worker]->RemoteEnded(message.edge.program, reader->actor);
}

absl::StatusOr<absl::Span<const std::byte>> RankLink::Locate(int32_t from,
                                                             const PullRequest& request) {
  auto slot = FindSlot(from, request);
  if (!slot.ok() && !absl::IsUnavailable(slot.status())) Refuse(from, slot.status());
  return slot;
}

absl::StatusOr<absl::Span<const std::byte>> RankLink::FindSlot(int32_t from,
                                                               const PullRequest& request) const {
  const auto broken = [&](absl::string_view expected, absl::string_view got) {
    return rules_.Broken(from, absl::StrCat("\"pull\" of ", EdgeText(request.edge)), expected, got);
  };
  const int32_t number = rules_.FindReader(request.edge);
  if (number < 0) return broken("an edge that is read of this rank", "another");
  const Reader& reader = *readers_[number];
  if (reader.rank != from) {
    return broken("it of its reader", absl::StrCat("that of rank ", reader.rank));
  }
  const int64_t done = reader.done.load(), told = reader.told.load();
  if (request.sequence == told) return absl::UnavailableError("the token is still to be told");
  if (request.sequence < done || request.sequence > told) {
    return broken(absl::StrCat("a token of [", done, ", ", told, "]"),
                  absl::StrCat(request.sequence));
  }
  const auto slot =
      (*setup_.programs)[request.edge.program].loaded->BytesOfRead(reader.actor, request.sequence);
  const absl::Status fits = CheckPieces(request, static_cast<int64_t>(slot.size()));
  if (fits.ok()) return slot;
  return broken("pieces of its slot", fits.message());
}

// What was asked for ahead leaves its owner with the token, and may be here before it: of the wait
// for either a trace would show nothing, or the wrong thing. A pull that is asked for once its
// token is here began with the asking.
void RankLink::PullBegan(int32_t pull, int64_t sequence) {
  if (pulls_[pull]->ahead.load(std::memory_order_relaxed) > sequence) TracePull(pull, sequence);
}

void RankLink::PullEnded(int32_t pull, int64_t sequence, const absl::Status& status) {
  if (!status.ok()) Abort(status, pulls_[pull]->rank);
  if (setup_.transfers != nullptr) setup_.transfers->EndPull(pull, sequence);
  const Pull& ended = *pulls_[pull];
  pulls_[pull]->ended.store(sequence + 1, std::memory_order_seq_cst);
  // One that was asked for ahead and that nobody has begun is found ended by whoever begins it.
  if (ended.begun.load(std::memory_order_seq_cst) <= sequence) return;
  // The one waits to end its step, the other holds the token.
  (*setup_.workers)[ended.worker]->Wake();
  if (ended.reader_worker != ended.worker) (*setup_.workers)[ended.reader_worker]->Wake();
  // In a step that has failed nothing more is pulled, and tokens of other edges go behind what was
  // pulled last on their stream, which may be this: any worker may hold one. Of a step that fails
  // now either the failure is seen here, or whoever gets such a token sees that this has ended:
  // both are written and read in one order (seq_cst). A fence would do, but ThreadSanitizer knows
  // of none.
  if (!setup_.tracker->failed()) return;
  for (const std::unique_ptr<Worker>& worker : *setup_.workers) worker->Wake();
}

std::pair<int64_t, int64_t> RankLink::questions() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [asked, answered] = agreement_.questions(Asker::kSession);
  const auto [saver_asked, saver_answered] = agreement_.questions(Asker::kSaver);
  return {asked + saver_asked, answered + saver_answered};
}

absl::StatusOr<std::string> RankLink::Ask(Asker asker, const std::string& mine,
                                          const Answer& answer) {
  int64_t question = 0;
  rules_.Asked(asker);
  Tell([&] { return agreement_.Ask(asker, mine, &question); });
  std::unique_lock<std::mutex> lock(mutex_);
  WaitUntil(setup_.executor, "an answer of all ranks", &lock, &changed_,
            [&] { return agreement_.IsAnswered(asker, question); });
  if (setup_.net->rank() != 0) return agreement_.TakeAnswer(asker, question);
  ASSIGN_OR_RETURN(const std::vector<std::string> said, agreement_.TakeSaid(asker, question));
  lock.unlock();
  const absl::StatusOr<std::string> answered = answer(said);
  rules_.Answered(asker);
  Tell([&] { return agreement_.Answer(asker, question, answered); });
  return answered;
}

void RankLink::Fail(const absl::Status& why) {
  Abort(StatusOf(LeftBecause(setup_.net->rank(), why)));
}

void RankLink::Abort(const absl::Status& status, int32_t missed) {
  Tell([&] {
    RankAgreement::Effects effects = agreement_.Abort(status);
    effects.missed = missed;
    return effects;
  });
}

absl::Status CheckNet(const plan::Plan& plan, const CommNet* net) {
  int64_t ranks = 1;  // a plan from anywhere may name the largest rank that there is
  for (const plan::Device& device : plan.devices()) {
    ranks = std::max(ranks, int64_t{device.rank()} + 1);
  }
  if (net == nullptr) {
    if (ranks == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("plan: of ", ranks, " ranks, expected a net that joins them, got none"));
  }
  if (net->rank() == plan.rank() && net->ranks() >= ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan: of rank ", plan.rank(), " of ", ranks,
                                                 ", expected a net of that rank, got rank ",
                                                 net->rank(), " of ", net->ranks()));
}

}  // namespace sluice
