#include "framework/testing/simulated_net.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/comm/pieces.h"
#include "framework/comm/silence.h"

namespace sluice {
namespace {

// What an event of the net is, in the digest.
enum NetEvent : uint64_t {
  kBeat = 16,
  kBeatComes,
  kClosed,
  kRequest,
  kPulledBytes,
  kEarly,
  kMessage = 32
};

// A byte that no test's values are made of.
constexpr int kPoison = 0xC5;

std::vector<std::byte> Gathered(const PullRequest& request, absl::Span<const std::byte> slot) {
  std::vector<std::byte> bytes(request.bytes);
  Gather(request, slot, bytes.data());
  return bytes;
}

std::string EdgeText(const Edge& edge) {
  return absl::StrCat("register ", edge.source, " of device ", edge.source_device,
                      ", read by item ", edge.reader, " of device ", edge.reader_device);
}

}  // namespace

class SimulatedNet::Endpoint final : public CommNet {
 public:
  Endpoint(SimulatedNet* net, int32_t rank)
      : net_(*net), rank_(rank), process_(*net->processes_[rank]) {
    for (size_t peer = 0; peer < net->processes_.size(); ++peer) {
      peers_.emplace_back(net->options_);
    }
  }

  int32_t rank() const override { return rank_; }
  int32_t ranks() const override { return static_cast<int32_t>(peers_.size()); }
  bool pulls_ahead(int32_t) const override { return net_.options_.way == PullWay::kAhead; }
  void Open(Receiver* receiver) override;
  void Close() override { receiver_ = nullptr, closed_ = true; }
  void Send(int32_t to, WireMessage message) override;
  void Pull(int32_t from, const PullRequest& request, int32_t pull, std::byte* to) override;
  void Lose(int32_t peer, const absl::Status& why);
  int64_t steps_ended() const { return steps_ended_; }

 private:
  struct Along {  // the bytes of a token, or where they are
    int64_t sequence = 0;
    std::vector<std::byte> bytes;
    absl::Span<const std::byte> slot;
  };
  struct Asked {  // a pull of this rank
    std::deque<Along> along;
  };
  struct Served {  // of another rank, as it was asked for first
    PullRequest request;
    int32_t pull = 0;
  };
  struct Kept {  // what another rank has asked for ahead, and where it wants it
    PullRequest request;
    int32_t pull = 0;
    std::byte* to = nullptr;
  };
  struct Peer {
    explicit Peer(const SimulatedNetOptions& options)
        : silence({options.beat, options.silence, options.silence_limit}) {}
    Silence silence;
    bool left = false, lost = false;
  };

  void Beat();
  void Post(int32_t to, WireMessage message, std::optional<Along> along, int32_t pull);
  void Arrive(int32_t from, const WireMessage& message, std::optional<Along> along, int32_t pull);
  void Serve(int32_t from, const PullRequest& request, int32_t pull, std::byte* to);
  void WatchSent(const WireMessage& message);
  template <typename F>
  void WithReceiver(F&& call) {
    if (receiver_ != nullptr) {
      call();
    } else if (!closed_) {
      early_.emplace_back(std::forward<F>(call));
    }
  }
  void Fail(const std::string& what) {
    net_.simulation_.Fail(absl::InternalError(absl::StrCat("rank ", rank_, ": ", what)));
  }

