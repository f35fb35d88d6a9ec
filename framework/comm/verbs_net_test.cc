// TcpNet with RDMA devices: two ranks of this process, at the first device of this host and the
// last. Where there is none it skips; //ci:rdma_vm runs it in a machine that has two, and says in
// SLUICE_RDMA_CUT and SLUICE_RDMA_MEND by which commands the cable between them is cut and mended.

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/comm/pieces.h"
#include "framework/comm/tcp_net.h"
#include "framework/comm/verbs_device.h"
#include "framework/comm/verbs_library.h"
#include "framework/comm/verbs_probe.h"
#include "framework/comm/verbs_queue.h"
#include "framework/wire/connected_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr size_t kSlotBytes = size_t{10} << 20;  // more than soft-RoCE reads at once
constexpr size_t kTargetBytes = kSlotBytes;
constexpr auto kLimit = std::chrono::seconds(20);

std::vector<std::string> DeviceNames() {
  const auto library = VerbsLibrary::Load();
  if (!library.ok()) return {};
  int count = 0;
  ibv_device** const devices = (*library)->get_device_list(&count);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back((*library)->get_device_name(devices[i]));
  if (devices != nullptr) (*library)->free_device_list(devices);
  return names;
}

bool Command(const char* variable) {
  const char* const command = std::getenv(variable);
  return command != nullptr && std::system(command) == 0;
}

const std::vector<std::byte>& BytesThatSayWhereTheyAre() {
  static const auto* const bytes = [] {
    auto* const made = new std::vector<std::byte>(kSlotBytes);
    for (size_t i = 0; i < kSlotBytes; ++i) (*made)[i] = static_cast<std::byte>(i * 7 + i / 251);
    return made;
  }();
  return *bytes;
}

class Rank final : public CommNet::Receiver {
 public:
  Rank() : memory_(BytesThatSayWhereTheyAre()) { memory_.resize(kSlotBytes + kTargetBytes); }

  void Receive(int32_t, const WireMessage& message) override {
    std::lock_guard<std::mutex> lock(mutex_);
    messages_.push_back(message);
    changed_.notify_all();
  }
  absl::StatusOr<absl::Span<const std::byte>> Locate(int32_t, const PullRequest&) override {
    return slot();
  }
  void PullEnded(int32_t, int64_t, const absl::Status& status) override {
    std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_TRUE(status.ok()) << status;
    ++ended_;
    changed_.notify_all();
  }

  absl::Span<std::byte> memory() { return absl::MakeSpan(memory_); }
  absl::Span<const std::byte> slot() const {
    const auto& bytes = registered_ ? memory_ : BytesThatSayWhereTheyAre();
    return absl::MakeSpan(bytes.data(), kSlotBytes);
  }
  std::byte* target() { return memory_.data() + kSlotBytes; }
  bool WaitEnded(int64_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return ended_ >= count; });
  }
  // The last one.
  WireMessage WaitMessage(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, kLimit, [&] { return messages_.size() >= count; })) return {};
    return messages_[count - 1];
  }

  bool registered_ = true;  // whether the slot lies in memory that the net was told of

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WireMessage> messages_;
  int64_t ended_ = 0;
  std::vector<std::byte> memory_;
};

PullRequest Request(std::vector<PullRequest::Piece> pieces) {
  PullRequest request;
  request.edge = {0, 0, 1, 1, 2};
  request.element_bytes = 4;
  request.pieces = std::move(pieces);
  for (const PullRequest::Piece& piece : request.pieces) {
    int64_t elements = 1;
    for (const int64_t extent : piece.extent) elements *= extent;
    request.bytes += 4 * elements;
  }
  return request;
}

class VerbsNetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    devices_ = DeviceNames();
    if (devices_.empty()) {
      std::cout << "SKIPPED: no RDMA device; //ci:rdma_vm has some\n";
      GTEST_SKIP();
    }
    for (int side = 0; side < 2; ++side) loops_[side] = *EventLoop::Start();
  }
  VerbsOptions Options(int side) const {
    VerbsOptions options;
    options.device = side == 0 ? devices_.front() : devices_.back();
    options.timeout = 14;
    options.retries = 6;  // 0.47 s
    options.most_posted = most_posted_;
    return options;
  }
  void Both() {
    std::array<std::array<Connection, kTcpChannels>, 2> connections;
    for (int channel = 0; channel < kTcpChannels; ++channel) {
      auto [one, other] = Connected();
      connections[0][channel] = Connection(std::move(one));
      connections[1][channel] = Connection(std::move(other));
    }
    for (int side = 0; side < 2; ++side) {
      std::vector<TcpPeer> peers(2);
      peers[1 - side] = {std::move(connections[side]), absl::StrCat("host", 1 - side)};
      TcpNetOptions options;
      options.read_memory = false;
      options.verbs = Options(side);
      auto net = TcpNet::Make(loops_[side].get(), side, std::move(peers), options);
      ASSERT_TRUE(net.ok()) << net.status();
      nets_[side] = *std::move(net);
      const absl::Status registered = nets_[side]->Offer({ranks_[side].memory(), {}});
      ASSERT_TRUE(registered.ok()) << registered;
    }
    for (int side = 0; side < 2; ++side) nets_[side]->Open(&ranks_[side]);
  }
  // Rank 0 pulls the token, and has the bytes that it should have and no more.
  void Pull(int32_t pull, PullRequest request, int64_t sequence) {
    request.sequence = sequence;
    WireMessage token;
    token.kind = WireMessage::Kind::kToken;
    token.edge = request.edge;
    token.sequence = sequence;
    nets_[1]->Send(0, token);
    ranks_[0].WaitMessage(++tokens_);
    std::fill_n(ranks_[0].target(), request.bytes + 1, std::byte{9});
    nets_[0]->Pull(1, request, pull, ranks_[0].target());
    ASSERT_TRUE(ranks_[0].WaitEnded(++pulls_));
    std::vector<std::byte> expected(request.bytes);
    Gather(request, ranks_[1].slot(), expected.data());
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), ranks_[0].target()));
    ASSERT_EQ(ranks_[0].target()[request.bytes], std::byte{9});
  }
  // Until it goes by RDMA, which is known a moment after both are open.
  int64_t PullUntilRead(int32_t pull, const PullRequest& request) {
    const int64_t before = nets_[0]->counts().rdma;
    int64_t sequence = 0;
    while (nets_[0]->counts().rdma == before && sequence < 100 && !HasFatalFailure()) {
      Pull(pull, request, sequence++);
    }
    EXPECT_GT(nets_[0]->counts().rdma, before);
    return sequence;
  }
  void TearDown() override {
    for (auto& net : nets_) {
      if (net != nullptr) net->Close();
    }
    std::thread other([this] { nets_[1].reset(); });
    nets_[0].reset();
    other.join();
  }

  uint32_t most_posted_ = VerbsOptions().most_posted;
  std::vector<std::string> devices_;
  std::array<std::unique_ptr<EventLoop>, 2> loops_;
  std::array<Rank, 2> ranks_;
  std::array<std::unique_ptr<TcpNet>, 2> nets_;
  int64_t pulls_ = 0;
  size_t tokens_ = 0;
};

// The first pull of an edge comes over TCP and those after it by RDMA: both bring the same bytes.
TEST_F(VerbsNetTest, ReadsBringWhatTcpBrings) {
  Both();
  int32_t pull = 0;
  for (const int64_t elements : {4097, 5000, 30000, 500000, 2500000}) {
    SCOPED_TRACE(elements);
    PullRequest request = Request({{64, {elements}, {1}}});
    request.edge.source = pull;
    PullUntilRead(pull++, request);
  }
  // Rows with gaps, of several pieces, of bytes that are no multiple of anything; too many of them.
  for (const auto& [rows, width] :
       {std::pair<int64_t, int64_t>{4, 5001}, {63, 400}, {64, 300}, {1000, 33}}) {
    SCOPED_TRACE(absl::StrCat(rows, " x ", width));
    PullRequest request = Request({{8, {rows, width}, {2017, 1}}});
    request.edge.source = pull;
    if (rows <= 64) {
      PullUntilRead(pull++, request);
      continue;
    }
    const int64_t before = nets_[0]->counts().rdma;
    for (int64_t sequence = 0; sequence < 3; ++sequence) Pull(pull, request, sequence);
    EXPECT_EQ(nets_[0]->counts().rdma, before);
    ++pull;
  }
}

