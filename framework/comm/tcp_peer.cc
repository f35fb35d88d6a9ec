#include "framework/comm/tcp_peer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/comm/pieces.h"

namespace sluice {
namespace {

// What it said before its connection ended comes on the other one by then, as a rule.
constexpr auto kLastWordLimit = std::chrono::milliseconds(500);
// Nobody has so many devices: marks of more are a peer's that runs wild.
constexpr size_t kMostMemories = 4096;
// A run of fewer bytes costs the kernel more than a copy does.
constexpr int64_t kShortRun = 1024;

// Whether the other end of a connection has the same address as this one.
bool IsOfThisHost(int socket) {
  const absl::StatusOr<Endpoint> here = LocalEndpoint(socket), there = RemoteEndpoint(socket);
  return here.ok() && there.ok() && here->host == there->host;
}

}  // namespace

TcpNet::Peer::Peer(TcpNet* net, int32_t rank, TcpPeer peer)
    : net_(*net),
      rank_(rank),
      name_(std::move(peer.name)),
      is_of_host_(IsOfThisHost(peer.connections[0].number())),
      reads_memory_(net->options_.read_memory && is_of_host_),
      silence_({net->options_.beat, net->options_.silence, net->options_.silence_limit}) {
  for (int channel = 0; channel < kTcpChannels; ++channel) {
    connections_[channel] = std::make_unique<TcpConnection>(
        &net->loop_, std::move(peer.connections[channel]), channel == kBytes, this);
  }
}

absl::Status TcpNet::Peer::OpenQueue(VerbsDevice* device) {
  ASSIGN_OR_RETURN(queue_,
                   VerbsQueue::Make(device, absl::StrCat("rank ", rank_, ", at ", name_), this));
  return absl::OkStatus();
}

void TcpNet::Peer::OpenRoute(HostMail* mail, int32_t part) {
  route_ = std::make_unique<MailRoute>(mail, part);
}

void TcpNet::Peer::ReadBy(HostInbox* inbox) {
  if (route_ == nullptr) return;
  inbox->Add(route_.get(), [this](const Letter& letter) { OnLetter(letter); });
}

absl::Status TcpNet::Peer::Start() {
  silence_.Heard(EventLoop::Clock::now());
  for (auto& connection : connections_) RETURN_IF_ERROR(connection->Start());
  return absl::OkStatus();
}

void TcpNet::Peer::Introduce() {
  for (const OfferedMemory& memory : net_.offered_) {
    if (!reads_memory_) break;
    Frame frame;
    frame.type = FrameType::kMark;
    frame.mark = memory.mark;
    connections_[kMessages]->Send(frame);
  }
  if (route_ != nullptr) connections_[kMessages]->Send(route_->Introduction());
  if (queue_ != nullptr) connections_[kMessages]->Send(queue_->Introduction());
}

void TcpNet::Peer::Send(const WireMessage& message, bool holds) {
  TcpConnection& connection = *connections_[kMessages];
  const auto send = [&](const Frame& frame) {
    holds ? connection.Hold(frame) : connection.Send(frame);
  };
  Frame frame;
  frame.type = FrameType::kMessage;
  frame.message = message;
  if (message.kind == WireMessage::Kind::kPulled && SendLetter(frame, message.worker, holds)) {
    return;
  }
  if (message.kind != WireMessage::Kind::kToken || message.failed) return send(frame);
  Served* wanted = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = served_of_.find(message.edge);
    Served* const served = found == served_of_.end() ? nullptr : found->second;
    if (served != nullptr && served->ahead == message.sequence) {
      served->ahead = -1;
      wanted = served;
    } else if (served != nullptr && served->rides) {
      served->request.sequence = message.sequence;
      AddBytes(served->request, served->pull, &frame);
      if (frame.place.memory >= 0 && SendLetter(frame, served->request.worker, holds)) return;
    }
    // A frame that has bytes along has them in scratch_.
    send(frame);
  }
  if (wanted != nullptr) Serve(wanted, message.sequence);
}

// A letter has no room for bytes, but says where they are.
bool TcpNet::Peer::SendLetter(const Frame& frame, int32_t worker, bool holds) {
  if (route_ == nullptr || !route_->Send(worker, LetterOf(frame))) return false;
  ++net_.letters_;
  if (!holds) route_->Wake();
  return true;
}

bool TcpNet::Peer::RidesAlong(const PullRequest& request) const {
  const bool lies = IsReadHere() || connected_;
  return request.bytes > 0 && (request.bytes <= net_.options_.most_along || lies);
}