  SimulatedNet& net_;
  const int32_t rank_;
  SimulatedProcess& process_;
  Receiver* receiver_ = nullptr;
  bool closed_ = false;
  std::vector<std::function<void()>> early_;  // what came before the receiver
  std::vector<Peer> peers_;
  std::map<int32_t, Asked> asked_;
  std::map<Edge, Served> served_;
  std::map<Edge, Kept> kept_;
  // Tokens by edge: told by this rank; pulls that it has begun, that have ended; said to be pulled.
  std::map<Edge, int64_t> told_, begun_, ended_, has_;
  int64_t steps_ended_ = 0;
};

void SimulatedNet::Endpoint::Open(Receiver* receiver) {
  receiver_ = receiver;
  if (process_.killed()) return net_.LoseAll(rank_);
  for (Peer& peer : peers_) peer.silence.Heard(net_.simulation_.now());
  Beat();
  std::vector<std::function<void()>> early;
  early.swap(early_);
  for (auto& call : early) process_.After(Simulation::Duration(0), kEarly, std::move(call));
}

void SimulatedNet::Endpoint::Beat() {
  if (closed_) return;
  const auto now = net_.simulation_.now();
  for (int32_t to = 0; to < ranks(); ++to) {
    if (to == rank_) continue;
    net_.Post(kMessages, rank_, to, kBeatComes, [this, to] {
      net_.endpoints_[to]->peers_[rank_].silence.Heard(net_.simulation_.now());
    });
    Peer& peer = peers_[to];
    if (peer.left || peer.lost || net_.options_.fault == NetFault::kUnnoticedSilence) continue;
    if (peer.silence.At(now) == Silence::Verdict::kLost) Lose(to, peer.silence.ErrorAt(now));
  }
  process_.After(net_.options_.beat, kBeat, [this] { Beat(); });
}

void SimulatedNet::Endpoint::Lose(int32_t peer, const absl::Status& why) {
  // Of one that has left nothing more is missed, but what it has answered before may be on its way,
  // and no longer is where this process is killed.
  if (peers_[peer].lost || (peers_[peer].left && !process_.killed())) return;
  // Who begins to read finds that the connection has ended.
  if (receiver_ == nullptr) return WithReceiver([this, peer, why] { Lose(peer, why); });
  peers_[peer].lost = true;
  receiver_->Receive(peer, LostMessage(peer, absl::StrCat("process ", peer), rank_, why));
}

// Tokens of an edge are told in order, each once; those that have been pulled are given back in
// order, each once.
void SimulatedNet::Endpoint::WatchSent(const WireMessage& message) {
  if (message.kind == WireMessage::Kind::kToken) {
    if (message.sequence != told_[message.edge]++) {
      Fail(absl::StrCat("token ", message.sequence, " of ", EdgeText(message.edge),
                        " is told, expected ", told_[message.edge] - 1));
    }
  } else if (message.kind == WireMessage::Kind::kEnded) {
    ++steps_ended_;
  } else if (message.kind == WireMessage::Kind::kPulled) {
    if (message.sequence != has_[message.edge]++) {
      Fail(absl::StrCat("token ", message.sequence, " of ", EdgeText(message.edge),
                        " is said to be here, expected ", has_[message.edge] - 1));
    }
    // In a step that has failed nothing is pulled, and all is said to be here: what was asked for
    // ahead, too.
    if (net_.options_.way == PullWay::kAhead) return;
    if (begun_[message.edge] > message.sequence && ended_[message.edge] <= message.sequence) {
      Fail(absl::StrCat("token ", message.sequence, " of ", EdgeText(message.edge),
                        " is said to be here before its bytes are"));
    }
  }
}

void SimulatedNet::Endpoint::Send(int32_t to, WireMessage message) {
  if (process_.killed()) return;
  WatchSent(message);
  const NetFault fault = net_.options_.fault;
  using Kind = WireMessage::Kind;
  const bool token = message.kind == Kind::kToken;
  if (fault == NetFault::kLostToken && token && net_.Strikes(fault)) return;
  if (fault == NetFault::kErrorForgotten && message.kind == Kind::kOver && to == ranks() - 1) {
    message.code = 0;
  }
  std::optional<Along> along;
  int32_t pull = -1;
  const auto served = served_.find(message.edge);
  const bool comes = net_.options_.way == PullWay::kAlong || net_.options_.way == PullWay::kInPlace;
  if (token && !message.failed && served != served_.end() && comes) {
    PullRequest& request = served->second.request;
    request.sequence = message.sequence;
    pull = served->second.pull;
    const auto slot = receiver_->Locate(to, request);
    if (slot.ok() && net_.options_.way == PullWay::kAlong) {
      along = Along{message.sequence, Gathered(request, *slot), {}};
    } else if (slot.ok()) {
      along = Along{message.sequence, {}, *slot};
    }
  }
  const bool twice =
      (fault == NetFault::kTokenTwice && token && net_.Strikes(fault)) ||
      (fault == NetFault::kPulledTwice && message.kind == Kind::kPulled && net_.Strikes(fault)) ||
      (fault == NetFault::kEndedTwice && message.kind == Kind::kEnded && net_.Strikes(fault));
  std::optional<Kept> wanted;
  if (const auto kept = kept_.find(message.edge);
      token && !message.failed && kept != kept_.end() &&
      kept->second.request.sequence == message.sequence) {
    wanted = std::move(kept->second);
    kept_.erase(kept);
  }
  if (twice) Post(to, message, std::nullopt, -1);
  Post(to, std::move(message), std::move(along), pull);
  if (wanted) Serve(to, wanted->request, wanted->pull, wanted->to);
}

void SimulatedNet::Endpoint::Post(int32_t to, WireMessage message, std::optional<Along> along,
                                  int32_t pull) {
  const uint64_t what = kMessage + static_cast<uint64_t>(message.kind);
  net_.Post(kMessages, rank_, to, what,
            [this, to, message = std::move(message), along = std::move(along), pull]() mutable {
              net_.endpoints_[to]->Arrive(rank_, message, std::move(along), pull);
            });
}

void SimulatedNet::Endpoint::Arrive(int32_t from, const WireMessage& message,
                                    std::optional<Along> along, int32_t pull) {
  peers_[from].silence.Heard(net_.simulation_.now());
  if (along.has_value()) asked_[pull].along.push_back(*std::move(along));
  if (message.kind == WireMessage::Kind::kLeft) peers_[from].left = true;
  if (receiver_ == nullptr) {
    WithReceiver([this, from, message] { receiver_->Receive(from, message); });
    return;
  }
  receiver_->Receive(from, message);
  if (message.kind == WireMessage::Kind::kToken && net_.Strikes(NetFault::kEarlyPulled)) {
    WireMessage pulled = message;
    pulled.kind = WireMessage::Kind::kPulled;
    Post(from, std::move(pulled), std::nullopt, -1);
  }
}

void SimulatedNet::Endpoint::Pull(int32_t from, const PullRequest& request, int32_t pull,
                                  std::byte* to) {
  if (process_.killed()) return;
  begun_[request.edge] = request.sequence + 1;
  std::deque<Along>& came = asked_[pull].along;
  while (!came.empty() && came.front().sequence < request.sequence) came.pop_front();
  // Whoever reads too early reads something else.
  if (request.bytes > 0) std::memset(to, kPoison, request.bytes);
  const bool here = !came.empty() && came.front().sequence == request.sequence;
  const bool in_place = here && came.front().bytes.empty();
  // Memory of a process that has ended, or has given it back, cannot be read any more.
  const bool readable = !net_.endpoints_[from]->closed_ && !net_.processes_[from]->killed();
  if (here && (!in_place || readable)) {
    if (in_place) {
      Gather(request, came.front().slot, to);
    } else {
      std::memcpy(to, came.front().bytes.data(), request.bytes);
    }
    came.pop_front();
    ended_[request.edge] = request.sequence + 1;
    return receiver_->PullEnded(pull, request.sequence, absl::OkStatus());
  }
  net_.Post(kMessages, rank_, from, kRequest, [this, from, request, pull, to] {
    net_.endpoints_[from]->Serve(rank_, request, pull, to);
  });
  if (net_.options_.fault != NetFault::kEarlyEnd || !net_.Strikes(NetFault::kEarlyEnd)) return;
  ended_[request.edge] = request.sequence + 1;
  receiver_->PullEnded(pull, request.sequence, absl::OkStatus());
}

// The owner of the bytes. They leave at once, as far as the reader can tell, or when they arrive.
void SimulatedNet::Endpoint::Serve(int32_t reader, const PullRequest& request, int32_t pull,
                                   std::byte* to) {
  WithReceiver([this, reader, request, pull, to] {
    served_[request.edge] = {request, pull};
    const auto slot = receiver_->Locate(reader, request);
    if (absl::IsUnavailable(slot.status())) {
      kept_[request.edge] = {request, pull, to};
      return;
    }
    std::vector<std::byte> bytes;
    if (slot.ok()) bytes = Gathered(request, *slot);
    const absl::Status status = slot.status();
    const absl::Span<const std::byte> lies = slot.ok() ? *slot : absl::Span<const std::byte>();
    net_.Post(kBytes, rank_, reader, kPulledBytes,
              [this, reader, request, pull, to, status, lies, bytes = std::move(bytes)] {
                Endpoint& there = *net_.endpoints_[reader];
                if (there.receiver_ == nullptr) return;
                const bool stands = !closed_ && !process_.killed() && status.ok();
                if (stands && Gathered(request, lies) != bytes) {
                  Fail(absl::StrCat("token ", request.sequence, " of ", EdgeText(request.edge),
                                    " is overwritten while rank ", reader, " pulls it"));
                }
                if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
                there.ended_[request.edge] = request.sequence + 1;
                there.receiver_->PullEnded(pull, request.sequence, status);
              });
  });
}

SimulatedNet::SimulatedNet(Simulation* simulation, std::vector<SimulatedProcess*> processes,
                           const SimulatedNetOptions& options)
    : simulation_(*simulation),
      processes_(std::move(processes)),
      options_(options),
      fault_in_(options.fault == NetFault::kNone ? 0 : 1 + simulation->random().Below(10)) {
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    endpoints_.push_back(std::make_unique<Endpoint>(this, static_cast<int32_t>(rank)));
  }
  cut_.resize(processes_.size() * processes_.size());
  for (auto& ways : ways_) ways.resize(cut_.size());
}

