#include "framework/comm/tcp_net.h"

#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/comm/frames.h"
#include "framework/comm/pieces.h"
#include "framework/comm/tcp_net_testing.h"
#include "framework/device/memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

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

// More than the kernel keeps for who does not read yet, beside what another thread says. Nothing
// else is said, no beat either, that what is held could go with.
TEST_F(TcpNetTest, MessagesOfOneMomentKeepTheirOrder) {
  TcpNetOptions options;
  options.beat = std::chrono::hours(1);
  nets_[0] = Make(0, options);
  nets_[1] = Make(1, options);
  nets_[0]->Open(&ranks_[0]);
  constexpr int64_t kMoments = 100, kMessages = 100;
  std::thread other([this] {
    for (int64_t n = 0; n < kMoments; ++n) nets_[0]->Send(1, Token({1, 0, 0, 0, 0}, n));
  });
  std::vector<AddressedMessage> messages;
  for (int64_t n = 0; n < kMoments * kMessages; ++n) {
    WireMessage& message = messages.emplace_back(1, Token({}, n)).message;
    message.kind = WireMessage::Kind::kSays;  // tokens have no text
    message.text = std::string(1000, 'x');
    if (messages.size() == kMessages) nets_[0]->SendAll(&messages);
  }
  EXPECT_TRUE(messages.empty());
  other.join();
  nets_[1]->Open(&ranks_[1]);
  const size_t all = kMoments * (kMessages + 1);
  ASSERT_TRUE(ranks_[1].Has(all, std::chrono::seconds(20)));
  int64_t next[2] = {};
  for (size_t n = 0; n < all; ++n) {
    const WireMessage message = ranks_[1].Message(n);
    ASSERT_EQ(message.sequence, next[message.kind == WireMessage::Kind::kSays ? 0 : 1]++);
  }
  EXPECT_EQ(nets_[0]->counts().messages, static_cast<int64_t>(all));
}

