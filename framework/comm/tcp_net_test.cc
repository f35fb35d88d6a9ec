#include "framework/comm/tcp_net.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/comm/frames.h"
#include "framework/comm/pieces.h"
#include "framework/device/memory.h"
#include "framework/wire/connected_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

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
    return slot();
  }
  void PullEnded(int32_t pull, int64_t sequence, const absl::Status& status) override {
    std::lock_guard<std::mutex> lock(mutex_);
    ended_.emplace_back(pull, sequence);
    if (!status.ok()) errors_.push_back(std::string(status.message()));
    changed_.notify_all();
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
    peers[1 - side].sockets = std::move(sockets_[side]);
    peers[1 - side].name = absl::StrCat("host", 1 - side);
    auto net = TcpNet::Make(loops_[side].get(), side, std::move(peers), options);
    EXPECT_TRUE(net.ok()) << net.status();
    return *std::move(net);
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
  std::array<Rank, 2> ranks_;
  std::array<std::unique_ptr<TcpNet>, 2> nets_;
};

WireMessage Token(const Edge& edge, int64_t sequence) {
  WireMessage message;
  message.kind = WireMessage::Kind::kToken;
  message.edge = edge;
  message.sequence = sequence;
  return message;
}

PullRequest Request(int64_t sequence, int64_t bytes) {
  PullRequest request;
  request.edge = {0, 0, 1, 1, 2};
  request.sequence = sequence;
  request.element_bytes = 4;
  request.bytes = bytes;
  request.pieces = {{64, {bytes / 4}, {1}}};
  return request;
}

TEST_F(TcpNetTest, MessagesArriveWhole) {
  Both();
  WireMessage message;
  message.kind = WireMessage::Kind::kHello;
  message.text = std::string(3 << 20, 'x');  // longer than any buffer
  message.edges = "reads 0 1 abc\n";
  message.number = -5;
  message.code = 3;
  nets_[0]->Send(1, message);
  nets_[0]->Send(1, Token({1, 2, 3, 4, 5}, 77));
  const WireMessage got = ranks_[1].Message(0);
  EXPECT_EQ(got.kind, message.kind);
  EXPECT_EQ(got.text, message.text);
  EXPECT_EQ(got.edges, message.edges);
  EXPECT_EQ(got.number, -5);
  EXPECT_EQ(got.code, 3);
  EXPECT_EQ(ranks_[1].Message(1).edge, (Edge{1, 2, 3, 4, 5}));
  EXPECT_EQ(ranks_[1].Message(1).sequence, 77);
}