SimulatedNet::~SimulatedNet() = default;

CommNet* SimulatedNet::endpoint(int32_t rank) { return endpoints_[rank].get(); }

int64_t SimulatedNet::StepsEnded(int32_t rank) const { return endpoints_[rank]->steps_ended(); }

bool SimulatedNet::Strikes(NetFault fault) { return options_.fault == fault && --fault_in_ == 0; }

void SimulatedNet::Post(Channel channel, int32_t from, int32_t to, uint64_t what,
                        std::function<void()> arrive) {
  if (processes_[from]->killed() && what != kClosed) return;
  auto when = simulation_.now() + simulation_.Draw(options_.most_delay);
  Way& way = WayOf(channel, from, to);
  if (options_.ordered || channel == kBytes || what == kClosed) when = std::max(when, way.last);
  if (what == kRequest) way.asked = std::max(way.asked, when);
  const bool gives_back = what == kMessage + static_cast<uint64_t>(WireMessage::Kind::kPulled);
  if (gives_back) when = std::max(when, way.asked + Simulation::Duration(1));
  way.last = std::max(way.last, when);
  processes_[to]->After(
      when - simulation_.now(), what,
      [this, channel, from, to, what, number = way.sent++, arrive = std::move(arrive)] {
        Deliver(channel, from, to, what, number, arrive);
      });
}