TEST_F(TcpNetTest, RanksOfAHostKnowTheirPlaces) {
  nets_[0] = Make(0);
  nets_[1] = Make(1);
  for (const int32_t rank : {0, 1}) {
    EXPECT_EQ(nets_[rank]->ranks_of_host(), 2);
    EXPECT_EQ(nets_[rank]->place_on_host(), rank);
  }
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

// What is asked for before its token was told leaves with it, once. Rank 0 asks as rank 1 tells,
// now before, now behind, now at the same moment; whoever sees the other does it, and never both.
TEST_F(TcpNetTest, WhatIsAskedForAheadComesWithItsToken) {
  constexpr int64_t kBytes = 40000, kTokens = 3000;
  TcpNetOptions options;
  options.read_memory = false;
  Both(options);
  EXPECT_TRUE(nets_[0]->pulls_ahead(1));
  std::vector<std::byte> to(kBytes);
  for (int64_t sequence = 0; sequence < kTokens; ++sequence) {
    ranks_[1].told_ = sequence;
    std::fill(to.begin(), to.end(), std::byte{0});
    std::atomic<bool> go{sequence % 3 != 0};
    std::thread owner([&] {
      while (!go) {
      }
      ranks_[1].told_ = sequence + 1;
      nets_[1]->Send(0, Token(Request(0, kBytes).edge, sequence));
    });
    nets_[0]->Pull(1, Request(sequence, kBytes), 3, to.data());
    if (sequence == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(ranks_[0].ended(), 0U);
    }
    go = true;
    ASSERT_EQ(ranks_[0].Ended(sequence + 1).back(), std::pair(3, sequence));
    owner.join();
    ASSERT_TRUE(std::equal(to.begin(), to.end(), ranks_[1].slot().begin() + 64)) << sequence;
    ASSERT_EQ(ranks_[0].Message(sequence).sequence, sequence);
    ASSERT_EQ(ranks_[0].ended(), static_cast<size_t>(sequence) + 1);
  }
  EXPECT_EQ(nets_[0]->counts().along, 0);
}

// A token of a step that has failed takes no bytes along, whoever wants them. A message behind the
// wish says that it is kept; bytes of one connection that are asked for later come later.
TEST_F(TcpNetTest, WhatIsAskedForAheadOfAFailedTokenDoesNotCome) {
  TcpNetOptions options;
  options.read_memory = false;
  Both(options);
  std::vector<std::byte> wished(40000), other(1000);
  ranks_[1].told_ = 0;
  nets_[0]->Pull(1, Request(0, 40000), 3, wished.data());
  nets_[0]->Send(1, Token({}, 0));
  ranks_[1].Message(0);
  WireMessage failed = Token(Request(0, 40000).edge, 0);
  failed.failed = true;
  ranks_[1].told_ = 1;
  nets_[1]->Send(0, failed);
  EXPECT_TRUE(ranks_[0].Message(0).failed);
  nets_[0]->Pull(1, Request(0, 1000), 4, other.data());
  EXPECT_EQ(ranks_[0].Ended(1).front(), std::pair(4, int64_t{0}));
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

// Once both read each other's, tokens of any size and what is said of them go by mail to the inbox
// that wants to hear of them, and no other way: nobody takes what comes there but the test.
TEST_F(TcpNetTest, TokensGoByMailToWhoWantsToHearOfThem) {
  if (!Doorbell::HearsOthers()) GTEST_SKIP() << "this kernel has no futex_waitv";
  constexpr int32_t kReader = 2, kOwner = 5;
  for (int side = 0; side < 2; ++side) nets_[side] = Make(side);
  Inbox* const reader = nets_[0]->OpenInbox(kReader, [] {});
  Inbox* const owner = nets_[1]->OpenInbox(kOwner, [] {});
  for (int side = 0; side < 2; ++side) {
    const Memory& memory = ranks_[side].memory();
    const auto size = static_cast<size_t>(memory.bytes());
    ASSERT_TRUE(nets_[side]->Offer({{memory.data(), size}, memory.mark()}).ok());
    nets_[side]->Open(&ranks_[side]);
  }
  int64_t sequence = 0, letters = 0;
  for (; letters < 5 && sequence < 1000; ++sequence) {
    for (const int32_t pull : {0, 1}) {
      const int64_t bytes = pull == 0 ? 400 : 3 << 20, count = 2 * sequence + pull;
      PullRequest request = Request(sequence, bytes);
      request.edge.source = pull;
      request.worker = kReader;
      WireMessage token = Token(request.edge, sequence);
      token.worker = kOwner;
      const int64_t before = nets_[1]->counts().letters;
      nets_[1]->Send(0, token);
      const bool by_mail = nets_[1]->counts().letters > before;
      letters += by_mail ? 1 : 0;
      if (by_mail) {
        EXPECT_FALSE(ranks_[0].Has(count + 1, std::chrono::seconds(0)));
      }
      while (!ranks_[0].Has(count + 1, std::chrono::seconds(0))) reader->Take();
      EXPECT_EQ(ranks_[0].Message(count).worker, kOwner);
      EXPECT_EQ(ranks_[0].Message(count).sequence, sequence);
      std::vector<std::byte> to(bytes);
      nets_[0]->Pull(1, request, pull, to.data());
      ranks_[0].Ended(count + 1);
      EXPECT_TRUE(std::equal(to.begin(), to.end(), ranks_[1].slot().begin() + 64));
      WireMessage pulled = token;
      pulled.kind = WireMessage::Kind::kPulled;
      nets_[0]->Send(1, pulled);
      while (!ranks_[1].Has(count + 1, std::chrono::seconds(0))) owner->Take();
      EXPECT_EQ(ranks_[1].Message(count).kind, WireMessage::Kind::kPulled);
    }
  }
  EXPECT_LT(sequence, 100);
  EXPECT_GT(nets_[0]->counts().letters, 0);
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
  for (int channel = 0; channel < kTcpChannels; ++channel) {
    peers[1].connections[channel] = Connection(std::move(sockets_[0][channel]));
  }
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

// The rank that has given it up tells the others, which end at once, whenever they looked last: no
// connection of it ends.
TEST_F(TcpNetTest, ARankThatSaysNothingIsNotWaitedForAtTheEnd) {
  for (const int silent : {0, 200}) {
    SCOPED_TRACE(silent);
    TearDown();
    SetUp();
    TcpNetOptions options;
    options.beat = std::chrono::milliseconds(20);
    options.silence_limit = std::chrono::hours(1);
    nets_[0] = Make(0, options);
    nets_[0]->Open(&ranks_[0]);
    std::this_thread::sleep_for(std::chrono::milliseconds(silent));
    const auto begin = std::chrono::steady_clock::now();
    nets_[0].reset();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
  }
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

}  // namespace
}  // namespace sluice
