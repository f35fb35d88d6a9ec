// Ranks whose connections are sealed, and somebody who stands between them: who reads it all, and
// who changes records, loses, repeats, swaps and cuts them.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/comm/pieces.h"
#include "framework/comm/tcp_net_testing.h"
#include "framework/wire/seal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;
// What becomes of the n-th record, head and tag included; false: nothing goes on behind it.
using Tamper = std::function<bool(size_t number, Bytes record, std::vector<Bytes>* sent)>;

Deadline Later() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

bool Say(int socket, const Bytes& bytes) { return WriteAll(socket, bytes, Later()).ok(); }

// One direction of one connection, until an end of it goes.
class Between {
 public:
  Between(int from, int to, Tamper tamper)
      : thread_([this, from, to, tamper = std::move(tamper)] {
          tamper ? PassRecords(from, to, tamper) : PassBytes(from, to);
          shutdown(to, SHUT_WR);
          shutdown(from, SHUT_RD);
        }) {}
  ~Between() { thread_.join(); }

  // All that was seen; once it is over.
  const Bytes& Seen() {
    while (!over_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return seen_;
  }

 private:
  void PassBytes(int from, int to) {
    Bytes some(size_t{64} << 10);
    while (true) {
      const ssize_t got = recv(from, some.data(), some.size(), 0);
      if (got < 0 && errno == EAGAIN) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        continue;
      }
      if (got <= 0) break;
      seen_.insert(seen_.end(), some.begin(), some.begin() + got);
      if (!Say(to, Bytes(some.begin(), some.begin() + got))) break;
    }
    over_ = true;
  }

  static void PassRecords(int from, int to, const Tamper& tamper) {
    for (size_t number = 0;; ++number) {
      Bytes record(kRecordHeadBytes);
      if (!ReadAll(from, absl::MakeSpan(record), Later()).ok()) return;
      const auto bytes = Opener::ReadHead(record);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      record.resize(*bytes + kRecordExtraBytes);
      const auto rest = absl::MakeSpan(record).subspan(kRecordHeadBytes);
      if (!ReadAll(from, rest, Later()).ok()) return;
      std::vector<Bytes> sent;
      const bool goes_on = tamper(number, std::move(record), &sent);
      for (const Bytes& each : sent) {
        if (!Say(to, each)) return;
      }
      if (!goes_on) return;
    }
  }

  Bytes seen_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

class SealedNetTest : public TcpNetTest {
 protected:
  SealedNetTest() { seals_ = true; }

  // What rank 1 says to rank 0 over that channel is told to `tamper`.
  void Start(int tampered = -1, const Tamper& tamper = {}) {
    for (int channel = 0; channel < kTcpChannels; ++channel) {
      for (int side = 0; side < 2; ++side) {
        std::tie(sockets_[side][channel], middle_[side][channel]) = Connected();
        if (!few_bytes_at_once_) continue;
        const int least = 1;  // the kernel makes it some kilobytes
        const int socket = sockets_[side][channel].number();
        setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
      }
      const int first = middle_[0][channel].number(), second = middle_[1][channel].number();
      to_first_[channel] =
          std::make_unique<Between>(second, first, channel == tampered ? tamper : Tamper());
      to_second_[channel] = std::make_unique<Between>(first, second, Tamper());
    }
    TcpNetOptions options;
    options.read_memory = false;
    Both(options);
  }
  void TearDown() override {
    TcpNetTest::TearDown();
    for (auto& side : middle_) {
      for (Descriptor& socket : side) shutdown(socket.number(), SHUT_RDWR);
    }
    for (auto* each : {&to_first_, &to_second_}) {
      for (auto& between : *each) between.reset();
    }
  }

  // What rank 0 says that has become of rank 1, while it pulls bytes of that many records.
  std::string ReasonOfPull(const Tamper& tamper, Bytes* to) {
    Start(kBytes, tamper);
    to->assign(kPulled, std::byte{0});
    nets_[0]->Pull(1, Request(0, kPulled), 0, to->data());
    const WireMessage lost = ranks_[0].Message(0);
    EXPECT_EQ(lost.kind, WireMessage::Kind::kLeft);
    return lost.text;
  }
  // Whether what was pulled stands there up to that byte; behind the record of that byte nothing
  // that rank 1 has not said may.
  bool IsRightUpTo(const Bytes& to, size_t end) const {
    const auto slot = ranks_[1].slot().begin() + 64;
    for (size_t i = 0; i < to.size(); ++i) {
      if (to[i] != slot[i] && (i < end || to[i] != std::byte{0})) return false;
    }
    return true;
  }

