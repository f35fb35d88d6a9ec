// Peers that say what is not so, or what cannot be.
#include <sys/socket.h>

#include <array>
#include <bit>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/frames.h"
#include "framework/comm/host_mail.h"
#include "framework/comm/tcp_net_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

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

// By mail it writes what it likes, too.
class LyingMailTest : public LyingPeerTest {
 protected:
  std::string ToldByMail(const Letter& letter) {
    nets_[0] = Make(0);
    Inbox* const inbox = nets_[0]->OpenInbox(0, [] {});
    if (inbox == nullptr) return "no mail here";
    nets_[0]->Open(&ranks_[0]);
    std::vector<std::byte> to(16);
    nets_[0]->Pull(1, Request(0, 16), 0, to.data());
    const std::unique_ptr<HostMail> mail = *HostMail::Make(1);
    Write(letter, 1, mail.get());
    std::string bytes;
    WriteFrame(MailRoute(mail.get(), 0).Introduction(), &bytes);
    EXPECT_GT(send(sockets_[1][0].number(), bytes.data(), bytes.size(), 0), 0);
    while (!ranks_[0].Has(1, std::chrono::seconds(0))) inbox->Take();
    EXPECT_EQ(to, std::vector<std::byte>(16));
    // What may be said is not looked at any more, either.
    Letter pulled;
    pulled.kind = static_cast<uint8_t>(WireMessage::Kind::kPulled);
    Write(pulled, 2, mail.get());
    inbox->Take();
    EXPECT_FALSE(ranks_[0].Has(2, std::chrono::seconds(0)));
    return ranks_[0].Message(0).text;
  }
  // As the letter of that number, to inbox 0 of the only other rank.
  static void Write(const Letter& letter, uint32_t number, HostMail* mail) {
    HostMail::Cell& cell = mail->part(0).letters[0][number - 1];
    const auto words = std::bit_cast<std::array<uint64_t, 7>>(letter);
    for (size_t n = 0; n < words.size(); ++n) cell.letter[n] = words[n];
    cell.number = number;
  }
  void SetUp() override {
    LyingPeerTest::SetUp();
    if (!Doorbell::HearsOthers()) GTEST_SKIP() << "this kernel has no futex_waitv";
  }
};

TEST_F(LyingMailTest, AMessageThatNoLetterSays) {
  Letter letter;
  letter.kind = static_cast<uint8_t>(WireMessage::Kind::kLeft);
  EXPECT_THAT(ToldByMail(letter), HasSubstr("a letter of kind 9"));
}

TEST_F(LyingMailTest, ASlotInAMemoryThatIsNotThere) {
  Letter letter;
  letter.kind = static_cast<uint8_t>(WireMessage::Kind::kToken);
  letter.pull = 0;
  letter.memory = 3;
  letter.bytes = 16;
  EXPECT_THAT(ToldByMail(letter), HasSubstr("memory 3, which is not read here"));
}

TEST_F(LyingPeerTest, MailThatIsToldTwice) {
  const std::unique_ptr<HostMail> mail = *HostMail::Make(1);
  std::string bytes;
  for (int n = 0; n < 2; ++n) WriteFrame(MailRoute(mail.get(), 0).Introduction(), &bytes);
  EXPECT_THAT(ToldBytes(0, bytes), HasSubstr("mail of a rank is told once"));
}

TEST_F(LyingPeerTest, APullAgainOfWhatWasNeverDescribed) {
  Frame frame;
  frame.type = FrameType::kPullAgain;
  frame.pull = 3;
  EXPECT_THAT(Told(0, frame), HasSubstr("never described"));
}

}  // namespace
}  // namespace sluice