// The bytes of a token, or where its slot is. What cannot be given now is asked for, and refused
// then.
void TcpNet::Peer::AddBytes(const PullRequest& request, int32_t pull, Frame* frame) {
  Receiver* const receiver = this->receiver();
  if (receiver == nullptr) return;
  const auto slot = receiver->Locate(rank_, request);
  if (!slot.ok()) return;
  const bool by_mail =
      request.worker >= 0 && route_ != nullptr && route_->is_open() && IsReadHere();
  if (by_mail || request.bytes > net_.options_.most_along) return AddPlace(*slot, pull, frame);
  scratch_.resize(request.bytes);
  Gather(request, *slot, scratch_.data());
  frame->along = absl::MakeSpan(scratch_);
  frame->pull = pull;
}

void TcpNet::Peer::AddPlace(absl::Span<const std::byte> slot, int32_t pull, Frame* frame) const {
  for (size_t m = 0; m < net_.offered_.size(); ++m) {
    const absl::Span<const std::byte> memory = net_.offered_[m].bytes;
    const int64_t offset = slot.data() - memory.data();
    if (offset < 0 || offset + slot.size() > memory.size()) continue;
    frame->place = {static_cast<int32_t>(m), static_cast<uint64_t>(offset), slot.size()};
    frame->pull = pull;
    return;
  }
}

// False: the device has to read it, or it has to be asked for.
bool TcpNet::Peer::Take(const PullRequest& request, const Along& along, std::byte* to) const {
  if (along.slot.empty()) {
    if (along.place.memory >= 0) return false;
    std::memcpy(to, along.bytes.data(), along.bytes.size());
    ++net_.along_;
    return true;
  }
  if (!CheckPieces(request, static_cast<int64_t>(along.slot.size())).ok()) return false;
  Gather(request, along.slot, to);
  ++net_.read_;
  return true;
}

void TcpNet::Peer::ForgetBefore(int64_t sequence, std::vector<Along>* came) {
  came->erase(came->begin(), std::find_if(came->begin(), came->end(), [&](const Along& along) {
                return along.sequence >= sequence;
              }));
}

const std::byte* TcpNet::Peer::FindInPlace(const PullRequest& request, int32_t pull) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = asked_.find(pull);
  if (found == asked_.end()) return nullptr;
  std::vector<Along>& came = found->second.along;
  ForgetBefore(request.sequence, &came);
  if (came.empty() || came.front().sequence != request.sequence) return nullptr;
  const absl::Span<const std::byte> slot = came.front().slot;
  int64_t offset = 0;
  if (!CheckPieces(request, static_cast<int64_t>(slot.size())).ok()) return nullptr;
  if (!LieInRow(request, &offset)) return nullptr;
  came.erase(came.begin());
  ++net_.read_;
  return slot.data() + offset;
}

void TcpNet::Peer::Pull(const PullRequest& request, int32_t pull, std::byte* to) {
  bool first = false;
  std::optional<Along> along;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto [place, is_new] = asked_.try_emplace(pull);
    first = is_new;
    Asked& asked = place->second;
    asked.bytes = request.bytes;
    asked.sequence = request.sequence;
    asked.to = to;
    std::vector<Along>& came = asked.along;
    ForgetBefore(request.sequence, &came);
    if (!came.empty() && came.front().sequence == request.sequence) {
      along = std::move(came.front());
      came.erase(came.begin());
    }
  }
  if (along && Take(request, *along, to)) {
    Receiver* const receiver = this->receiver();
    if (receiver != nullptr) receiver->PullEnded(pull, request.sequence, absl::OkStatus());
    return;
  }
  // The queue says later how it went, or not at all: then nothing was begun.
  if (along && queue_ != nullptr && queue_->Read(pull, request, along->place, to)) return;
  Ask(pull, first ? &request : nullptr);
}

// For the bytes, over TCP.
void TcpNet::Peer::Ask(int32_t pull, const PullRequest* first) {
  Frame frame;
  frame.type = first != nullptr ? FrameType::kPull : FrameType::kPullAgain;
  frame.pull = pull;
  if (first != nullptr) frame.request = *first;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Asked& asked = asked_[pull];
    asked.waits = true;
    frame.sequence = asked.sequence;
  }
  connections_[kMessages]->Send(frame);
}