// What a cut has stopped comes when it is over, in the same order.
void SimulatedNet::Deliver(Channel channel, int32_t from, int32_t to, uint64_t what, int64_t number,
                           const std::function<void()>& arrive) {
  const auto until = CutEnd(from, to);
  Way& way = WayOf(channel, from, to);
  if (until <= simulation_.now()) {
    overtaken_ += number < way.came ? 1 : 0;
    way.came = std::max(way.came, number + 1);
    return arrive();
  }
  way.last = std::max(way.last, until);
  processes_[to]->After(until - simulation_.now(), what,
                        [this, channel, from, to, what, number, arrive] {
                          Deliver(channel, from, to, what, number, arrive);
                        });
}

void SimulatedNet::CutUntil(int32_t rank, int32_t other, Simulation::Clock::time_point until) {
  auto& end = CutEnd(rank, other);
  end = std::max(end, until);
}

void SimulatedNet::Ended(int32_t rank, bool silently) {
  for (int32_t other = 0; other < static_cast<int32_t>(processes_.size()) && !silently; ++other) {
    if (other == rank) continue;
    Post(kMessages, rank, other, kClosed, [this, rank, other] {
      endpoints_[other]->Lose(rank, absl::UnavailableError("the connection has ended"));
    });
  }
}

void SimulatedNet::LoseAll(int32_t rank) {
  for (int32_t other = 0; other < static_cast<int32_t>(processes_.size()); ++other) {
    if (other != rank) endpoints_[rank]->Lose(other, absl::UnavailableError("this rank is killed"));
  }
}

}  // namespace sluice
