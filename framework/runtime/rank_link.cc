#include "framework/runtime/rank_link.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/comm/pieces.h"
#include "framework/plan/decisions.h"
#include "framework/plan/kinds.h"
#include "framework/runtime/runtime.h"
#include "framework/runtime/worker.h"

namespace sluice {
namespace {

// A fence is a pull and one of its firings, so that pulls of one stream may end in any order.
constexpr auto kBetweenStops = std::chrono::milliseconds(100);
constexpr int kSequenceBits = 40;

Fence FenceOf(int32_t pull, int64_t sequence) {
  return (static_cast<Fence>(pull) + 1) << kSequenceBits |
         (static_cast<Fence>(sequence + 1) & ((Fence{1} << kSequenceBits) - 1));
}

// How many edges, and a digest that does not depend on their order.
struct EdgeSum {
  int64_t count = 0;
  uint64_t digest = 0;
  void Add(const Edge& edge) {
    ++count;
    digest += StableHash(&edge, sizeof(edge));
  }
};

std::string EdgeText(const Edge& edge) {
  return absl::StrCat("program ", edge.program, ", register ", edge.source, " of device ",
                      edge.source_device, ", read by item ", edge.reader, " of device ",
                      edge.reader_device);
}

}  // namespace

class RankLink::Net final : public PullStream {
 public:
  explicit Net(RankLink* link) : link_(*link) {}
  std::byte* Pull(int32_t pull, int64_t sequence, std::byte* to) override {
    RankLink::Pull& planned = *link_.pulls_[pull];
    CommNet& net = *link_.setup_.net;
    planned.request.sequence = sequence;
    const std::byte* const there =
        planned.has_reader ? net.FindInPlace(planned.rank, planned.request, pull) : nullptr;
    planned.in_place = there != nullptr;
    last_ = 0;
    if (planned.in_place) return const_cast<std::byte*>(there);
    net.Pull(planned.rank, planned.request, pull, to);
    const Fence fence = FenceOf(pull, sequence);
    if (!link_.Done(fence)) last_ = fence;  // else it came with the token, and nobody has to wait
    return to;
  }
  Fence Record() override { return last_; }
  void Wait(Fence) override {}  // what comes here has been waited for: net streams have no order

 private:
  RankLink& link_;
  Fence last_ = 0;
};

RankLink::RankLink(const Setup& setup) : setup_(setup) {}

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
  if (!reader_at_.emplace(reader->edge, number).second) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: two remote actors stand for ", EdgeText(reader->edge)));
  }
  reader_of_[program][actor] = number;
  readers_.push_back(std::move(reader));
  return absl::OkStatus();
}

absl::Status RankLink::AddPull(int program, int32_t actor) {
  const plan::Program& planned = setup_.plan->programs(program);
  const plan::Instruction& x = planned.actors(actor).script(0);
  const int32_t r = x.inputs(0).register_();
  const plan::Register& reg = planned.registers(r);
  auto pull = std::make_unique<Pull>();
  const int32_t device = planned.streams(planned.actors(actor).stream()).device();
  PullRequest& request = pull->request;
  request.edge = {program, reg.device(), reg.number(), device, x.number()};
  request.element_bytes =
      static_cast<int32_t>(SizeOf(static_cast<DType>(x.outputs(0).shard().dtype())));
  for (const plan::Region& region : x.regions()) {
    PullRequest::Piece piece;
    piece.offset = x.inputs(0).offset() + region.source_offsets(0) * request.element_bytes;
    int64_t elements = 1;
    for (int d = 0; d < region.begin_size(); ++d) {
      piece.extent.push_back(region.end(d) - region.begin(d));
      elements *= piece.extent.back();
    }
    const auto& strides = region.source_strides(0).values();
    piece.strides.assign(strides.begin(), strides.end());
    request.bytes += elements * request.element_bytes;
    request.pieces.push_back(std::move(piece));
  }
  pull->rank = setup_.plan->devices(reg.device()).rank();
  pull->worker = (*setup_.programs)[program].worker_of[actor];
  pull->consumer_actor = actor;
  const ProgramIndex& index = (*setup_.programs)[program].loaded->index();
  pull->consumer = index.reg(r).consumers_begin;
  const ProgramIndex::Register& staging = index.reg(x.outputs(0).register_());
  pull->has_reader = staging.consumers_end == staging.consumers_begin + 1;
  pull->reader_worker =
      pull->has_reader
          ? (*setup_.programs)[program].worker_of[index.consumer(staging.consumers_begin).actor]
          : pull->worker;
  const auto number = static_cast<int32_t>(pulls_.size());
  if (!pull_at_.emplace(request.edge, number).second) {
    return absl::InvalidArgumentError(absl::StrCat("plan: two pulls of ", EdgeText(request.edge)));
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

absl::Status RankLink::CheckEdges() const {
  for (const auto& [ranks, sums] : edges_) {
    if (sums.first == sums.second) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", ranks.first, " reads other edges of rank ", ranks.second,
        " than that has: expected (number, digest) ", sums.first, ", got ", sums.second));
  }
  return absl::OkStatus();
}