void TcpNet::Peer::OnReadEnded(int32_t pull, const absl::Status& status) {
  if (!status.ok()) return Ask(pull, nullptr);
  ++net_.rdma_;
  int64_t sequence = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    sequence = asked_[pull].sequence;
  }
  Receiver* const receiver = this->receiver();
  if (receiver != nullptr) receiver->PullEnded(pull, sequence, absl::OkStatus());
}

absl::Status TcpNet::Peer::OnFrame(TcpConnection* connection, const Frame& frame) {
  silence_.Heard(EventLoop::Clock::now());
  const bool on_bytes = connection == connections_[kBytes].get();
  if (on_bytes != (frame.type == FrameType::kBytes)) {
    return absl::InvalidArgumentError("a frame on the other connection than its own");
  }
  switch (frame.type) {
    case FrameType::kMessage:
      return OnMessage(frame);
    case FrameType::kPull:
    case FrameType::kPullAgain:
      return OnPull(frame);
    case FrameType::kBytes:
      return OnBytes(frame);
    case FrameType::kMark:
      return OnMark(frame.mark);
    case FrameType::kMail:
      return OnMail(frame);
    case FrameType::kReadsMail:
      if (route_ != nullptr) route_->SetRead();
      break;
    case FrameType::kVerbs:
      OnVerbs(frame);
      break;
    case FrameType::kConnected:
      connected_ = queue_ != nullptr;
      break;
    case FrameType::kCanRead:
      ++read_here_;
      break;
    case FrameType::kBeat:
      break;
  }
  return absl::OkStatus();
}

absl::Status TcpNet::Peer::OnMark(const MemoryMark& mark) {
  absl::StatusOr<PeerMemory> mapped = absl::UnavailableError("it is not shared");
  if (reads_memory_ && mark.file >= 0) {
    mapped = PeerMemory::Map(mark);
    if (!mapped.ok()) {
      SLUICE_LOG(INFO) << "memory of rank " << rank_
                       << " is not read: " << mapped.status().message();
    }
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (memories_.size() == kMostMemories) {
      return absl::InvalidArgumentError(
          absl::StrCat("marks of at most ", kMostMemories, " memories, got more"));
    }
    std::optional<PeerMemory>& memory = memories_.emplace_back();
    if (!mapped.ok()) return absl::OkStatus();
    memory = *std::move(mapped);
  }
  Frame frame;
  frame.type = FrameType::kCanRead;
  connections_[kMessages]->Send(frame);
  return absl::OkStatus();
}

// The other one begins to write letters when it is told that they are read: by then all who sleep
// have been woken, to sleep on its letters, too.
absl::Status TcpNet::Peer::OnMail(const Frame& frame) {
  if (route_ == nullptr) return absl::OkStatus();
  const absl::Status mapped = route_->Map(frame.mark, frame.offset);
  if (absl::IsUnavailable(mapped)) {
    SLUICE_LOG(INFO) << "mail of rank " << rank_ << " is not read: " << mapped.message();
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(mapped);
  for (const auto& inbox : net_.inboxes_) {
    if (inbox != nullptr) inbox->Wake();
  }
  Frame answer;
  answer.type = FrameType::kReadsMail;
  connections_[kMessages]->Send(answer);
  return absl::OkStatus();
}

// On the thread of an inbox's owner. What is no letter ends all that comes of that rank.
void TcpNet::Peer::OnLetter(const Letter& letter) {
  const absl::StatusOr<Frame> frame = FrameOf(letter);
  const absl::Status status = frame.ok() ? OnMessage(*frame) : frame.status();
  if (status.ok()) return;
  route_->Close();
  net_.loop_.Post([this, status, alive = net_.alive_] {
    if (*alive) Lose(status);
  });
}

bool TcpNet::Peer::IsMapped(const MemoryPlace& place) const {
  const auto index = static_cast<size_t>(place.memory);
  return index < memories_.size() && memories_[index].has_value();
}

absl::StatusOr<absl::Span<const std::byte>> TcpNet::Peer::SlotAt(const MemoryPlace& place) const {
  if (!IsMapped(place)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slot in memory ", place.memory, ", which is not read here"));
  }
  const absl::Span<const std::byte> memory = memories_[place.memory]->bytes();
  if (place.bytes > memory.size() || place.offset > memory.size() - place.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("a slot of ", place.bytes, " bytes at ",
                                                   place.offset, " of a memory that has ",
                                                   memory.size()));
  }
  return memory.subspan(place.offset, place.bytes);
}

