#include "framework/cluster/rendezvous.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Met = std::vector<absl::StatusOr<std::unique_ptr<Rendezvous>>>;

// Ranks of one job, each on a thread of its own.
class RendezvousTest : public ::testing::Test {
 protected:
  RendezvousTest() {
    listener_ = *Listen({"127.0.0.1", 0});
    address_ = EndpointText(*LocalEndpoint(listener_.number()));
  }

  RendezvousOptions Options(int32_t rank, int32_t ranks) {
    RendezvousOptions options;
    options.rank = rank;
    options.ranks = ranks;
    options.address = address_;
    if (rank == 0) options.listener = dup(listener_.number());
    options.secret = "a secret of thirty-two bytes....";
    options.build = "0123456789abcdef";
    options.channels = 2;
    options.limit = std::chrono::milliseconds(10000);
    return options;
  }

  // `change` may be empty. Ranks in `absent` never come.
  Met Meet(int32_t ranks, const std::function<void(RendezvousOptions*)>& change,
           const std::vector<int32_t>& absent = {}) {
    Met met(ranks);
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (std::count(absent.begin(), absent.end(), rank) > 0) continue;
      threads.emplace_back([&, rank] {
        RendezvousOptions options = Options(rank, ranks);
        if (change) change(&options);
        met[rank] = Rendezvous::Meet(options);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return met;
  }

  Descriptor listener_;
  std::string address_;
};

TEST_F(RendezvousTest, AllAreConnectedWithAllOnEachChannel) {
  constexpr int32_t kRanks = 5;
  Met met = Meet(kRanks, {});
  std::vector<std::vector<std::vector<Connection>>> connections;
  for (auto& each : met) {
    ASSERT_TRUE(each.ok()) << each.status();
    connections.push_back((*each)->TakeConnections());
  }
  const auto deadline = EventLoop::Clock::now() + std::chrono::seconds(5);
  for (int32_t a = 0; a < kRanks; ++a) {
    for (int32_t b = 0; b < kRanks; ++b) {
      if (a == b) continue;
      for (int channel = 0; channel < 2; ++channel) {
        const std::byte said{static_cast<uint8_t>(16 * a + 2 * b + channel)};
        std::byte heard{0};
        ASSERT_TRUE(connections[a][b][channel].Write({&said, 1}, deadline).ok());
        ASSERT_TRUE(connections[b][a][channel].Read({&heard, 1}, deadline).ok());
        EXPECT_EQ(heard, said);
      }
      EXPECT_THAT((*met[a])->names()[b], HasSubstr("127.0.0.1:"));
    }
  }
}

TEST_F(RendezvousTest, ASealedJobIsConnectedWithSealsAlone) {
  Met met = Meet(3, [](RendezvousOptions* options) { options->seal = true; });
  std::vector<std::vector<std::vector<Connection>>> connections;
  for (auto& each : met) {
    ASSERT_TRUE(each.ok()) << each.status();
    connections.push_back((*each)->TakeConnections());
  }
  const auto deadline = EventLoop::Clock::now() + std::chrono::seconds(5);
  for (int32_t a = 0; a < 3; ++a) {
    for (int32_t b = 0; b < 3; ++b) {
      for (int channel = 0; a != b && channel < 2; ++channel) {
        EXPECT_TRUE(connections[a][b][channel].sealed());
        const std::byte said{static_cast<uint8_t>(16 * a + 2 * b + channel)};
        std::byte heard{0};
        ASSERT_TRUE(connections[a][b][channel].Write({&said, 1}, deadline).ok());
        ASSERT_TRUE(connections[b][a][channel].Read({&heard, 1}, deadline).ok());
        EXPECT_EQ(heard, said);
      }
    }
  }
}

TEST_F(RendezvousTest, RanksThatDoNotAgreeOnTheSealAreRefused) {
  for (const bool of_first : {false, true}) {
    const Met met = Meet(2, [of_first](RendezvousOptions* options) {
      options->limit = std::chrono::milliseconds(300);
      options->seal = options->rank == 0 ? of_first : !of_first;
    });
    EXPECT_TRUE(absl::IsFailedPrecondition(met[1].status())) << met[1].status();
    EXPECT_THAT(met[1].status().message(),
                HasSubstr(of_first ? "rank 1 of 2 is refused: expected it with --seal, as rank 0 is"
                                   : "expected it without --seal, as rank 0 is"));
    EXPECT_THAT(met[0].status().message(), HasSubstr("missing: 1"));
  }
}

TEST_F(RendezvousTest, WithoutASecretNothingIsSealed) {
  RendezvousOptions options = Options(0, 2);
  options.secret = "";
  options.seal = true;
  const auto met = Rendezvous::Meet(options);
  EXPECT_TRUE(absl::IsInvalidArgument(met.status())) << met.status();
  EXPECT_THAT(met.status().message(), HasSubstr("--seal: expected a secret"));
}

TEST_F(RendezvousTest, WhoIsMissingIsNamedEverywhere) {
  const Met met =
      Meet(5, [](RendezvousOptions* options) { options->limit = std::chrono::milliseconds(300); },
           {2, 4});
  for (const int32_t rank : {0, 1, 3}) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(met[rank].status())) << met[rank].status();
    EXPECT_THAT(met[rank].status().message(), HasSubstr("missing: 2, 4"));
  }
}

