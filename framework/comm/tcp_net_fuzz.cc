// A peer that knows the secret and says anything: a byte says what is next, on which connection, or
// what this rank does before it listens. Nothing is written but where a pull wants its bytes, no
// pull ends twice, and the net ends when the peer does. All of it on the loop's thread, as a thread
// that waits for another is slow.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "framework/base/log.h"
#include "framework/comm/pieces.h"
#include "framework/comm/tcp_net.h"

namespace sluice {
namespace {

constexpr int32_t kPulls = 3;
constexpr std::array<int64_t, kPulls> kPullBytes = {0, 16, 300};
constexpr size_t kSlotBytes = 4096;

// What a runtime does: it gives what its plan says, and to no more than the slot has.
class Rank final : public CommNet::Receiver {
 public:
  // All exactly as large as they are said to be, so that a sanitizer sees who leaves them.
  Rank() : slot_(std::make_unique<std::byte[]>(kSlotBytes)) {
    for (int32_t pull = 0; pull < kPulls; ++pull) {
      to_[pull] = std::make_unique<std::byte[]>(kPullBytes[pull]);
    }
  }

  void Receive(int32_t from, const WireMessage& message) override {
    SLUICE_CHECK_EQ(from, 1);
    if (message.kind == WireMessage::Kind::kToken) {
      Pull(static_cast<int32_t>(static_cast<uint32_t>(message.edge.source) % kPulls));
    } else if (message.kind == WireMessage::Kind::kPulled) {
      Tell(message.edge);
    }
  }
  absl::StatusOr<absl::Span<const std::byte>> Locate(int32_t, const PullRequest& request) override {
    if (request.edge.source > 3) return absl::InternalError("no such register");
    const absl::Status fits = CheckPieces(request, kSlotBytes);
    if (!fits.ok()) return fits;
    if (request.sequence == tokens_) return absl::UnavailableError("the next to be told");
    return absl::Span<const std::byte>(slot_.get(), kSlotBytes);
  }
  void PullEnded(int32_t pull, int64_t sequence, const absl::Status&) override {
    SLUICE_CHECK(pull >= 0 && pull < kPulls && waits_[pull] && sequence == next_[pull] - 1)
        << "pull " << pull << ", token " << sequence << " ends, for which nobody waits";
    waits_[pull] = false;
  }

  // A runtime pulls the next token when it has the one before.
  void Pull(int32_t pull) {
    if (waits_[pull]) return;
    waits_[pull] = true;
    PullRequest request;
    request.edge = {0, 0, 1, 1, pull};
    request.sequence = next_[pull]++;
    request.element_bytes = 1;
    request.bytes = kPullBytes[pull];
    request.pieces = {{0, {request.bytes}, {1}}};
    net_->Pull(1, request, pull, to_[pull].get());
  }
  void Tell(const Edge& edge) {
    WireMessage message;
    message.kind = WireMessage::Kind::kToken;
    message.edge = edge;
    message.sequence = tokens_++;
    net_->Send(1, message);
  }
  // From here on pulls are of this net.
  void PullFrom(TcpNet* net) { net_ = net; }

 private:
  TcpNet* net_ = nullptr;
  std::unique_ptr<std::byte[]> slot_;
  std::array<std::unique_ptr<std::byte[]>, kPulls> to_;
  std::array<int64_t, kPulls> next_ = {};
  std::array<bool, kPulls> waits_ = {};
  int64_t tokens_ = 0;
};

class Talk {
 public:
  explicit Talk(absl::Span<const uint8_t> input) : input_(input) {
    TcpPeer peer;
    peer.name = "peer";
    for (int channel = 0; channel < kTcpChannels; ++channel) {
      int ends[2];
      SLUICE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
      peer.connections[channel] = Connection(Descriptor(ends[0]));
      sockets_[channel] = Descriptor(ends[1]);
    }
    std::vector<TcpPeer> peers(2);
    peers[1] = std::move(peer);
    auto net = TcpNet::Make(Loop(), 0, std::move(peers));
    SLUICE_CHECK_OK(net.status());
    net_ = *std::move(net);
    rank_.PullFrom(net_.get());
  }

  // What was said before is all read when the net opens.
  void Run() {
    while (!input_.empty()) {
      const uint8_t what = Next();
      const int channel = what & 1;
      switch (what >> 1 & 3) {
        case 0:
          Say(channel, Take(Next()));
          break;
        case 1: {  // with the size of a frame
          const absl::Span<const uint8_t> body = Take(Next() + 1);
          const auto size = static_cast<uint32_t>(body.size());
          uint8_t head[sizeof(size)];
          std::memcpy(head, &size, sizeof(size));
          Say(channel, head);
          Say(channel, body);
          break;
        }
        case 2:
          rank_.Pull(Next() % kPulls);
          break;
        case 3:
          Tell(Next());
          break;
      }
    }
    for (const Descriptor& socket : sockets_) shutdown(socket.number(), SHUT_WR);
    net_->Open(&rank_);
    for (const Descriptor& socket : sockets_) CheckEnded(socket);
    net_->Close();
    net_.reset();
  }

  static EventLoop* Loop() {
    static EventLoop* const loop = EventLoop::Start()->release();
    return loop;
  }

 private:
  uint8_t Next() {
    if (input_.empty()) return 0;
    const uint8_t next = input_.front();
    input_.remove_prefix(1);
    return next;
  }
  absl::Span<const uint8_t> Take(size_t bytes) {
    const absl::Span<const uint8_t> taken = input_.first(std::min(bytes, input_.size()));
    input_.remove_prefix(taken.size());
    return taken;
  }

  // What the net no longer reads is lost.
  void Say(int channel, absl::Span<const uint8_t> bytes) {
    const ssize_t sent = send(sockets_[channel].number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    SLUICE_CHECK(sent == static_cast<ssize_t>(bytes.size()) || sent < 0);
  }
  void Tell(uint8_t edge) { rank_.Tell({0, 0, edge & 3, 1, edge >> 2 & 3}); }
  // The net has seen the end of what the peer says, and has ended what it says itself.
  static void CheckEnded(const Descriptor& socket) {
    std::array<char, 4096> some;
    ssize_t got = 1;
    while (got > 0) got = recv(socket.number(), some.data(), some.size(), 0);
    SLUICE_CHECK(got == 0 || errno != EAGAIN) << "the net does not end";
  }

  absl::Span<const uint8_t> input_;
  Rank rank_;
  std::array<Descriptor, kTcpChannels> sockets_;
  std::unique_ptr<TcpNet> net_;
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Talk::Loop()->PostAndWait([&] { sluice::Talk({data, size}).Run(); });
  return 0;
}