// Who has no device, or no use for one, does not answer, and is asked over TCP.
void TcpNet::Peer::OnVerbs(const Frame& frame) {
  if (queue_ == nullptr || !queue_->Connect(frame.verbs, frame.regions)) return;
  Frame answer;
  answer.type = FrameType::kConnected;
  connections_[kMessages]->Send(answer);
}

absl::Status TcpNet::Peer::OnMessage(const Frame& frame) {
  const bool lies = frame.place.memory >= 0;
  const size_t bytes = lies ? frame.place.bytes : frame.along.size();
  if (lies || bytes > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    absl::Span<const std::byte> slot;
    if (lies && (queue_ == nullptr || IsMapped(frame.place))) {
      ASSIGN_OR_RETURN(slot, SlotAt(frame.place));
    }
    const auto found = asked_.find(frame.pull);
    const size_t asked = found == asked_.end() ? 0 : static_cast<size_t>(found->second.bytes);
    // A slot may hold more than is pulled of it.
    if (asked == 0 || (lies ? bytes < asked : bytes != asked)) {
      return absl::InvalidArgumentError(
          absl::StrCat(bytes, " bytes of pull ", frame.pull, ", which has asked for ", asked));
    }
    std::vector<std::byte> along(frame.along.begin(), frame.along.end());
    found->second.along.push_back({frame.message.sequence, std::move(along), slot, frame.place});
  }
  if (frame.message.kind == WireMessage::Kind::kLeft) left_ = true;
  if (Receiver* const receiver = this->receiver(); receiver != nullptr) {
    receiver->Receive(rank_, frame.message);
  }
  return absl::OkStatus();
}

absl::Status TcpNet::Peer::OnPull(const Frame& frame) {
  Served* served = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto [place, is_new] = served_.try_emplace(frame.pull);
    served = &place->second;
    const bool first = frame.type == FrameType::kPull;
    if (is_new != first) {
      return absl::InvalidArgumentError(absl::StrCat(
          "pull ", frame.pull, first ? " described twice" : ", which was never described"));
    }
    if (first) {
      served->pull = frame.pull;
      served->request = frame.request;
    }
  }
  Serve(served, frame.sequence);
  return absl::OkStatus();
}

// The slot. Unavailable: its token is still to be told, and whoever tells it serves the pull; it
// may be told while this looks, so it is looked for once more when the wish stands. Only edges of
// the plan are remembered: what Locate refuses ends the run.
absl::StatusOr<absl::Span<const std::byte>> TcpNet::Peer::LocateOrKeep(Served* served,
                                                                       const PullRequest& request) {
  const auto remember = [&](int64_t ahead) {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool was_kept = served->ahead == request.sequence;
    served->ahead = ahead;
    served->rides = RidesAlong(request);
    served_of_[request.edge] = served;
    return was_kept;
  };
  Receiver* const receiver = this->receiver();
  if (receiver == nullptr) return absl::UnavailableError("nobody is there any more");
  auto slot = receiver->Locate(rank_, request);
  if (!absl::IsUnavailable(slot.status())) {
    if (slot.ok()) remember(-1);
    return slot;
  }
  remember(request.sequence);
  slot = receiver->Locate(rank_, request);
  if (slot.ok() && !remember(-1)) return absl::UnavailableError("it is served by who told it");
  return slot;
}

// The loop's thread, or who tells a token that was asked for ahead.
void TcpNet::Peer::Serve(Served* served, int64_t sequence) {
  Frame frame;
  frame.type = FrameType::kBytes;
  frame.pull = served->pull;
  frame.sequence = sequence;
  PullRequest request;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    request = served->request;
  }
  request.sequence = sequence;
  const auto slot = LocateOrKeep(served, request);
  if (absl::IsUnavailable(slot.status())) return;
  frame.status = slot.status();
  if (!slot.ok()) return connections_[kBytes]->Send(frame);
  frame.bytes = request.bytes;
  std::vector<TcpConnection::Run> runs;
  const auto most = static_cast<size_t>(request.bytes / kShortRun + 1);
  bool many = false;
  ForEachRun(request, *slot, [&](TcpConnection::Run run) {
    many = many || runs.size() == most;
    if (!many) runs.push_back(run);
  });
  if (!many) return connections_[kBytes]->Send(frame, runs);
  std::vector<std::byte> bytes(request.bytes);
  Gather(request, *slot, bytes.data());
  connections_[kBytes]->SendOwned(frame, std::move(bytes));
}