  bool few_bytes_at_once_ = false;
  Bytes kept_;  // by who stands between
  enum Channel { kMessages, kBytes };
  static constexpr size_t kPulled = size_t{3} << 20, kRecords = 49;
  std::array<std::array<Descriptor, kTcpChannels>, 2> middle_;
  std::array<std::unique_ptr<Between>, kTcpChannels> to_first_, to_second_;
};

TEST_F(SealedNetTest, BytesOfAnySizeCome) {
  Start();
  int64_t sequence = 0;
  for (const int64_t bytes : {int64_t{0}, int64_t{4}, int64_t{1000}, int64_t{100000},
                              int64_t{3} << 20, int64_t{4000000}}) {
    Bytes to(bytes + 1, std::byte{9});
    nets_[0]->Pull(1, Request(sequence, bytes), static_cast<int32_t>(sequence), to.data());
    ranks_[0].Ended(++sequence);
    EXPECT_TRUE(std::equal(to.begin(), to.end() - 1, ranks_[1].slot().begin() + 64)) << bytes;
    EXPECT_EQ(to.back(), std::byte{9});
  }
  EXPECT_TRUE(ranks_[0].errors().empty());
}

// The kernel takes a record by and by, and the last one as well.
TEST_F(SealedNetTest, ARecordThatTheKernelDoesNotTakeIsSentLater) {
  few_bytes_at_once_ = true;
  Start();
  for (int64_t sequence = 0; sequence < 3; ++sequence) {
    Bytes to(60000);
    nets_[0]->Pull(1, Request(sequence, 60000), 0, to.data());
    ranks_[0].Ended(sequence + 1);
    EXPECT_TRUE(std::equal(to.begin(), to.end(), ranks_[1].slot().begin() + 64));
  }
  WireMessage left;
  left.kind = WireMessage::Kind::kLeft;
  left.text = std::string(1 << 20, 'x');
  nets_[1]->Send(0, left);
  nets_[1]->Close();  // what was said last arrives
  EXPECT_EQ(ranks_[0].Message(0).text, left.text);
}

TEST_F(SealedNetTest, BothPullAtOnce) {
  Start();
  std::array<Bytes, 2> to;
  for (int64_t sequence = 0; sequence < 20; ++sequence) {
    for (int side = 0; side < 2; ++side) {
      to[side].assign(kPulled, std::byte{0});
      PullRequest request = Request(sequence, kPulled);
      nets_[side]->Send(1 - side, Token(request.edge, sequence));
      nets_[side]->Pull(1 - side, request, 0, to[side].data());
    }
    for (int side = 0; side < 2; ++side) {
      ranks_[side].Ended(sequence + 1);
      ASSERT_TRUE(std::equal(to[side].begin(), to[side].end(), ranks_[1].slot().begin() + 64));
    }
  }
}

TEST_F(SealedNetTest, WhoListensSeesNothingOfWhatIsSaid) {
  for (const bool seals : {false, true}) {
    TearDown();
    SetUp();
    seals_ = seals;
    Start();
    Bytes to(100000);
    nets_[0]->Pull(1, Request(0, 100000), 0, to.data());
    ranks_[0].Ended(seals ? 2 : 1);
    const std::string text = "a text that nobody else is to read";
    WireMessage message;
    message.kind = WireMessage::Kind::kHello;
    message.text = text;
    nets_[1]->Send(0, message);
    EXPECT_EQ(ranks_[0].Message(0).text, text);
    ranks_[0].Forget();
    nets_[0]->Close();
    std::thread other([this] { nets_[1].reset(); });
    nets_[0].reset();
    other.join();
    const auto stands = [](const Bytes& seen, const void* what, size_t size) {
      const auto* const begin = static_cast<const std::byte*>(what);
      return std::search(seen.begin(), seen.end(), begin, begin + size) != seen.end();
    };
    EXPECT_EQ(stands(to_first_[kMessages]->Seen(), text.data(), 8), !seals);
    EXPECT_GT(to_first_[kBytes]->Seen().size(), to.size());
    for (size_t i = 0; i + 16 < to.size(); i += 5000) {
      EXPECT_EQ(stands(to_first_[kBytes]->Seen(), to.data() + i, 16), !seals) << i;
    }
  }
}

TEST_F(SealedNetTest, AChangedBitEndsTheConnection) {
  for (const size_t bad : {size_t{0}, size_t{1}, kRecords / 2, kRecords - 1}) {
    for (const bool in_tag : {false, true}) {
      TearDown();
      ranks_[0].Forget();
      Bytes to;
      const std::string reason = ReasonOfPull(
          [bad, in_tag](size_t number, Bytes record, std::vector<Bytes>* sent) {
            if (number == bad)
              record[in_tag ? record.size() - 1 : kRecordHeadBytes] ^= std::byte{1};
            sent->push_back(std::move(record));
            return true;
          },
          &to);
      EXPECT_THAT(reason,
                  HasSubstr(absl::StrCat("rank 1 has left: lost at host1 by rank 0, record ", bad,
                                         " of its sealed connection does not open")));
      const size_t before = bad * kMostRecordBytes;
      EXPECT_TRUE(IsRightUpTo(to, before - std::min<size_t>(before, kBytesFrameBytes)));
      EXPECT_TRUE(std::all_of(to.begin() + before, to.end(),
                              [](std::byte byte) { return byte == std::byte{0}; }));
    }
  }
  EXPECT_TRUE(ranks_[0].Ended(0).empty());
}

TEST_F(SealedNetTest, ARecordThatIsLostRepeatedOrSwappedEndsTheConnection) {
  constexpr size_t kBad = 5;
  const std::vector<std::pair<Tamper, size_t>> cases = {
      {[](size_t number, Bytes record, std::vector<Bytes>* sent) {
         if (number != kBad) sent->push_back(std::move(record));
         return true;
       },
       kBad},
      {[](size_t number, Bytes record, std::vector<Bytes>* sent) {
         if (number == kBad) sent->push_back(record);
         sent->push_back(std::move(record));
         return true;
       },
       kBad + 1},
      {[this](size_t number, Bytes record, std::vector<Bytes>* sent) {
         if (number == kBad) {
           kept_ = std::move(record);
           return true;
         }
         sent->push_back(std::move(record));
         if (number == kBad + 1) sent->push_back(kept_);
         return true;
       },
       kBad}};
  for (const auto& [tamper, bad] : cases) {
    TearDown();
    ranks_[0].Forget();
    Bytes to;
    EXPECT_THAT(ReasonOfPull(tamper, &to),
                HasSubstr(absl::StrCat("record ", bad, " of its sealed connection does not open")));
    EXPECT_TRUE(IsRightUpTo(to, bad * kMostRecordBytes - kBytesFrameBytes));
    EXPECT_TRUE(std::all_of(to.begin() + bad * kMostRecordBytes, to.end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
  }
  EXPECT_TRUE(ranks_[0].Ended(0).empty());
}

TEST_F(SealedNetTest, AConnectionThatIsCutIsNotOneThatEnds) {
  for (const bool within : {true, false}) {
    TearDown();
    ranks_[0].Forget();
    Bytes to;
    const std::string reason = ReasonOfPull(
        [within](size_t number, Bytes record, std::vector<Bytes>* sent) {
          if (number == 3) record.resize(within ? record.size() - 1 : 0);
          sent->push_back(std::move(record));
          return number < 3;
        },
        &to);
    EXPECT_THAT(reason, HasSubstr(within ? "its sealed connection was closed within a record"
                                         : "its connection was closed"));
  }
  EXPECT_TRUE(ranks_[0].Ended(0).empty());
}

TEST_F(SealedNetTest, ALengthThatIsChangedEndsTheConnection) {
  Bytes to;
  EXPECT_THAT(ReasonOfPull(
                  [](size_t number, Bytes record, std::vector<Bytes>* sent) {
                    if (number == 2) record[3] ^= std::byte{0x80};
                    sent->push_back(std::move(record));
                    return true;
                  },
                  &to),
              HasSubstr("expected a sealed record of 1 to 65536 bytes, got 2147549184"));
}

// Whatever is done to messages, those before it come, in order, and none behind it.
TEST_F(SealedNetTest, NoMessageComesBehindABadRecord) {
  Start(kMessages, [](size_t number, Bytes record, std::vector<Bytes>* sent) {
    if (number == 6) record[7] ^= std::byte{16};
    sent->push_back(std::move(record));
    return true;
  });
  for (int i = 0; i < 20; ++i) nets_[1]->Send(0, Token({}, i));
  int i = 0;
  for (; ranks_[0].Message(i).kind == WireMessage::Kind::kToken; ++i) {
    EXPECT_EQ(ranks_[0].Message(i).sequence, i);
  }
  EXPECT_LE(i, 6);
  EXPECT_GE(i, 4);  // there are beats, too
  EXPECT_THAT(ranks_[0].Message(i).text, HasSubstr("record 6 of its sealed connection"));
}

}  // namespace
}  // namespace sluice