Stream* RankLink::OpenStream() {
  std::lock_guard<std::mutex> lock(mutex_);
  streams_.push_back(std::make_unique<Net>(this));
  return streams_.back().get();
}

void RankLink::SendAll(const WireMessage& message) {
  for (int32_t rank = 0; rank < setup_.net->ranks(); ++rank) {
    if (rank != setup_.net->rank()) setup_.net->Send(rank, message);
  }
}

absl::Status RankLink::Join() {
  open_ = true;
  setup_.net->Open(this);
  WireMessage hello;
  hello.kind = WireMessage::Kind::kHello;
  hello.text = DecisionsText(*setup_.plan);
  hello.edges = EdgesText();
  if (is_first()) {
    OnHello(0, hello);
  } else {
    setup_.net->Send(0, std::move(hello));
  }
  std::unique_lock<std::mutex> lock(mutex_);
  while (!changed_.wait_for(lock, kBetweenStops, [this] { return is_welcome_; })) {
    lock.unlock();
    RETURN_IF_ERROR(CheckStop(setup_.stop));
    lock.lock();
  }
  return welcome_;
}

void RankLink::OnHello(int32_t from, const WireMessage& message) {
  absl::Status verdict = CompareDecisions(DecisionsText(*setup_.plan), message.text);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_welcome_) return;
    ++hellos_;
    for (absl::string_view line : absl::StrSplit(message.edges, '\n', absl::SkipEmpty())) {
      const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
      int32_t peer = 0;
      if (words.size() != 3 || !absl::SimpleAtoi(words[1], &peer)) continue;
      const bool reads = words[0] == "reads";
      auto& sums = edges_[reads ? std::pair(from, peer) : std::pair(peer, from)];
      (reads ? sums.first : sums.second) = std::string(words[2]);
    }
    if (verdict.ok() && hellos_ < setup_.net->ranks()) return;
    if (verdict.ok()) verdict = CheckEdges();
    if (!verdict.ok()) {
      verdict = AddContext(verdict, absl::StrCat("rank ", from, " cannot join"));
    }
    welcome_ = verdict;
    is_welcome_ = true;
  }
  SendAll(WithStatus(WireMessage::Kind::kWelcome, verdict));
  changed_.notify_all();
}

void RankLink::Leave() {
  WireMessage message;
  message.kind = WireMessage::Kind::kLeft;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // Others may not have lost whom this one has, and wait for both.
    if (gone_) message = WithStatus(WireMessage::Kind::kLeft, left_);
    message.sequence = begun_;
    message.number = questions_;
  }
  SendAll(message);
}

void RankLink::TokenThere(int program, int32_t actor, int64_t sequence) {
  Reader& reader = *readers_[reader_of_[program][actor]];
  reader.told.store(sequence + 1);
  WireMessage message;
  message.kind = WireMessage::Kind::kToken;
  message.failed = setup_.tracker->failed();
  message.edge = reader.edge;
  message.sequence = sequence;
  setup_.net->Send(reader.rank, std::move(message));
}

int64_t RankLink::told(int program, int32_t actor) const {
  return readers_[reader_of_[program][actor]]->told.load(std::memory_order_relaxed);
}

void RankLink::Pulled(int program, int32_t actor, int64_t sequence) {
  Pull& pull = *pulls_[pull_of_[program][actor]];
  if (!pull.in_place) return SendPulled(pull, sequence);
  pull.lent = sequence;
}

void RankLink::Read(int program, int32_t actor) {
  Pull& pull = *pulls_[pull_of_[program][actor]];
  if (pull.lent >= 0) SendPulled(pull, std::exchange(pull.lent, -1));
}

void RankLink::SendPulled(const Pull& pull, int64_t sequence) {
  WireMessage message;
  message.kind = WireMessage::Kind::kPulled;
  message.edge = pull.request.edge;
  message.sequence = sequence;
  setup_.net->Send(pull.rank, std::move(message));
}

bool RankLink::Done(Fence fence) const {
  if (fence == 0) return true;
  const auto pull = static_cast<size_t>((fence >> kSequenceBits) - 1);
  const auto sequence = static_cast<int64_t>(fence & ((Fence{1} << kSequenceBits) - 1));
  return pulls_[pull]->ended.load(std::memory_order_acquire) >= sequence;
}

