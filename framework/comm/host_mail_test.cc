// Mail of two ranks, each with memory of its own that the other maps, within one process.
#include "framework/comm/host_mail.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "framework/base/queue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

Letter Numbered(int64_t sequence) {
  Letter letter;
  letter.kind = static_cast<uint8_t>(WireMessage::Kind::kToken);
  letter.worker = 3;
  letter.pull = 7;
  letter.edge = {1, 2, 3, 4, 5};
  letter.memory = 2;
  letter.sequence = sequence;
  letter.offset = uint64_t{1} << 40;
  letter.bytes = 300;
  return letter;
}

class HostMailTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!Doorbell::HearsOthers()) GTEST_SKIP() << "this kernel has no futex_waitv";
    for (int side = 0; side < 2; ++side) {
      mail_[side] = *HostMail::Make(2);
      // Not the first part, as one of several others would have it.
      routes_[side] = std::make_unique<MailRoute>(mail_[side].get(), 1);
    }
  }
  absl::Status Map(int side) {
    const Frame other = routes_[1 - side]->Introduction();
    return routes_[side]->Map(other.mark, other.offset);
  }
  void Open() {
    for (int side = 0; side < 2; ++side) {
      ASSERT_EQ(Map(side), absl::OkStatus());
      routes_[1 - side]->SetRead();
    }
  }

  std::array<std::unique_ptr<HostMail>, 2> mail_;
  std::array<std::unique_ptr<MailRoute>, 2> routes_;
};

TEST_F(HostMailTest, LettersComeAsTheyWereSentAndToTheirInbox) {
  Open();
  EXPECT_TRUE(routes_[0]->Send(2, Numbered(5)));
  EXPECT_TRUE(routes_[0]->Send(2, Numbered(6)));
  EXPECT_TRUE(routes_[1]->Send(2, Numbered(9)));
  Letter letter;
  EXPECT_FALSE(routes_[1]->Take(1, &letter));
  for (const int64_t sequence : {5, 6}) {
    ASSERT_TRUE(routes_[1]->Take(2, &letter));
    const absl::StatusOr<Frame> frame = FrameOf(letter);
    ASSERT_EQ(frame.status(), absl::OkStatus());
    EXPECT_EQ(frame->message.sequence, sequence);
    EXPECT_EQ(frame->message.edge, (Edge{1, 2, 3, 4, 5}));
    EXPECT_EQ(frame->message.worker, 3);
    EXPECT_EQ(frame->pull, 7);
    EXPECT_EQ(frame->place.memory, 2);
    EXPECT_EQ(frame->place.offset, uint64_t{1} << 40);
    EXPECT_EQ(frame->place.bytes, 300);
  }
  EXPECT_FALSE(routes_[1]->Take(2, &letter));
  ASSERT_TRUE(routes_[0]->Take(2, &letter));
  EXPECT_EQ(letter.sequence, 9);
}

TEST_F(HostMailTest, NothingIsSentBeforeItIsReadNorAfterTheEnd) {
  EXPECT_FALSE(routes_[0]->Send(0, Numbered(1)));
  ASSERT_EQ(Map(0), absl::OkStatus());
  EXPECT_FALSE(routes_[0]->Send(0, Numbered(1)));
  routes_[0]->SetRead();
  EXPECT_TRUE(routes_[0]->Send(0, Numbered(1)));
  for (const int32_t inbox : {-1, CommNet::kInboxes}) {
    EXPECT_FALSE(routes_[0]->Send(inbox, Numbered(1))) << inbox;
  }
  Letter letter;
  EXPECT_FALSE(routes_[1]->Take(0, &letter));  // it has not mapped them yet
  ASSERT_EQ(Map(1), absl::OkStatus());
  EXPECT_TRUE(routes_[1]->Take(0, &letter));
  routes_[0]->Close();
  EXPECT_FALSE(routes_[0]->Send(0, Numbered(2)));
}