TEST_F(RendezvousTest, WithoutRankZeroTheTimeEnds) {
  const Met met = Meet(2,
                       [this](RendezvousOptions* options) {
                         options->limit =
                             std::chrono::milliseconds(-1900);  // others get two seconds more
                         listener_ = Descriptor();
                       },
                       {0});
  EXPECT_TRUE(absl::IsDeadlineExceeded(met[1].status()));
  EXPECT_THAT(met[1].status().message(), HasSubstr(address_));
}

// Rank 0 stands still: its socket takes connections, and nobody answers there.
TEST_F(RendezvousTest, WaitingForRankZeroCanBeStopped) {
  const auto begin = EventLoop::Clock::now();
  const Met met = Meet(2,
                       [begin](RendezvousOptions* options) {
                         options->stop = [begin] {
                           return EventLoop::Clock::now() - begin > std::chrono::milliseconds(200);
                         };
                       },
                       {0});
  EXPECT_TRUE(absl::IsCancelled(met[1].status())) << met[1].status();
  EXPECT_LT(EventLoop::Clock::now() - begin, std::chrono::seconds(2));
}

TEST_F(RendezvousTest, WhoDoesNotKnowTheSecretDoesNotComeIn) {
  const Met met = Meet(3, [](RendezvousOptions* options) {
    options->limit = std::chrono::milliseconds(300);
    if (options->rank == 2) options->secret = "another";
  });
  EXPECT_TRUE(absl::IsPermissionDenied(met[2].status())) << met[2].status();
  EXPECT_THAT(met[0].status().message(), HasSubstr("missing: 2"));
}

TEST_F(RendezvousTest, AnotherProgramIsRefused) {
  const Met met = Meet(3, [](RendezvousOptions* options) {
    options->limit = std::chrono::milliseconds(300);
    if (options->rank == 1) options->build = "feedfeedfeedfeed";
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(met[1].status()));
  EXPECT_THAT(met[1].status().message(),
              HasSubstr("expected build 0123456789abcdef as on rank 0, got feedfeedfeedfeed"));
}

// A job that runs does not notice who comes and is not wanted.
TEST_F(RendezvousTest, LateAndWrongOnesAreToldWhy) {
  Met met = Meet(2, {});
  ASSERT_TRUE(met[0].ok() && met[1].ok());
  const auto refusal = [&](int32_t rank, int32_t ranks, int32_t restarts) {
    RendezvousOptions options = Options(rank, ranks);
    options.restarts = restarts;
    return std::string(Rendezvous::Meet(options).status().message());
  };
  EXPECT_THAT(refusal(1, 2, 0), HasSubstr("is that rank"));
  EXPECT_THAT(refusal(1, 3, 0), HasSubstr("this job has 2 ranks"));
  EXPECT_THAT(refusal(1, 2, 1), HasSubstr("expected start 0 of the job, got 1"));
  auto connections = (*met[0])->TakeConnections();
  auto others = (*met[1])->TakeConnections();
  const std::byte said{7};
  std::byte heard{0};
  const auto deadline = EventLoop::Clock::now() + std::chrono::seconds(5);
  ASSERT_TRUE(connections[1][0].Write({&said, 1}, deadline).ok());
  ASSERT_TRUE(others[0][0].Read({&heard, 1}, deadline).ok());
  EXPECT_EQ(heard, said);
}

TEST_F(RendezvousTest, WithoutASecretNobodyElsewhereIsReached) {
  RendezvousOptions options = Options(0, 2);
  options.secret = "";
  close(std::exchange(options.listener, -1));
  options.address = "0.0.0.0:0";
  const auto met = Rendezvous::Meet(options);
  EXPECT_TRUE(absl::IsInvalidArgument(met.status())) << met.status();
  EXPECT_THAT(met.status().message(), HasSubstr("--secret_file"));
}

TEST_F(RendezvousTest, CanBeStopped) {
  RendezvousOptions options = Options(0, 2);
  options.stop = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(Rendezvous::Meet(options).status()));
}

TEST_F(RendezvousTest, OneRankMeetsNobody) {
  RendezvousOptions options = Options(0, 1);
  EXPECT_TRUE(Rendezvous::Meet(options).ok());
}

}  // namespace
}  // namespace sluice