// Each has more parts than the queue takes at once.
TEST_F(VerbsNetTest, ReadsWaitForRoomInTheQueue) {
  most_posted_ = 8;
  Both();
  constexpr int32_t kPulls = 20;
  PullRequest request = Request({{0, {60, 100}, {1000, 1}}});
  for (int32_t pull = 0; pull < kPulls; ++pull) {
    request.edge.source = pull;
    PullUntilRead(pull, request);
  }
  const int64_t before = nets_[0]->counts().rdma;
  std::vector<std::byte> expected(request.bytes);
  Gather(request, ranks_[1].slot(), expected.data());
  for (int32_t pull = 0; pull < kPulls; ++pull) {
    WireMessage token;
    token.kind = WireMessage::Kind::kToken;
    token.edge = request.edge;
    token.edge.source = pull;
    token.sequence = 200;
    nets_[1]->Send(0, token);
    ranks_[0].WaitMessage(++tokens_);
  }
  std::fill_n(ranks_[0].target(), kPulls * request.bytes, std::byte{9});
  request.sequence = 200;
  for (int32_t pull = 0; pull < kPulls; ++pull) {
    request.edge.source = pull;
    nets_[0]->Pull(1, request, pull, ranks_[0].target() + pull * request.bytes);
  }
  ASSERT_TRUE(ranks_[0].WaitEnded(pulls_ + kPulls));
  EXPECT_EQ(nets_[0]->counts().rdma, before + kPulls);
  for (int32_t pull = 0; pull < kPulls; ++pull) {
    EXPECT_TRUE(
        std::equal(expected.begin(), expected.end(), ranks_[0].target() + pull * request.bytes))
        << pull;
  }
}

TEST_F(VerbsNetTest, WhatIsNotRegisteredComesOverTcp) {
  ranks_[1].registered_ = false;
  Both();
  const PullRequest request = Request({{64, {30000}, {1}}});
  for (int64_t sequence = 0; sequence < 5; ++sequence) Pull(0, request, sequence);
  EXPECT_EQ(nets_[0]->counts().rdma, 0);
}

TEST_F(VerbsNetTest, APeerThatGoesIsLost) {
  Both();
  PullRequest request = Request({{64, {2000000}, {1}}});
  request.sequence = PullUntilRead(0, request);
  WireMessage token;
  token.kind = WireMessage::Kind::kToken;
  token.edge = request.edge;
  token.sequence = request.sequence;
  nets_[1]->Send(0, token);
  ranks_[0].WaitMessage(++tokens_);
  nets_[0]->Pull(1, request, 0, ranks_[0].target());
  nets_[1]->Close();
  std::thread other([this] { nets_[1].reset(); });
  const WireMessage left = ranks_[0].WaitMessage(++tokens_);
  EXPECT_EQ(left.kind, WireMessage::Kind::kLeft);
  EXPECT_THAT(left.text, HasSubstr("lost at host1"));
  nets_[0]->Close();
  other.join();
}

// Of a pull that is on its way.
TEST_F(VerbsNetTest, NoByteIsWrittenAfterClose) {
  Both();
  PullRequest request = Request({{64, {2000000}, {1}}});
  request.sequence = PullUntilRead(0, request);
  WireMessage token;
  token.kind = WireMessage::Kind::kToken;
  token.edge = request.edge;
  token.sequence = request.sequence;
  nets_[1]->Send(0, token);
  ranks_[0].WaitMessage(++tokens_);
  nets_[0]->Pull(1, request, 0, ranks_[0].target());
  nets_[0]->Close();
  std::fill_n(ranks_[0].target(), request.bytes, std::byte{9});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(std::count(ranks_[0].target(), ranks_[0].target() + request.bytes, std::byte{9}),
            request.bytes);
}

TEST_F(VerbsNetTest, WhenTheCableIsCutBytesComeOverTcp) {
  Both();
  const PullRequest request = Request({{64, {300000}, {1}}});
  int64_t sequence = PullUntilRead(0, request);
  if (!Command("SLUICE_RDMA_CUT")) GTEST_SKIP() << "nothing says how to cut the cable";
  const int64_t before = nets_[0]->counts().rdma;
  const auto begun = Clock::now();
  Pull(0, request, sequence++);
  const std::chrono::duration<double> seconds = Clock::now() - begun;
  std::cout << "a read over a cable that is cut came over TCP after " << seconds.count() << " s\n";
  EXPECT_TRUE(Command("SLUICE_RDMA_MEND"));
  Pull(0, request, sequence++);
  EXPECT_EQ(nets_[0]->counts().rdma, before);
}