TEST_F(HostMailTest, ARingThatIsFullTakesNoMore) {
  Open();
  Letter letter;
  int64_t sent = 0, taken = 0;
  for (int round = 0; round < 3; ++round) {
    while (sent < 1000 && routes_[0]->Send(0, Numbered(sent))) ++sent;
    EXPECT_EQ(sent - taken, HostMail::kCells);
    for (int n = 0; n < 10; ++n) {
      ASSERT_TRUE(routes_[1]->Take(0, &letter));
      EXPECT_EQ(letter.sequence, taken++);
    }
  }
  while (routes_[1]->Take(0, &letter)) {
    EXPECT_EQ(letter.sequence, taken++);
  }
  EXPECT_EQ(taken, sent);
}

// Two ranks that tell each other in turns, and one thread more that rings the bell of the first;
// who waits sleeps at once.
TEST_F(HostMailTest, WhoSleepsIsWokenByLettersAndByItsOwnQueue) {
  Open();
  constexpr int64_t kTurns = 20000;
  std::array<Queue<int>, 2> queues;
  int64_t rung = 0;
  const auto play = [&](int side) {
    const int64_t last = side == 0 ? kTurns - 1 : kTurns;
    int64_t next = side == 0 ? 1 : 0;
    HostInbox inbox(mail_[side].get(), 4, [] {});
    const auto say = [&](int64_t sequence) {
      EXPECT_TRUE(routes_[side]->Send(4, Numbered(sequence)));
      routes_[side]->Wake();
    };
    inbox.Add(routes_[side].get(), [&](const Letter& letter) {
      EXPECT_EQ(letter.sequence, next);
      next += 2;
      if (letter.sequence < kTurns) say(letter.sequence + 1);
    });
    if (side == 0) say(0);
    int item = 0;
    while (true) {
      inbox.Take();
      while (queues[side].Pop(&item)) ++rung;
      if (next > last && (side == 1 || rung == kTurns)) return;
      queues[side].WaitNonEmpty(std::chrono::microseconds(0), std::nullopt, &inbox);
    }
  };
  std::thread rings([&] {
    for (int64_t n = 0; n < kTurns; ++n) queues[0].Push(1);
  });
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  rings.join();
}

TEST_F(HostMailTest, MailThatLiesNowhereIsRefused) {
  const Frame other = routes_[1]->Introduction();
  const uint64_t bytes = HostMail::OffsetOf(2);
  for (const uint64_t offset :
       {uint64_t{0}, other.offset + 1, bytes - sizeof(HostMail::Part) + 64, ~uint64_t{63}}) {
    const absl::Status status = MailRoute(mail_[0].get(), 0).Map(other.mark, offset);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << offset << ": " << status;
  }
  MemoryMark mark = other.mark;
  mark.mark[3] ^= std::byte{1};
  EXPECT_TRUE(absl::IsUnavailable(MailRoute(mail_[0].get(), 0).Map(mark, other.offset)));
  ASSERT_EQ(Map(0), absl::OkStatus());
  EXPECT_THAT(Map(0).message(), HasSubstr("once"));
}

// Whoever writes the ring can write anything: none of it is looked at before it is a letter, and a
// count that lies keeps this rank from sending at most.
TEST_F(HostMailTest, WhatIsNoLetterIsRefused) {
  for (const auto& spoil : std::vector<std::function<void(Letter*)>>{
           [](Letter* letter) { letter->kind = 200; },
           [](Letter* letter) { letter->kind = static_cast<uint8_t>(WireMessage::Kind::kLeft); },
           [](Letter* letter) { letter->failed = 2; }, [](Letter* letter) { letter->memory = -2; },
           [](Letter* letter) { letter->pull = -1; }}) {
    Letter letter = Numbered(1);
    EXPECT_EQ(FrameOf(letter).status(), absl::OkStatus());
    spoil(&letter);
    EXPECT_TRUE(absl::IsInvalidArgument(FrameOf(letter).status()));
  }
  Open();
  for (const uint32_t taken : {1u, 1000u, ~0u - 100}) {
    mail_[1]->part(1).taken[0].value = taken;
    EXPECT_FALSE(routes_[0]->Send(0, Numbered(1))) << taken;
  }
}

}  // namespace
}  // namespace sluice
