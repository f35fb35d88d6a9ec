#include "framework/comm/in_process_net.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// Notes what comes, and serves bytes that say which piece they are of.
class Recorder final : public CommNet::Receiver {
 public:
  void Receive(int32_t from, const WireMessage& message) override {
    std::lock_guard<std::mutex> lock(mutex_);
    sequences_.push_back(message.sequence);
    EXPECT_EQ(from, 0);
    changed_.notify_all();
  }
  absl::StatusOr<absl::Span<const std::byte>> Locate(int32_t, const PullRequest& request) override {
    if (request.sequence == 13) return absl::InternalError("no such token");
    slot_.assign(request.bytes, static_cast<std::byte>(request.sequence));
    return absl::MakeSpan(slot_);
  }
  void PullEnded(int32_t pull, int64_t sequence, const absl::Status& status) override {
    std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_EQ(pull, 7);
    sequences_.push_back(sequence);
    if (!status.ok()) errors_.push_back(std::string(status.message()));
    changed_.notify_all();
  }
  std::vector<int64_t> WaitFor(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return sequences_.size() >= count; });
    return sequences_;
  }
  std::vector<std::string> errors() {
    std::lock_guard<std::mutex> lock(mutex_);
    return errors_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int64_t> sequences_;
  std::vector<std::string> errors_;
  std::vector<std::byte> slot_;
};

std::vector<int64_t> Sent(uint64_t seed, bool ordered) {
  InProcessNet net(2, {.seed = seed, .ordered = ordered});
  Recorder recorder;
  for (int64_t n = 0; n < 50; ++n) {
    WireMessage message;
    message.sequence = n;
    net.endpoint(0)->Send(1, message);
    // What comes before somebody is there is kept.
    if (n == 20) net.endpoint(1)->Open(&recorder);
  }
  std::vector<int64_t> got = recorder.WaitFor(50);
  net.endpoint(1)->Close();
  return got;
}

TEST(InProcessNetTest, MessagesComeOnceAndInAnyOrder) {
  std::vector<int64_t> all;
  for (int64_t n = 0; n < 50; ++n) all.push_back(n);
  std::vector<int64_t> got = Sent(1, false);
  EXPECT_NE(got, all);
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, all);
}

TEST(InProcessNetTest, APairOfRanksCanBeKeptInOrder) {
  const std::vector<int64_t> got = Sent(2, true);
  // Those that came before Open are sent again.
  EXPECT_TRUE(std::is_sorted(got.begin() + 21, got.end()));
}

TEST(InProcessNetTest, PullsBringBytesOrTheReasonWhyNot) {
  InProcessNet net(2, {});
  Recorder reader, owner;
  net.endpoint(0)->Open(&reader);
  net.endpoint(1)->Open(&owner);
  std::vector<std::byte> bytes(16);
  PullRequest request;
  request.bytes = 16;
  request.element_bytes = 4;
  request.pieces = {{0, {4}, {1}}};
  request.sequence = 5;
  net.endpoint(0)->Pull(1, request, 7, bytes.data());
  EXPECT_EQ(reader.WaitFor(1).back(), 5);
  EXPECT_EQ(bytes, std::vector<std::byte>(16, std::byte{5}));
  request.sequence = 13;
  net.endpoint(0)->Pull(1, request, 7, bytes.data());
  reader.WaitFor(2);
  EXPECT_EQ(reader.errors(), std::vector<std::string>{"no such token"});
  EXPECT_EQ(bytes[0], std::byte{5});
  EXPECT_EQ(net.pulls(), 2);
  net.endpoint(0)->Close();
  net.endpoint(1)->Close();
}

}  // namespace
}  // namespace sluice