void RankLink::Begin(int program, int64_t number) {
  WireMessage message;
  message.kind = WireMessage::Kind::kBegan;
  message.edge.program = program;
  message.number = number;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    message.sequence = begun_++;
    if (begun_ > left_after_) setup_.tracker->Abort(left_);
  }
  if (is_first()) return CountBeginning(0, message);
  setup_.net->Send(0, std::move(message));
}

void RankLink::EndedHere(int program, int64_t step) {
  WireMessage message = WithStatus(WireMessage::Kind::kEnded, setup_.tracker->own_status());
  message.edge.program = program;
  message.sequence = step;
  if (is_first()) return CountEnding(0, message);
  setup_.net->Send(0, std::move(message));
}

void RankLink::Receive(int32_t from, const WireMessage& message) {
  switch (message.kind) {
    case WireMessage::Kind::kHello:
      return OnHello(from, message);
    case WireMessage::Kind::kWelcome: {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!is_welcome_) welcome_ = StatusOf(message);
      is_welcome_ = true;
      changed_.notify_all();
      return;
    }
    case WireMessage::Kind::kToken:
      return OnToken(message);
    case WireMessage::Kind::kPulled:
      return OnPulled(from, message);
    case WireMessage::Kind::kBegan:
      return CountBeginning(from, message);
    case WireMessage::Kind::kEnded:
      return CountEnding(from, message);
    case WireMessage::Kind::kOver:
      return Over(message);
    case WireMessage::Kind::kSays:
    case WireMessage::Kind::kVerdict:
      return Note(from, message);
    case WireMessage::Kind::kLeft: {
      const absl::Status why = StatusOf(message);
      const absl::Status status = absl::UnavailableError(
          absl::StrCat("rank ", from, " has left", why.ok() ? "" : ": ", why.message()));
      std::lock_guard<std::mutex> lock(mutex_);
      left_after_ = std::min(left_after_, message.sequence);
      left_ = status;
      if (!is_welcome_) welcome_ = status;
      is_welcome_ = true;
      changed_.notify_all();
      // That the last step is over may be still on its way.
      if (!why.ok() || begun_ > left_after_) setup_.tracker->Abort(status);
      left_questions_ = std::min(left_questions_, message.number);
      gone_ = gone_ || !why.ok();
      return;
    }
  }
}

void RankLink::OnToken(const WireMessage& message) {
  const auto found = pull_at_.find(message.edge);
  if (found == pull_at_.end()) {
    return Abort(absl::InternalError(
        absl::StrCat("rank ", setup_.net->rank(),
                     " was told of a token that nothing here reads: ", EdgeText(message.edge))));
  }
  if (message.failed) setup_.tracker->Skip();
  const Pull& pull = *pulls_[found->second];
  (*setup_.workers)[pull.worker]->Send(
      message.edge.program,
      {Message::Kind::kReq, pull.consumer_actor, pull.consumer, message.sequence});
}

void RankLink::OnPulled(int32_t from, const WireMessage& message) {
  const auto found = reader_at_.find(message.edge);
  const int64_t done = found == reader_at_.end() ? 0 : readers_[found->second]->done.load();
  if (found == reader_at_.end() || readers_[found->second]->told.load() <= done) {
    return Abort(absl::InternalError(absl::StrCat(
        "rank ", from, " says that it has pulled what it was not told of: ", EdgeText(message.edge),
        ", token ", message.sequence)));
  }
  Reader& reader = *readers_[found->second];
  // Pulls of an edge are one after another, so those before this one have ended as well; which of
  // their messages comes first makes no difference.
  reader.done.store(done + 1);
  (*setup_.workers)[reader.worker]->RemoteEnded(message.edge.program, reader.actor);
}

absl::StatusOr<absl::Span<const std::byte>> RankLink::Locate(int32_t from,
                                                             const PullRequest& request) {
  const auto found = reader_at_.find(request.edge);
  if (found == reader_at_.end()) {
    return absl::InternalError(
        absl::StrCat("rank ", from, " pulls what it does not read: ", EdgeText(request.edge)));
  }
  const Reader& reader = *readers_[found->second];
  if (reader.rank != from) {
    return absl::InternalError(absl::StrCat("rank ", from, " pulls what rank ", reader.rank,
                                            " reads: ", EdgeText(request.edge)));
  }
  const int64_t done = reader.done.load(), told = reader.told.load();
  if (request.sequence < done || request.sequence >= told) {
    return absl::InternalError(absl::StrCat("rank ", from, " pulls token ", request.sequence,
                                            " of ", EdgeText(request.edge), ": expected one of [",
                                            done, ", ", told, ")"));
  }
  const auto slot =
      (*setup_.programs)[request.edge.program].loaded->BytesOfRead(reader.actor, request.sequence);
  const absl::Status fits = CheckPieces(request, static_cast<int64_t>(slot.size()));
  if (fits.ok()) return slot;
  return absl::InternalError(
      absl::StrCat("rank ", from, " pulls of ", EdgeText(request.edge), " ", fits.message()));
}

