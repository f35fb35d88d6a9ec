#include "framework/comm/tcp_net.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/comm/host_mail.h"
#include "framework/comm/tcp_peer.h"
#include "framework/comm/verbs_device.h"

namespace sluice {
namespace {

// The others end at about the same time. One that takes longer has been told all the same.
constexpr auto kEndLimit = std::chrono::seconds(2);

}  // namespace

TcpNet::TcpNet(EventLoop* loop, int32_t rank, const TcpNetOptions& options)
    : loop_(*loop), rank_(rank), options_(options) {}

absl::StatusOr<std::unique_ptr<TcpNet>> TcpNet::Make(EventLoop* loop, int32_t rank,
                                                     std::vector<TcpPeer> peers,
                                                     const TcpNetOptions& options) {
  std::unique_ptr<TcpNet> net(new TcpNet(loop, rank, options));
  if (options.verbs) {
    const auto others = static_cast<int32_t>(peers.size()) - 1;
    ASSIGN_OR_RETURN(net->verbs_, VerbsDevice::Open(loop, others, *options.verbs));
  }
  for (int32_t other = 0; other < static_cast<int32_t>(peers.size()); ++other) {
    const auto& connections = peers[other].connections;
    const bool whole = std::all_of(connections.begin(), connections.end(),
                                   [](const Connection& connection) { return connection.open(); });
    if (other != rank && !whole) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", other, " has no connection"));
    }
    net->seals_ = net->seals_ || (other != rank && connections[0].sealed());
    net->peers_.push_back(other == rank
                              ? nullptr
                              : std::make_unique<Peer>(net.get(), other, std::move(peers[other])));
  }
  if (options.verbs) RETURN_IF_ERROR(net->OpenQueues());
  if (options.read_memory) net->OpenMail();
  // A rank lives before it is ready to train, however long it reads data and plans.
  loop->PostAndWait([&net] { net->Beat(); });
  return net;
}

absl::Status TcpNet::OpenQueues() {
  for (auto& peer : peers_) {
    if (peer != nullptr) RETURN_IF_ERROR(peer->OpenQueue(verbs_.get()));
  }
  absl::Status started;
  loop_.PostAndWait([&] { started = verbs_->Start(); });
  return started;
}

// Where there is none all goes over the connections.
void TcpNet::OpenMail() {
  const int32_t others = ranks_of_host() - 1;
  if (others == 0 || others > static_cast<int32_t>(OtherBells::kMostWords)) return;
  absl::StatusOr<std::unique_ptr<HostMail>> mail = HostMail::Make(others);
  if (!mail.ok()) {
    SLUICE_LOG(INFO) << "no mail between ranks of this host: " << mail.status().message();
    return;
  }
  mail_ = *std::move(mail);
  int32_t part = 0;
  for (auto& peer : peers_) {
    if (peer != nullptr && peer->is_of_host()) peer->OpenRoute(mail_.get(), part++);
  }
}

Inbox* TcpNet::OpenInbox(int32_t worker, std::function<void()> wake) {
  if (mail_ == nullptr || worker >= kInboxes) return nullptr;
  auto inbox = std::make_unique<HostInbox>(mail_.get(), worker, std::move(wake));
  for (auto& peer : peers_) {
    if (peer != nullptr) peer->ReadBy(inbox.get());
  }
  inboxes_[worker] = std::move(inbox);
  return inboxes_[worker].get();
}

// The n-th memory is the n-th of marks and of a device's regions.
absl::Status TcpNet::Offer(const OfferedMemory& memory) {
  offered_.push_back(memory);
  return verbs_ == nullptr ? absl::OkStatus() : verbs_->Register(memory.bytes);
}

int32_t TcpNet::ranks_of_host() const {
  const auto is_here = [](const auto& peer) { return peer == nullptr || peer->is_of_host(); };
  return static_cast<int32_t>(std::count_if(peers_.begin(), peers_.end(), is_here));
}

int32_t TcpNet::place_on_host() const {
  const auto is_here = [](const auto& peer) { return peer->is_of_host(); };
  return static_cast<int32_t>(std::count_if(peers_.begin(), peers_.begin() + rank(), is_here));
}

bool TcpNet::reads_in_place(int32_t of) const {
  return options_.read_memory && peers_[of]->is_of_host();
}

// Where a token says where its slot lies, nothing else is sent.
bool TcpNet::pulls_ahead(int32_t from) const { return verbs_ == nullptr && !reads_in_place(from); }

void TcpNet::Start() {
  started_ = true;
  for (auto& peer : peers_) {
    if (peer == nullptr) continue;
    const absl::Status started = peer->Start();
    if (!started.ok()) peer->OnOver(nullptr, started);
  }
}

// What the others say before is kept by the kernel, which lets them say only so much.
void TcpNet::Open(Receiver* receiver) {
  receiver_ = receiver;
  loop_.PostAndWait([this] {
    Start();
    for (auto& peer : peers_) {
      if (peer != nullptr) peer->Introduce();
    }
  });
}

// From here on what comes is read and thrown away. Not to read it would be worse: a socket that is
// closed with something unread tells the other end at once, which then forgets what it has not yet
// read of ours.
void TcpNet::Close() {
  loop_.PostAndWait([this] {
    receiver_ = nullptr;
    if (std::exchange(finished_, true)) return;
    *alive_ = false;
    for (auto& peer : peers_) {
      if (peer != nullptr) peer->CloseQueue();
    }
    if (verbs_ != nullptr) verbs_->Close();
    for (auto& peer : peers_) {
      if (peer != nullptr) peer->Finish();
    }
    if (!started_) Start();
    for (auto& peer : peers_) {
      if (peer != nullptr) peer->AwaitEndsWhileHeard();
    }
  });
}

TcpNet::~TcpNet() {
  Close();
  {
    const int all = kTcpChannels * (ranks() - 1);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, kEndLimit, [&] { return over_ >= all; });
  }
  loop_.PostAndWait([this] {
    for (auto& peer : peers_) {
      if (peer != nullptr) peer->Stop();
    }
  });
}

void TcpNet::Send(int32_t to, WireMessage message) {
  ++messages_;
  peers_[to]->Send(message, /*holds=*/false);
}

void TcpNet::SendAll(std::vector<AddressedMessage>* messages) {
  messages_ += static_cast<int64_t>(messages->size());
  for (const AddressedMessage& each : *messages) peers_[each.to]->Send(each.message, true);
  for (const AddressedMessage& each : *messages) peers_[each.to]->SendHeld();
  messages->clear();
}

void TcpNet::Pull(int32_t from, const PullRequest& request, int32_t pull, std::byte* to) {
  ++pulls_;
  peers_[from]->Pull(request, pull, to);
}

const std::byte* TcpNet::FindInPlace(int32_t from, const PullRequest& request, int32_t pull) {
  const std::byte* const found = peers_[from]->FindInPlace(request, pull);
  if (found != nullptr) ++pulls_;
  return found;
}

void TcpNet::Beat() {
  for (auto& peer : peers_) {
    if (peer != nullptr) peer->Beat();
  }
  loop_.After(options_.beat, [this, alive = alive_] {
    if (*alive) Beat();
  });
}

TcpNet::Counts TcpNet::counts() const {
  return {messages_, letters_, pulls_, along_, read_, rdma_};
}

}  // namespace sluice