// A queue pair by itself.
class VerbsQueueTest : public VerbsNetTest, public VerbsQueue::Owner {
 protected:
  void SetUp() override {
    VerbsNetTest::SetUp();
    if (IsSkipped()) return;
    for (int side = 0; side < 2; ++side) {
      auto device = VerbsDevice::Open(loops_[side].get(), 1, Options(side));
      ASSERT_TRUE(device.ok()) << device.status();
      opened_[side] = *std::move(device);
      auto queue = VerbsQueue::Make(opened_[side].get(), "the other", this);
      ASSERT_TRUE(queue.ok()) << queue.status();
      queues_[side] = *std::move(queue);
      ASSERT_TRUE(opened_[side]->Register(ranks_[side].memory()).ok());
      loops_[side]->PostAndWait([&] { ASSERT_TRUE(opened_[side]->Start().ok()); });
    }
  }
  void Connect(const std::vector<VerbsRegion>& regions) {
    ASSERT_TRUE(queues_[1]->Connect(queues_[0]->Introduction().verbs, {}));
    ASSERT_TRUE(queues_[0]->Connect(queues_[1]->Introduction().verbs, regions));
  }
  // Of bytes of the other one's memory.
  bool Read(int32_t read, uint64_t offset, uint64_t bytes, std::byte* to) {
    PullRequest request = Request({{0, {static_cast<int64_t>(bytes)}, {1}}});
    request.element_bytes = 1;
    request.bytes = static_cast<int64_t>(bytes);
    return queues_[0]->Read(read, request, {0, offset, bytes}, to);
  }
  void OnReadEnded(int32_t read, const absl::Status& status) override {
    std::lock_guard<std::mutex> lock(mutex_);
    ended_.emplace_back(read, status);
    changed_.notify_all();
  }
  absl::Status WaitEnded(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, kLimit, [&] { return ended_.size() >= count; })) {
      return absl::DeadlineExceededError("it hangs");
    }
    return ended_[count - 1].second;
  }
  void TearDown() override {
    for (int side = 0; side < 2; ++side) {
      if (opened_[side] == nullptr) continue;
      loops_[side]->PostAndWait([&] {
        queues_[side]->Close();
        opened_[side]->Close();
      });
    }
    queues_ = {};
    opened_ = {};
  }
  std::array<std::unique_ptr<VerbsDevice>, 2> opened_;
  std::array<std::unique_ptr<VerbsQueue>, 2> queues_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<int32_t, absl::Status>> ended_;
};

TEST_F(VerbsQueueTest, AWrongKeyIsRefusedByTheOtherDevice) {
  std::vector<VerbsRegion> regions = opened_[1]->regions();
  regions[0].key ^= 0x5a00;
  Connect(regions);
  std::fill_n(ranks_[0].target(), 100000, std::byte{9});
  ASSERT_TRUE(Read(3, 0, 100000, ranks_[0].target()));
  const absl::Status status = WaitEnded(1);
  EXPECT_THAT(status.message(), HasSubstr("remote access error"));
  EXPECT_EQ(std::count(ranks_[0].target(), ranks_[0].target() + 100000, std::byte{9}), 100000);
  EXPECT_FALSE(Read(3, 0, 100000, ranks_[0].target()));
}

// The other end says more of its memory than is registered.
TEST_F(VerbsQueueTest, BytesBehindARegionAreRefusedByTheOtherDevice) {
  std::vector<VerbsRegion> regions = opened_[1]->regions();
  regions[0].bytes += 1 << 20;
  Connect(regions);
  ASSERT_TRUE(Read(3, kSlotBytes + kTargetBytes - 100, 200, ranks_[0].target()));
  EXPECT_THAT(WaitEnded(1).message(), HasSubstr("remote access error"));
}

TEST_F(VerbsQueueTest, WhatLiesInNoRegionIsNotBegun) {
  Connect(opened_[1]->regions());
  const uint64_t all = kSlotBytes + kTargetBytes;
  std::byte* const to = ranks_[0].target();
  EXPECT_FALSE(Read(0, 0, all + 1, to));
  EXPECT_FALSE(Read(0, all, 1, to));
  EXPECT_FALSE(Read(0, ~uint64_t{0}, 1, to));
  PullRequest request = Request({{0, {25}, {1}}});
  EXPECT_FALSE(queues_[0]->Read(0, request, {1, 0, 100}, to));  // there is one region
  EXPECT_FALSE(queues_[0]->Read(0, request, {-1, 0, 100}, to));
  EXPECT_FALSE(queues_[0]->Read(0, request, {0, 0, 99}, to));  // a slot without the last byte
  EXPECT_FALSE(queues_[0]->Read(0, request, {0, 0, ~uint64_t{0}}, to));
  std::vector<std::byte> own(100);
  EXPECT_FALSE(queues_[0]->Read(0, request, {0, 0, 100}, own.data()));
  request.pieces = {{4, {5, 4}, {10, 1}}, {2, {20}, {1}}};
  request.bytes = 160;
  ASSERT_TRUE(queues_[0]->Read(0, request, {0, 5, 300}, to));
  EXPECT_TRUE(WaitEnded(1).ok());
  std::vector<std::byte> expected(160);
  Gather(request, ranks_[1].slot().subspan(5, 300), expected.data());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), to));
}