// What is read at once ends anywhere, also within the head of a frame.
TEST_F(TcpNetTest, FramesAreCutAnywhere) {
  constexpr size_t kReadAtOnce = size_t{64} << 10;
  for (const size_t last : {1, 2, 3, 4, 5, 30}) {
    SCOPED_TRACE(last);
    TearDown();
    ranks_[0].Forget();  // that the last one was lost
    SetUp();
    Frame frame;
    frame.type = FrameType::kMessage;
    std::string bytes;
    WriteFrame(frame, &bytes);
    frame.message.text = std::string(kReadAtOnce - last - bytes.size(), 'x');
    bytes.clear();
    WriteFrame(frame, &bytes);
    ASSERT_EQ(bytes.size(), kReadAtOnce - last);
    frame.message = Token({}, 5);
    WriteFrame(frame, &bytes);
    ASSERT_EQ(send(sockets_[1][0].number(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    nets_[0] = Make(0);
    nets_[0]->Open(&ranks_[0]);
    EXPECT_EQ(ranks_[0].Message(0).code, 0);
    EXPECT_EQ(ranks_[0].Message(1).sequence, 5);
  }
}

TEST_F(TcpNetTest, WhatIsSaidBeforeOpenIsKept) {
  nets_[0] = Make(0);
  nets_[1] = Make(1);
  nets_[0]->Open(&ranks_[0]);
  nets_[0]->Send(1, Token({}, 1));
  nets_[1]->Open(&ranks_[1]);
  EXPECT_EQ(ranks_[1].Message(0).sequence, 1);
}

TEST_F(TcpNetTest, PullsBringBytesOfAnySize) {
  Both();
  int64_t sequence = 0;
  for (const int64_t bytes :
       {int64_t{0}, int64_t{4}, int64_t{1000}, int64_t{100000}, int64_t{3} << 20}) {
    std::vector<std::byte> to(bytes + 1, std::byte{9});
    const auto pull = static_cast<int32_t>(sequence);
    nets_[0]->Pull(1, Request(sequence, bytes), pull, to.data());
    EXPECT_EQ(ranks_[0].Ended(sequence + 1).back(), std::pair(pull, sequence));
    EXPECT_TRUE(std::equal(to.begin(), to.end() - 1, ranks_[1].slot().begin() + 64)) << bytes;
    EXPECT_EQ(to.back(), std::byte{9});
    ++sequence;
  }
  EXPECT_TRUE(ranks_[0].errors().empty());
}

// Many short runs are gathered, few long ones go as they lie.
TEST_F(TcpNetTest, PiecesAreOneBehindAnother) {
  Both();
  for (const int64_t width : {2, 3000}) {
    PullRequest request = Request(0, 0);
    request.pieces = {{8, {50, width}, {5000, 1}}, {0, {2, 3}, {1, 2}}, {4, {0, 7}, {1, 1}}};
    request.bytes = 4 * (50 * width + 6);
    std::vector<std::byte> to(request.bytes), expected;
    const auto add = [&](int64_t element) {
      const std::byte* at = ranks_[1].slot().data() + 4 * element;
      expected.insert(expected.end(), at, at + 4);
    };
    for (int64_t row = 0; row < 50; ++row) {
      for (int64_t i = 0; i < width; ++i) add(2 + row * 5000 + i);
    }
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t i = 0; i < 3; ++i) add(row + 2 * i);
    }
    nets_[0]->Pull(1, request, static_cast<int32_t>(width), to.data());
    ranks_[0].Ended(width == 2 ? 1 : 2);
    EXPECT_EQ(to, expected) << width;
  }
}

TEST_F(TcpNetTest, FewBytesRideAlongOnceTheyWereAskedFor) {
  Both();
  std::vector<std::byte> to(400);
  for (int64_t sequence = 0; sequence < 4; ++sequence) {
    nets_[1]->Send(0, Token(Request(0, 400).edge, sequence));
    ranks_[0].Message(sequence);
    std::fill(to.begin(), to.end(), std::byte{0});
    nets_[0]->Pull(1, Request(sequence, 400), 3, to.data());
    EXPECT_EQ(ranks_[0].Ended(sequence + 1).back(), std::pair(3, sequence));
    EXPECT_TRUE(std::equal(to.begin(), to.end(), ranks_[1].slot().begin() + 64));
  }
  EXPECT_EQ(nets_[0]->counts().along, 3);
  EXPECT_EQ(nets_[0]->counts().pulls, 4);
}

// Of a process whose memory can be read a token says where the bytes are, whatever their number.
TEST_F(TcpNetTest, ManyBytesAreReadWhereTheyLie) {
  Both();
  constexpr int64_t kBytes = int64_t{3} << 20;
  PullRequest request = Request(0, kBytes);
  request.pieces = {{64, {4, kBytes / 16}, {250000, 1}}};
  std::vector<std::byte> to(kBytes), expected(kBytes);
  Gather(request, ranks_[1].slot(), expected.data());
  int64_t sequence = 0;
  // That it can be read is known a moment after both are open.
  for (; nets_[0]->counts().read < 3 && sequence < 1000; ++sequence) {
    request.sequence = sequence;
    nets_[1]->Send(0, Token(request.edge, sequence));
    ranks_[0].Message(sequence);
    std::fill(to.begin(), to.end(), std::byte{0});
    nets_[0]->Pull(1, request, 3, to.data());
    ranks_[0].Ended(sequence + 1);
    ASSERT_TRUE(to == expected) << sequence;
  }
  EXPECT_EQ(nets_[0]->counts().read, 3);
  EXPECT_LT(sequence, 100);
}

// What lies in a row needs no copy at all.
TEST_F(TcpNetTest, ManyBytesAreFoundInPlace) {
  Both();
  constexpr int64_t kBytes = int64_t{1} << 20;
  std::vector<std::byte> to(kBytes);
  int64_t found = 0;
  for (int64_t sequence = 0; found < 3 && sequence < 1000; ++sequence) {
    const PullRequest request = Request(sequence, kBytes);
    nets_[1]->Send(0, Token(request.edge, sequence));
    ranks_[0].Message(sequence);
    const std::byte* const there = nets_[0]->FindInPlace(1, request, 3);
    if (there == nullptr) {  // it was not asked for before, or it is not known yet that it can be
      nets_[0]->Pull(1, request, 3, to.data());
      ranks_[0].Ended(sequence + 1 - found);
      continue;
    }
    ++found;
    EXPECT_NE(there, ranks_[1].slot().data() + 64);  // it is another mapping of it
    EXPECT_TRUE(std::equal(there, there + kBytes, ranks_[1].slot().begin() + 64));
    EXPECT_EQ(nets_[0]->FindInPlace(1, request, 3), nullptr);  // once a token
  }
  EXPECT_EQ(found, 3);
  EXPECT_EQ(nets_[0]->counts().read, 3);
  EXPECT_EQ(nets_[0]->FindInPlace(1, Request(5000, kBytes), 3), nullptr);
}

TEST_F(TcpNetTest, MemoryIsNotReadWhereThatIsNotWanted) {
  Both({.read_memory = false});
  std::vector<std::byte> to(100000);
  for (int64_t sequence = 0; sequence < 5; ++sequence) {
    nets_[1]->Send(0, Token(Request(0, 100000).edge, sequence));
    ranks_[0].Message(sequence);
    nets_[0]->Pull(1, Request(sequence, 100000), 3, to.data());
    ranks_[0].Ended(sequence + 1);
  }
  EXPECT_EQ(nets_[0]->counts().read, 0);
}

// The same text whether the library is missing, there is no device, or none of that name.
TEST_F(TcpNetTest, RdmaWithoutADeviceIsAnError) {
  std::vector<TcpPeer> peers(2);
  peers[1].sockets = std::move(sockets_[0]);
  TcpNetOptions options;
  options.verbs.emplace().device = "no_such_device";
  const auto net = TcpNet::Make(loops_[0].get(), 0, std::move(peers), options);
  EXPECT_TRUE(absl::IsNotFound(net.status())) << net.status();
  EXPECT_THAT(net.status().message(), HasSubstr("no RDMA device"));
}

// Who has no device does not answer a rank that has one, and bytes go on over TCP.
TEST_F(TcpNetTest, AnRdmaAddressIsNotAnsweredWithoutADevice) {
  nets_[0] = Make(0, {.read_memory = false});
  nets_[0]->Open(&ranks_[0]);
  Frame frame;
  frame.type = FrameType::kVerbs;
  std::string bytes;
  WriteFrame(frame, &bytes);
  frame = {};
  frame.type = FrameType::kMessage;
  frame.message = Token({}, 4);
  WriteFrame(frame, &bytes);
  ASSERT_GT(send(sockets_[1][0].number(), bytes.data(), bytes.size(), 0), 0);
  EXPECT_EQ(ranks_[0].Message(0).sequence, 4);
  std::string beat;
  WriteFrame({}, &beat);
  std::string said(1000, '\0');
  said.resize(recv(sockets_[1][0].number(), said.data(), said.size(), 0));
  EXPECT_EQ(said, beat);
}

TEST_F(TcpNetTest, APullThatIsRefusedSaysWhy) {
  Both();
  PullRequest request = Request(5, 8);
  request.edge.source = 13;
  std::byte to[8] = {};
  nets_[0]->Pull(1, request, 2, to);
  ranks_[0].Ended(1);
  EXPECT_EQ(ranks_[0].errors(), std::vector<std::string>{"no such register"});
}

// A refusal has a text, and so is longer than what announces bytes.
TEST_F(TcpNetTest, APullAfterOneThatWasRefusedBringsItsBytes) {
  Both();
  int32_t pull = 0;
  for (const char* why : {"", "no", "no such register"}) {
    ranks_[1].refusal_ = why;
    PullRequest refused = Request(0, 8);
    refused.edge.source = 13;
    std::byte none[8] = {};
    nets_[0]->Pull(1, refused, pull++, none);
    ranks_[0].Ended(pull);
    for (const int64_t bytes : {4, 100000}) {
      std::vector<std::byte> to(bytes);
      nets_[0]->Pull(1, Request(0, bytes), pull++, to.data());
      ranks_[0].Ended(pull);
      EXPECT_TRUE(std::equal(to.begin(), to.end(), ranks_[1].slot().begin() + 64))
          << bytes << " bytes after \"" << why << "\"";
    }
  }
  EXPECT_EQ(ranks_[0].errors(), (std::vector<std::string>{"", "no", "no such register"}));
}

TEST_F(TcpNetTest, ARankThatIsGoneIsToldOf) {
  Both();
  nets_[1]->Close();
  std::thread other([this] { nets_[1].reset(); });
  const WireMessage got = ranks_[0].Message(0);
  EXPECT_EQ(got.kind, WireMessage::Kind::kLeft);
  EXPECT_EQ(got.code, static_cast<int32_t>(absl::StatusCode::kUnavailable));
  EXPECT_THAT(got.text,
              HasSubstr("rank 1 has left: lost at host1 by rank 0, its connection was closed"));
  nets_[0]->Close();
  other.join();
}

TEST_F(TcpNetTest, ARankThatHasSaidThatItLeavesIsNotLost) {
  Both();
  WireMessage left;
  left.kind = WireMessage::Kind::kLeft;
  nets_[1]->Send(0, left);
  nets_[1]->Close();
  std::thread other([this] { nets_[1].reset(); });
  EXPECT_EQ(ranks_[0].Message(0).code, 0);
  nets_[0]->Close();
  other.join();
  nets_[0].reset();
  EXPECT_EQ(ranks_[0].Message(0).code, 0);
}

// Both connections end at once, and the end of the one for bytes is often seen first.
TEST_F(TcpNetTest, WhatIsSaidLastIsHeardFirst) {
  Both();
  // The loop of this rank sees all at once what happens meanwhile.
  std::thread busy([this] {
    loops_[0]->PostAndWait([] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  shutdown(bytes_of_second_, SHUT_WR);
  WireMessage left;
  left.kind = WireMessage::Kind::kLeft;
  nets_[1]->Send(0, left);
  busy.join();
  EXPECT_EQ(ranks_[0].Message(0).code, 0);
}

// What a rank says last arrives, though it never opened its net and others have said much to it.
TEST_F(TcpNetTest, ARefusalArrivesFromWhoNeverOpened) {
  nets_[0] = Make(0);
  nets_[1] = Make(1);
  nets_[0]->Open(&ranks_[0]);
  for (int i = 0; i < 100; ++i) nets_[0]->Send(1, Token({}, i));
  WireMessage left;
  left.kind = WireMessage::Kind::kLeft;
  left.code = 9;
  left.text = "cannot";
  nets_[1]->Send(0, left);
  std::thread other([this] { nets_[1].reset(); });
  EXPECT_EQ(ranks_[0].Message(0).text, "cannot");
  nets_[0]->Close();
  other.join();
}

TEST_F(TcpNetTest, ASilentRankIsGivenUp) {
  TcpNetOptions options;
  options.beat = std::chrono::milliseconds(20);
  options.silence = std::chrono::milliseconds(60);
  options.silence_limit = std::chrono::milliseconds(300);
  nets_[0] = Make(0, options);
  nets_[0]->Open(&ranks_[0]);
  // Heard once, and no more. What it would read is left to the kernel.
  std::string beat;
  WriteFrame({}, &beat);
  ASSERT_EQ(send(sockets_[1][0].number(), beat.data(), beat.size(), 0),
            static_cast<ssize_t>(beat.size()));
  EXPECT_THAT(ranks_[0].Message(0).text, HasSubstr("it said nothing for"));
}

// As one that was stopped when it had met the others, and was not ready yet.
TEST_F(TcpNetTest, ARankThatWasNeverHeardIsGivenUp) {
  TcpNetOptions options;
  options.beat = std::chrono::milliseconds(20);
  options.silence_limit = std::chrono::milliseconds(300);
  nets_[0] = Make(0, options);
  nets_[0]->Open(&ranks_[0]);
  EXPECT_THAT(ranks_[0].Message(0).text, HasSubstr("it said nothing for"));
}

// It reads data and plans, and others wait for it longer than the limit.
TEST_F(TcpNetTest, ARankThatIsNotReadyYetLives) {
  TcpNetOptions options;
  options.beat = std::chrono::milliseconds(20);
  options.silence_limit = std::chrono::milliseconds(1000);
  nets_[1] = Make(1, options);
  nets_[0] = Make(0, options);
  nets_[0]->Open(&ranks_[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  nets_[1]->Send(0, Token({}, 7));
  EXPECT_EQ(ranks_[0].Message(0).sequence, 7);
}

// A peer that lies: each ends the connection with a reason, and nothing else happens.
class LyingPeerTest : public TcpNetTest {
 protected:
  std::string Told(int channel, const Frame& frame) {
    std::string bytes;
    WriteFrame(frame, &bytes);
    return ToldBytes(channel, bytes);
  }
  std::string ToldBytes(int channel, const std::string& bytes) {
    nets_[0] = Make(0);
    nets_[0]->Open(&ranks_[0]);
    std::vector<std::byte> to(16);
    nets_[0]->Pull(1, Request(0, 16), 0, to.data());
    EXPECT_EQ(send(sockets_[1][channel].number(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    const std::string text = ranks_[0].Message(0).text;
    EXPECT_EQ(to, std::vector<std::byte>(16));
    return text;
  }
};

TEST_F(LyingPeerTest, UnknownType) {
  EXPECT_THAT(ToldBytes(0, std::string("\x01\0\0\0\x77", 5)), HasSubstr("unknown type 119"));
}

TEST_F(LyingPeerTest, ATooLongFrame) {
  EXPECT_THAT(ToldBytes(0, std::string("\xff\xff\xff\xff\x01", 5)), HasSubstr("4294967295"));
}

TEST_F(LyingPeerTest, BytesOnTheConnectionOfMessages) {
  Frame frame;
  frame.type = FrameType::kBytes;
  frame.pull = 0;
  EXPECT_THAT(Told(0, frame), HasSubstr("other connection"));
}

TEST_F(LyingPeerTest, BytesThatNobodyWaitsFor) {
  Frame frame;
  frame.type = FrameType::kBytes;
  frame.pull = 4;
  frame.bytes = 16;
  EXPECT_THAT(Told(1, frame), HasSubstr("nobody waits for"));
}

TEST_F(LyingPeerTest, AnotherNumberOfBytes) {
  Frame frame;
  frame.type = FrameType::kBytes;
  frame.pull = 0;
  frame.bytes = int64_t{1} << 40;
  EXPECT_THAT(Told(1, frame), HasSubstr("expected 16 bytes, got 1099511627776"));
}

TEST_F(LyingPeerTest, BytesAlongThatWereNotAskedFor) {
  Frame frame;
  frame.type = FrameType::kMessage;
  frame.message = Token({}, 0);
  frame.pull = 0;
  const std::vector<std::byte> along(15);
  frame.along = absl::MakeSpan(along);
  EXPECT_THAT(Told(0, frame), HasSubstr("15 bytes of pull 0, which has asked for 16"));
}

// A token whose slot lies there, of a memory of so many bytes that can be read.
std::string TokenAt(const Memory& memory, const MemoryPlace& place) {
  std::string bytes;
  Frame frame;
  frame.type = FrameType::kMark;
  frame.mark = memory.mark();
  WriteFrame(frame, &bytes);
  frame.type = FrameType::kMessage;
  frame.message = Token({}, 0);
  frame.pull = 0;
  frame.place = place;
  WriteFrame(frame, &bytes);
  return bytes;
}

TEST_F(LyingPeerTest, ASlotOutsideOfItsMemory) {
  const Memory memory = *Memory::AllocateShared(1000);
  EXPECT_THAT(ToldBytes(0, TokenAt(memory, {0, 990, 16})),
              HasSubstr("at 990 of a memory that has 1000"));
}

TEST_F(LyingPeerTest, ASlotWhoseEndOverflows) {
  const Memory memory = *Memory::AllocateShared(1000);
  EXPECT_THAT(ToldBytes(0, TokenAt(memory, {0, ~uint64_t{0} - 7, 16})),
              HasSubstr("of a memory that has 1000"));
}

TEST_F(LyingPeerTest, ASlotInAMemoryThatIsNotThere) {
  const Memory memory = *Memory::AllocateShared(1000);
  EXPECT_THAT(ToldBytes(0, TokenAt(memory, {1, 0, 16})),
              HasSubstr("memory 1, which is not read here"));
}

TEST_F(LyingPeerTest, ASlotOfLessThanWasAskedFor) {
  const Memory memory = *Memory::AllocateShared(1000);
  EXPECT_THAT(ToldBytes(0, TokenAt(memory, {0, 0, 15})),
              HasSubstr("15 bytes of pull 0, which has asked for 16"));
}

// A slot that has not all of the pieces is no reason to end: the bytes are asked for.
TEST_F(TcpNetTest, WhatCannotBeReadIsAskedFor) {
  nets_[0] = Make(0);
  nets_[0]->Open(&ranks_[0]);
  std::vector<std::byte> to(16);
  nets_[0]->Pull(1, Request(0, 16), 0, to.data());
  const Memory memory = *Memory::AllocateShared(1000);
  std::string bytes = TokenAt(memory, {0, 900, 16});  // and the piece begins at byte 64
  ASSERT_GT(send(sockets_[1][0].number(), bytes.data(), bytes.size(), 0), 0);
  ranks_[0].Message(0);
  EXPECT_EQ(nets_[0]->FindInPlace(1, Request(0, 16), 0), nullptr);
  nets_[0]->Pull(1, Request(0, 16), 0, to.data());
  Frame answer;
  answer.type = FrameType::kBytes;
  answer.pull = 0;
  answer.sequence = 0;
  answer.bytes = 16;
  bytes.clear();
  WriteFrame(answer, &bytes);
  bytes += std::string(16, 'y');
  ASSERT_GT(send(sockets_[1][1].number(), bytes.data(), bytes.size(), 0), 0);
  EXPECT_EQ(ranks_[0].Ended(1).back(), std::pair(0, int64_t{0}));
  EXPECT_EQ(to, std::vector<std::byte>(16, std::byte{'y'}));
}

TEST_F(LyingPeerTest, APullAgainOfWhatWasNeverDescribed) {
  Frame frame;
  frame.type = FrameType::kPullAgain;
  frame.pull = 3;
  EXPECT_THAT(Told(0, frame), HasSubstr("never described"));
}

}  // namespace
}  // namespace sluice