absl::Status TcpNet::Peer::OnBytes(const Frame& frame) {
  std::byte* to = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = asked_.find(frame.pull);
    if (found == asked_.end() || !found->second.waits || found->second.sequence != frame.sequence) {
      return absl::InvalidArgumentError(absl::StrCat("bytes of pull ", frame.pull, ", token ",
                                                     frame.sequence, ", which nobody waits for"));
    }
    Asked& asked = found->second;
    if (frame.status.ok() && frame.bytes != asked.bytes) {
      return absl::InvalidArgumentError(absl::StrCat("pull ", frame.pull, ": expected ",
                                                     asked.bytes, " bytes, got ", frame.bytes));
    }
    if (!frame.status.ok()) asked.waits = false;
    to = asked.to;
  }
  Receiver* const receiver = this->receiver();
  if (!frame.status.ok()) {
    if (receiver != nullptr) receiver->PullEnded(frame.pull, frame.sequence, frame.status);
    return absl::OkStatus();
  }
  if (receiver != nullptr) receiver->PullBegan(frame.pull, frame.sequence);
  reading_ = frame.pull;
  if (frame.bytes == 0) return OnRead(nullptr);
  connections_[kBytes]->ReadInto(to, static_cast<size_t>(frame.bytes));
  return absl::OkStatus();
}

absl::Status TcpNet::Peer::OnRead(TcpConnection*) {
  int64_t sequence = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Asked& asked = asked_[reading_];
    asked.waits = false;
    sequence = asked.sequence;
  }
  if (Receiver* const receiver = this->receiver(); receiver != nullptr) {
    receiver->PullEnded(reading_, sequence, absl::OkStatus());
  }
  return absl::OkStatus();
}

void TcpNet::Peer::OnDiscarded() { silence_.Heard(EventLoop::Clock::now()); }

// Another rank may have told of one that says nothing any more before it was given up here: it ends
// no connection.
void TcpNet::Peer::AwaitEndsWhileHeard() {
  const auto left = silence_.UntilItMissesBeats(EventLoop::Clock::now());
  if (left == left.zero()) AwaitNoEnd(kTcpChannels);
  if (over_ == kTcpChannels) return;
  net_.loop_.After(left, [this, stopped = stopped_] {
    if (!*stopped) AwaitEndsWhileHeard();
  });
}

// A rank that leaves says so on the one connection and ends both, and the end of the other may be
// seen first: what was said last is waited for.
void TcpNet::Peer::OnOver(TcpConnection* connection, const absl::Status& why) {
  AwaitNoEnd(1);
  if (connection != connections_[kBytes].get()) {
    connections_[kBytes]->LookForEnd();
    return Lose(why);
  }
  net_.loop_.After(kLastWordLimit, [this, why, alive = net_.alive_] {
    if (*alive) Lose(why);
  });
}

void TcpNet::Peer::AwaitNoEnd(int connections) {
  connections = std::min(connections, kTcpChannels - over_);
  over_ += connections;
  {
    std::lock_guard<std::mutex> lock(net_.mutex_);
    net_.over_ += connections;
  }
  net_.changed_.notify_all();
}

// As if the rank had said so itself, which it no longer can.
void TcpNet::Peer::Lose(const absl::Status& why) {
  if (lost_ || left_) return;
  lost_ = true;
  if (route_ != nullptr) route_->Close();
  // Who stands still ends no connection, and a host that is cut off ends each at its own time.
  AwaitNoEnd(kTcpChannels);
  Receiver* const receiver = this->receiver();
  if (receiver == nullptr) return;
  receiver->Receive(rank_, LostMessage(rank_, name_, net_.rank_, why));
}

void TcpNet::Peer::Beat() {
  Frame frame;
  frame.type = FrameType::kBeat;
  connections_[kMessages]->Send(frame);
  if (!net_.started_ || left_ || lost_) return;
  const auto now = EventLoop::Clock::now();
  switch (silence_.At(now)) {
    case Silence::Verdict::kNone:
      return;
    case Silence::Verdict::kLost:
      return Lose(silence_.ErrorAt(now));
    case Silence::Verdict::kNamed:
      SLUICE_LOG(WARNING)
          << "rank " << rank_ << ", at " << name_ << ", has said nothing for "
          << silence_.LengthAt(now) << "; it is given up after "
          << std::chrono::duration_cast<std::chrono::seconds>(net_.options_.silence_limit).count()
          << " s";
  }
}

}  // namespace sluice