TEST_F(VerbsQueueTest, AllThatAreOnTheirWayFailWithTheFirst) {
  Connect(opened_[1]->regions());
  if (!Command("SLUICE_RDMA_CUT")) GTEST_SKIP() << "nothing says how to cut the cable";
  for (int32_t read = 0; read < 300; ++read) {
    EXPECT_TRUE(Read(read, 0, 1000, ranks_[0].target()));
  }
  const absl::Status last = WaitEnded(300);
  EXPECT_TRUE(Command("SLUICE_RDMA_MEND"));
  EXPECT_THAT(last.message(), HasSubstr("retry counter exceeded"));
  for (const auto& [read, status] : ended_) EXPECT_EQ(status, last) << read;
}

TEST_F(VerbsQueueTest, ADeviceThatIsNotThereIsNamed) {
  VerbsOptions options;
  options.device = "none7";
  EXPECT_THAT(VerbsDevice::Open(loops_[0].get(), 1, options).status().message(),
              HasSubstr("no RDMA device \"none7\": this host has " + devices_.front()));
  options.device = devices_.front() + ":9";
  EXPECT_THAT(VerbsDevice::Open(loops_[0].get(), 1, options).status().message(),
              HasSubstr(devices_.front() + ", port 9"));
  options.device = devices_.front() + ":x";
  EXPECT_TRUE(absl::IsInvalidArgument(VerbsDevice::Open(loops_[0].get(), 1, options).status()));
}

// Both ends' measurement, the second one with this device.
std::array<absl::StatusOr<std::optional<double>>, 2> MeasureBoth(const VerbsOptions& first,
                                                                 const VerbsOptions& second) {
  auto [here, there] = Connected();
  Connection near(std::move(here)), far(std::move(there));
  const Deadline deadline = Clock::now() + kLimit;
  std::array<absl::StatusOr<std::optional<double>>, 2> rates;
  std::thread other([&] { rates[1] = MeasureReads(&far, second, /*asks=*/false, deadline); });
  rates[0] = MeasureReads(&near, first, /*asks=*/true, deadline);
  other.join();
  return rates;
}

TEST_F(VerbsNetTest, ReadsAreMeasuredBeforeThereIsANet) {
  const auto rates = MeasureBoth(Options(0), Options(1));
  for (const auto& rate : rates) ASSERT_EQ(rate.status(), absl::OkStatus());
  ASSERT_TRUE(rates[0]->has_value());
  EXPECT_GT(**rates[0], 1e5);
  EXPECT_LT(**rates[0], 1e12);
  EXPECT_EQ(*rates[1], 0.0);
  std::cout << "RDMA reads are measured at " << **rates[0] / 1e6 << " MB/s\n";
}

TEST_F(VerbsNetTest, NeitherEndMeasuresWhereOneHasNoDevice) {
  VerbsOptions none;
  none.device = "no_such_device";
  for (const auto& rate : MeasureBoth(Options(0), none)) {
    ASSERT_EQ(rate.status(), absl::OkStatus());
    EXPECT_FALSE(rate->has_value());
  }
}

TEST_F(VerbsNetTest, NeitherEndMeasuresOverACableThatIsCut) {
  if (!Command("SLUICE_RDMA_CUT")) GTEST_SKIP() << "nothing says how to cut the cable";
  const auto rates = MeasureBoth(Options(0), Options(1));
  EXPECT_TRUE(Command("SLUICE_RDMA_MEND"));
  for (const auto& rate : rates) {
    ASSERT_EQ(rate.status(), absl::OkStatus());
    EXPECT_FALSE(rate->has_value());
  }
}

}  // namespace
}  // namespace sluice
