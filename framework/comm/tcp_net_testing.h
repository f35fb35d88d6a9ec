// What the tests of TcpNet share: two ranks of one process, of which the second may be the test
// itself.
#ifndef SLUICE_FRAMEWORK_COMM_TCP_NET_TESTING_H_
#define SLUICE_FRAMEWORK_COMM_TCP_NET_TESTING_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/comm/tcp_net.h"
#include "framework/device/memory.h"
#include "framework/wire/connected_testing.h"
#include "framework/wire/connection.h"
#include "framework/wire/seal.h"
#include "gtest/gtest.h"

namespace sluice {

// A rank that notes what comes, and has one slot of 4 MiB whose bytes say where they are.
class Rank final : public CommNet::Receiver {
 public:
  Rank() : memory_(*Memory::AllocateShared(kSlotBytes + kSlotOffset)) {
    for (size_t i = 0; i < kSlotBytes; ++i) {
      memory_.data()[kSlotOffset + i] = static_cast<std::byte>(i * 7 + i / 251);
    }
  }

  void Receive(int32_t from, const WireMessage& message) override {
    std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_EQ(from, from_);
    messages_.push_back(message);
    changed_.notify_all();
  }
  absl::StatusOr<absl::Span<const std::byte>> Locate(int32_t, const PullRequest& request) override {
    if (request.edge.source == 13) return absl::InternalError(refusal_);
    if (request.sequence >= told_) return absl::UnavailableError("still to be told");
    return slot();
  }
  void PullEnded(int32_t pull, int64_t sequence, const absl::Status& status) override {
    std::lock_guard<std::mutex> lock(mutex_);
    ended_.emplace_back(pull, sequence);
    if (!status.ok()) errors_.push_back(std::string(status.message()));
    changed_.notify_all();
  }

  bool Has(size_t count, std::chrono::seconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return messages_.size() >= count; });
  }
  WireMessage Message(size_t index) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return messages_.size() > index; });
    return messages_[index];
  }
  std::vector<std::pair<int32_t, int64_t>> Ended(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return ended_.size() >= count; });
    return ended_;
  }
  size_t ended() {
    std::lock_guard<std::mutex> lock(mutex_);
    return ended_.size();
  }
  std::vector<std::string> errors() {
    std::lock_guard<std::mutex> lock(mutex_);
    return errors_;
  }
  absl::Span<const std::byte> slot() const { return {memory_.data() + kSlotOffset, kSlotBytes}; }
  const Memory& memory() const { return memory_; }
  void Forget() {
    std::lock_guard<std::mutex> lock(mutex_);
    messages_.clear();
  }

  int32_t from_ = 0;
  std::string refusal_ = "no such register";
  std::atomic<int64_t> told_{int64_t{1} << 40};  // tokens

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WireMessage> messages_;
  std::vector<std::pair<int32_t, int64_t>> ended_;
  std::vector<std::string> errors_;
  static constexpr size_t kSlotBytes = size_t{4} << 20, kSlotOffset = 4096;
  const Memory memory_;
};

// Two ranks of one process, each with a loop of its own; or the second is what the test writes.
class TcpNetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int side = 0; side < 2; ++side) {
      loops_[side] = *EventLoop::Start();
      ranks_[side].from_ = 1 - side;
    }
    for (int channel = 0; channel < kTcpChannels; ++channel) {
      std::tie(sockets_[0][channel], sockets_[1][channel]) = Connected();
    }
  }
  std::unique_ptr<TcpNet> Make(int side, const TcpNetOptions& options = {}) {
    std::vector<TcpPeer> peers(2);
    if (side == 1) bytes_of_second_ = sockets_[1][1].number();
    for (int channel = 0; channel < kTcpChannels; ++channel) {
      Connection& connection = peers[1 - side].connections[channel];
      connection = Connection(std::move(sockets_[side][channel]));
      if (seals_) connection.Seal(KeysOf(side, channel));
    }
    peers[1 - side].name = absl::StrCat("host", 1 - side);
    auto net = TcpNet::Make(loops_[side].get(), side, std::move(peers), options);
    EXPECT_TRUE(net.ok()) << net.status();
    EXPECT_EQ((*net)->seals(), seals_);
    return *std::move(net);
  }
  // As the handshakes of two connections give them.
  static SealKeys KeysOf(int side, int channel) {
    return *DeriveSealKeys("a secret of thirty-two bytes....", absl::StrCat("channel ", channel),
                           side == 0 ? Side::kServer : Side::kClient);
  }
  void Both(const TcpNetOptions& options = {}) {
    for (int side = 0; side < 2; ++side) nets_[side] = Make(side, options);
    for (int side = 0; side < 2; ++side) {
      const Memory& memory = ranks_[side].memory();
      ASSERT_TRUE(nets_[side]
                      ->Offer({{memory.data(), static_cast<size_t>(memory.bytes())}, memory.mark()})
                      .ok());
      nets_[side]->Open(&ranks_[side]);
    }
  }
  void TearDown() override {
    for (auto& side : sockets_) {
      for (Descriptor& socket : side) socket = Descriptor();
    }
    for (auto& net : nets_) {
      if (net != nullptr) net->Close();
    }
    std::thread other([this] { nets_[1].reset(); });
    nets_[0].reset();
    other.join();
  }

  std::array<std::unique_ptr<EventLoop>, 2> loops_;
  std::array<std::array<Descriptor, kTcpChannels>, 2> sockets_;
  int bytes_of_second_ = -1;
  bool seals_ = false;
  std::array<Rank, 2> ranks_;
  std::array<std::unique_ptr<TcpNet>, 2> nets_;
};

inline WireMessage Token(const Edge& edge, int64_t sequence) {
  WireMessage message;
  message.kind = WireMessage::Kind::kToken;
  message.edge = edge;
  message.sequence = sequence;
  return message;
}

inline PullRequest Request(int64_t sequence, int64_t bytes) {
  PullRequest request;
  request.edge = {0, 0, 1, 1, 2};
  request.sequence = sequence;
  request.element_bytes = 4;
  request.bytes = bytes;
  request.pieces = {{64, {bytes / 4}, {1}}};
  return request;
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_TCP_NET_TESTING_H_