void RankLink::PullEnded(int32_t pull, int64_t sequence, const absl::Status& status) {
  if (!status.ok()) Abort(status);
  const Pull& ended = *pulls_[pull];
  pulls_[pull]->ended.store(sequence + 1, std::memory_order_release);
  // The one waits to end its step, the other holds the token.
  (*setup_.workers)[ended.worker]->Wake();
  if (ended.reader_worker != ended.worker) (*setup_.workers)[ended.reader_worker]->Wake();
}

// On rank 0: all ranks begin the same steps in the same order. One that begins another program's
// would wait for ever for the others, and they for it.
void RankLink::CountBeginning(int32_t from, const WireMessage& message) {
  absl::Status differs;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Beginning& step = beginnings_[message.sequence];
    if (step.ranks++ == 0) {
      step.program = message.edge.program;
      step.number = message.number;
    } else if (step.program != message.edge.program || step.number != message.number) {
      const auto text = [this](int32_t program, int64_t number) {
        return absl::StrCat("program ", setup_.plan->programs(program).name(), ", step ", number);
      };
      differs = absl::FailedPreconditionError(absl::StrCat(
          "ranks do not begin the same steps: expected ", text(step.program, step.number),
          " as on others, got ", text(message.edge.program, message.number), " on rank ", from));
    }
    if (step.ranks == setup_.net->ranks()) beginnings_.erase(message.sequence);
  }
  if (!differs.ok()) Abort(differs);
}

// On rank 0: a step is over when it has ended on each rank. Of several ranks with errors of their
// own in one step the lowest one's counts, so that it is the same one at every run.
void RankLink::CountEnding(int32_t from, const WireMessage& message) {
  WireMessage over;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const std::pair<int32_t, int64_t> key(message.edge.program, message.sequence);
    Ending& step = endings_[key];
    const absl::Status status = StatusOf(message);
    if (!status.ok() && (step.error_rank < 0 || from < step.error_rank)) {
      step.error_rank = from;
      step.error = status;
    }
    if (++step.ranks < setup_.net->ranks()) return;
    over = WithStatus(WireMessage::Kind::kOver, step.error);
    over.edge = message.edge;
    over.sequence = message.sequence;
    endings_.erase(key);
  }
  SendAll(over);
  Over(over);
}

void RankLink::Over(const WireMessage& message) {
  const absl::Status status = StatusOf(message);
  if (!status.ok()) setup_.tracker->Agree(status);
  setup_.tracker->End(message.edge.program);
}

// What a rank says may come before this one asks, and the verdict of the next question before it
// has seen that of the last.
void RankLink::Note(int32_t from, const WireMessage& message) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (message.kind == WireMessage::Kind::kSays) {
    said_[message.sequence][from] = message.text;
  } else {
    verdicts_[message.sequence] = StatusOf(message);
  }
  changed_.notify_all();
}

absl::Status RankLink::Agree(const std::string& mine, const Judge& judge) {
  WireMessage says;
  says.kind = WireMessage::Kind::kSays;
  says.text = mine;
  std::unique_lock<std::mutex> lock(mutex_);
  const int64_t question = says.sequence = questions_++;
  // Whoever has left answers what it was asked before, which may be still on its way.
  const auto unanswered = [&] { return gone_ || question >= left_questions_; };
  if (!is_first()) {
    lock.unlock();
    setup_.net->Send(0, std::move(says));
    lock.lock();
    changed_.wait(lock, [&] { return unanswered() || verdicts_.count(question) > 0; });
    const auto verdict = verdicts_.find(question);
    if (verdict == verdicts_.end()) return left_;
    absl::Status status = std::move(verdict->second);
    verdicts_.erase(verdict);
    return status;
  }
  said_[question][0] = mine;
  const auto ranks = static_cast<size_t>(setup_.net->ranks());
  changed_.wait(lock, [&] { return unanswered() || said_[question].size() == ranks; });
  if (said_[question].size() < ranks) return left_;
  std::vector<std::string> texts;
  for (auto& [rank, text] : said_[question]) texts.push_back(std::move(text));
  said_.erase(question);
  lock.unlock();
  const absl::Status status = judge(texts);
  WireMessage verdict = WithStatus(WireMessage::Kind::kVerdict, status);
  verdict.sequence = question;
  SendAll(verdict);
  return status;
}

void RankLink::Abort(const absl::Status& status) {
  setup_.tracker->Abort(status);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    left_ = status;
    gone_ = true;
  }
  changed_.notify_all();
  SendAll(WithStatus(WireMessage::Kind::kLeft, status));
}

}  // namespace sluice
