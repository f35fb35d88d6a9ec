// Ranks of which one dies while they meet, at each message of it in turn: the other one ends soon
// and says whom it misses.

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/testing/trainer_process.h"
#include "framework/wire/socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Between rank 1 and rank 0: passes on what they say.
class Passage {
 public:
  Passage() : listener_(*Listen({"127.0.0.1", 0})) {}
  std::string address() const { return EndpointText(*LocalEndpoint(listener_.number())); }

  // Kills a process when so many messages have been passed on, and passes on none more. False: an
  // end is over before, or nothing has come for long.
  bool KillAt(int messages, pid_t victim, const Endpoint& first) {
    while (true) {
      std::vector<pollfd> waited = {{listener_.number(), POLLIN, 0}};
      for (const auto& [one, other] : pairs_) {
        waited.push_back({one.number(), POLLIN, 0});
        waited.push_back({other.number(), POLLIN, 0});
      }
      if (poll(waited.data(), waited.size(), /*timeout=*/20000) <= 0) return false;
      for (size_t n = 1; n < waited.size(); ++n) {
        if (waited[n].revents == 0) continue;
        const auto& [one, other] = pairs_[(n - 1) / 2];
        std::byte bytes[1 << 16];
        const ssize_t got = recv(waited[n].fd, bytes, sizeof(bytes), 0);
        if (got <= 0) return false;
        if (messages-- == 0) {
          kill(victim, SIGKILL);
          pairs_.clear();
          return true;
        }
        const int to = n % 2 == 1 ? other.number() : one.number();
        if (!WriteAll(to, {bytes, static_cast<size_t>(got)}, Soon()).ok()) return false;
      }
      if (waited[0].revents == 0) continue;
      Descriptor one(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
      absl::StatusOr<Descriptor> other = Connect(first, Soon());
      if (!one.open() || !other.ok()) return false;
      pairs_.emplace_back(std::move(one), *std::move(other));
    }
  }

 private:
  static Deadline Soon() { return Clock::now() + std::chrono::seconds(20); }

  Descriptor listener_;
  std::vector<std::pair<Descriptor, Descriptor>> pairs_;
};

class MeetingTest : public TrainerProcessTest {
 protected:
  // Seconds that the ranks have to come; others than rank 0 have two more, in which rank 0 says who
  // is missing, and then all end at once.
  static constexpr int kLimit = 2, kLonger = 2, kEnd = 1;
  // Of the two connections each has four messages; then rank 0 says two things to all.
  static constexpr int kMessages = 10;

  MeetingTest() : TrainerProcessTest("models/gpt/train") {}

  void SetUp() override {
    TrainerProcessTest::SetUp();
    fs::copy(fs::current_path() / "models/gpt/testdata/fixed.txt", folder() + "/text.txt");
  }

  void ExpectTheOtherEnds(int victim, int messages) {
    SCOPED_TRACE(absl::StrCat("rank ", victim, " at message ", messages));
    Passage passage;
    const std::string first = FreeAddress();
    const std::vector<pid_t> ranks = StartRanks(
        2,
        {"--preset=tiny", "--layers=1", "--hidden=16", "--heads=2", "--sequence_length=16",
         "--mesh=data=2", "--data=text.txt", "--out=run", "--steps=1000000", "--eval_every=0",
         "--sample_length=0", absl::StrCat("--rendezvous_limit=", kLimit)},
        {{"--rendezvous=" + first}, {"--rendezvous=" + passage.address()}});
    ASSERT_TRUE(passage.KillAt(messages, ranks[victim], *ParseEndpoint(first)));
    const auto begin = Clock::now();
    const int other = 1 - victim;
    const EndedProcess ended = Wait(ranks[other], absl::StrCat(other));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(kLimit + kLonger + kEnd));
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.error,
                testing::ContainsRegex(absl::StrCat("train: .*(missing: |rank |ranks )", victim)));
    EXPECT_EQ(Wait(ranks[victim], absl::StrCat(victim)).code, -SIGKILL);
    fs::remove_all(folder() + "/run");
  }
};

TEST_F(MeetingTest, EndsWhereAnyMessageOfTheFirstConnectionIsTheLast) {
  for (const int messages : {0, 1, 2, 3}) ExpectTheOtherEnds(1, messages);
}

TEST_F(MeetingTest, EndsWhereOneDiesLater) {
  for (const int messages : {6, 8, 9}) ExpectTheOtherEnds(1, messages);
  ExpectTheOtherEnds(0, 9);
}

TEST_F(MeetingTest, EndsWhereEitherDiesAtEveryMessage) {
  for (const int victim : {0, 1}) {
    for (int messages = 0; messages < kMessages; ++messages) ExpectTheOtherEnds(victim, messages);
  }
}

}  // namespace
}  // namespace sluice
