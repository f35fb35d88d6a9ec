// What a user sees of ranks beside their results: whom they wait for, and what they did when.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/comm/in_process_net.h"
#include "framework/testing/rank_parity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

constexpr int32_t kRanks = 2;

ParityCase AllAxes() {
  GptLayout layout;
  layout.mesh = "data=2 model=2 pipe=2";
  layout.micro_batches = 2;
  return GptParity(layout);
}

using OnRank = std::function<void(int32_t rank, ParityRun* run)>;

// Runs a function on two ranks at once; a session ends when it returns.
void OnRanks(const std::function<RuntimeOptions(int32_t rank)>& options, const OnRank& on_rank) {
  const auto plans = PlansOfRanks(AllAxes(), AdamWWithClip(), kRanks);
  ASSERT_TRUE(plans.ok()) << plans.status();
  InProcessNet net(kRanks, {});
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      RuntimeOptions own = options(rank);
      own.net = net.endpoint(rank);
      auto run = ParityRun::Start(AllAxes(), AdamWWithClip(), (*plans)[rank], own);
      ASSERT_TRUE(run.ok()) << run.status();
      on_rank(rank, run->get());
      EXPECT_EQ((*run)->session()->Close(), absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Step(ParityRun* run, int64_t step) {
  const auto stepped = run->Step(step, /*batch=*/step);
  EXPECT_TRUE(stepped.ok()) << stepped.status();
}

// Of a rank that waits and of one that holds all up, in the middle of a step or between two.
class RankWaitsTest : public testing::Test {
 protected:
  static constexpr auto kLong = std::chrono::milliseconds(1500);

  // What both ranks log in two steps.
  static std::string Log(const std::function<void(int32_t rank)>& between, bool in_the_step) {
    testing::internal::CaptureStderr();
    const auto options = [](int32_t rank) {
      RuntimeOptions own;
      own.wait_limit = std::chrono::milliseconds(300);
      if (rank == 1) own.tamper = HoldUpOnce;
      return own;
    };
    OnRanks(options, [&](int32_t rank, ParityRun* run) {
      Step(run, 0);
      between(rank);
      if (rank == 1) hold_up_ = in_the_step;
      Step(run, 1);
    });
    return testing::internal::GetCapturedStderr();
  }

 private:
  static inline std::atomic<bool> hold_up_{false};
  static void HoldUpOnce(Message*) {
    if (hold_up_.exchange(false)) std::this_thread::sleep_for(kLong);
  }
};

TEST_F(RankWaitsTest, TheOneThatRunsForLongIsNamed) {
  const std::string log = Log([](int32_t) {}, /*in_the_step=*/true);
  const std::string process = absl::StrCat(", process ", getpid());
  // Whatever ends first in the step is held up, which may be a feed.
  EXPECT_THAT(log, testing::ContainsRegex(absl::StrCat(
                       "(all wait for|input of rank 1 is late:) rank 1 at [^ ]*", process,
                       ", device [0-9]+ [a-z]+,? (which runs|has read) [^ ]+ .*, step 1, "
                       "micro-batch")));
  EXPECT_THAT(
      log, testing::ContainsRegex(absl::StrCat("nothing has moved on rank 0 at [^ ]*", process)));
  EXPECT_THAT(log, testing::ContainsRegex("device [0-9]+ net: [^ ]+ .pull., step 1, .*waits for "
                                          "[^ ]+ of [^ ]+, owed by rank 1"));
  EXPECT_THAT(log, testing::ContainsRegex("goes on after [0-9.]+ s"));
}

TEST_F(RankWaitsTest, TheOneThatDoesSomethingElseIsNamed) {
  for (const int32_t busy : {0, 1}) {
    const std::string log = Log(
        [busy](int32_t rank) {
          if (rank == busy) std::this_thread::sleep_for(2 * kLong);
        },
        /*in_the_step=*/false);
    EXPECT_THAT(log, testing::ContainsRegex(absl::StrCat(
                         "all wait for rank ", busy,
                         " at [^ ]*, process [0-9]+, whose steps are through: it has begun 1 ")));
  }
}

TEST_F(RankWaitsTest, TheOneThatHasNotJoinedIsNamed) {
  testing::internal::CaptureStderr();
  const auto options = [](int32_t rank) {
    RuntimeOptions own;
    own.wait_limit = std::chrono::milliseconds(300);
    if (rank == 1) std::this_thread::sleep_for(kLong);
    return own;
  };
  OnRanks(options, [](int32_t, ParityRun* run) { Step(run, 0); });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("all wait for rank 1, to have read, compiled and mapped what it "
                                 "trains, for 0.3 s"));
}

class RankTraceTest : public testing::Test {
 protected:
  static std::string PathOf(int32_t rank) {
    return absl::StrCat(testing::TempDir(), "/trace.json", rank == 0 ? "" : ".rank1");
  }
  // Three steps of two ranks; `last` comes before they end.
  static void Run(const OnRank& last) {
    for (const int32_t rank : {0, 1}) std::remove(PathOf(rank).c_str());
    const auto options = [](int32_t rank) {
      RuntimeOptions own;
      own.trace = PathOf(rank);
      return own;
    };
    OnRanks(options, [&](int32_t rank, ParityRun* run) {
      for (int64_t step = 0; step < 3; ++step) Step(run, step);
      last(rank, run);
    });
  }
  static nlohmann::json Read(int32_t rank) {
    std::ifstream file(PathOf(rank));
    return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  }
  static int32_t RankOf(const nlohmann::json& event) { return event["pid"].get<int>() / 10000; }
};

TEST_F(RankTraceTest, OneFileHasAllRanksInTheTimeOfTheFirst) {
  Run([](int32_t, ParityRun*) {});
  const nlohmann::json trace = Read(0);
  ASSERT_FALSE(trace.is_discarded());
  EXPECT_TRUE(Read(1).is_discarded());
  const double error = trace["otherData"]["rank 1"]["clock_error_us"];
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 1e5);
  std::map<std::string, nlohmann::json> begins, ends;              // of arrows
  std::map<std::pair<int, int>, std::map<double, double>> tracks;  // by process and thread
  std::map<int32_t, std::vector<nlohmann::json>> pulls, runs;      // by rank
  std::map<int, std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
    if (event["ph"] == "s") begins[event["id"]] = event;
    if (event["ph"] == "f") ends[event["id"]] = event;
    if (event["ph"] != "X") continue;
    std::map<double, double>& track = tracks[{event["pid"], event["tid"]}];
    EXPECT_TRUE(track.emplace(event["ts"], event["dur"]).second);
    if (event["cat"] == "pull") pulls[RankOf(event)].push_back(event);
    if (event["cat"] == "run") runs[RankOf(event)].push_back(event);
  }
  for (const auto& [process, name] : names) {
    EXPECT_THAT(name, testing::StartsWith(absl::StrCat("rank ", process / 10000, " at ")));
  }
  // What stands on one track is one after another. Rank 1 may begin before rank 0's time 0.
  for (const auto& [track, spans] : tracks) {
    double end = -std::numeric_limits<double>::infinity();
    for (const auto& [begin, duration] : spans) {
      EXPECT_GE(begin, end - 0.002) << track.first << " " << track.second;
      end = begin + duration;
    }
  }
  // A pull begins once its token was told, by another rank.
  EXPECT_EQ(ends.size(), pulls[0].size() + pulls[1].size());
  EXPECT_GT(ends.size(), 10u);
  for (const auto& [id, event] : ends) {
    ASSERT_EQ(begins.count(id), 1u) << id;
    EXPECT_NE(RankOf(begins[id]), RankOf(event));
    EXPECT_LE(begins[id]["ts"].get<double>(), event["ts"].get<double>() + error) << id;
  }
  // Bytes come over while something is computed.
  for (const int32_t rank : {0, 1}) {
    int overlaps = 0;
    for (const auto& pull : pulls[rank]) {
      const double begin = pull["ts"], end = begin + pull["dur"].get<double>();
      overlaps += std::any_of(runs[rank].begin(), runs[rank].end(), [&](const auto& run) {
        const double at = run["ts"];
        return at > begin && at < end && run["args"]["op"] != "pull";
      });
    }
    EXPECT_GT(overlaps, 0) << "rank " << rank;
  }
}

TEST_F(RankTraceTest, RanksThatEndWithAnErrorWriteEachItsOwn) {
  Run([](int32_t rank, ParityRun* run) {
    if (rank == 1) run->session()->Fail(absl::InternalError("planted"));
    while (run->session()->status().ok()) std::this_thread::yield();
  });
  for (const int32_t rank : {0, 1}) {
    const nlohmann::json trace = Read(rank);
    ASSERT_FALSE(trace.is_discarded());
    for (const auto& event : trace["traceEvents"]) EXPECT_EQ(RankOf(event), rank);
  }
}

}  // namespace
}  // namespace sluice
