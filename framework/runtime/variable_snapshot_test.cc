#include "framework/runtime/variable_snapshot.h"

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// Variables of two shards and of one: numbers 0 to 2.
plan::Plan Plan() {
  plan::Plan plan;
  for (const int shards : {2, 1}) {
    plan::Variable* const variable = plan.add_variables();
    for (int s = 0; s < shards; ++s) variable->add_shards();
  }
  return plan;
}

TEST(VariableSnapshotTest, AShardIsCopiedOnceBeforeItIsWritten) {
  VariableSnapshot snapshot(Plan());
  std::vector<int> copied;
  snapshot.BeforeWrite({0, 1, 2});
  snapshot.Prepare({{1, 0, [&] { copied.push_back(2); }}, {0, 1, [&] { copied.push_back(1); }}});
  snapshot.BeforeWrite({0, 1, 2});
  snapshot.Finish();
  EXPECT_TRUE(copied.empty()) << "none is begun";
  snapshot.Begin();
  EXPECT_TRUE(copied.empty());
  snapshot.BeforeWrite({0});
  EXPECT_TRUE(copied.empty()) << "it is not in the snapshot";
  snapshot.BeforeWrite({1, 1});
  EXPECT_EQ(copied, std::vector<int>({1}));
  snapshot.Finish();
  EXPECT_EQ(copied, std::vector<int>({1, 2}));
  snapshot.BeforeWrite({1, 2});
  snapshot.Finish();
  EXPECT_EQ(copied, std::vector<int>({1, 2}));
  snapshot.Begin();
  snapshot.BeforeWrite({2});
  snapshot.Finish();
  EXPECT_EQ(copied, std::vector<int>({1, 2, 2, 1})) << "each snapshot anew";
  snapshot.Prepare({{0, 0, [&] { copied.push_back(0); }}});
  snapshot.Begin();
  snapshot.BeforeWrite({0, 1, 2});
  EXPECT_EQ(copied, std::vector<int>({1, 2, 2, 1, 0}));
}

// Whoever comes while a shard is being copied waits for that, and for nothing else.
TEST(VariableSnapshotTest, AWriterWaitsForTheShardThatIsBeingCopied) {
  VariableSnapshot snapshot(Plan());
  std::latch begun(1), go_on(1);
  std::atomic<bool> copied = false, other = false;
  snapshot.Prepare({{0, 0,
                     [&] {
                       begun.count_down();
                       go_on.wait();
                       copied = true;
                     }},
                    {1, 0, [&] { other = true; }}});
  snapshot.Begin();
  std::thread saver([&] { snapshot.Finish(); });
  begun.wait();
  snapshot.BeforeWrite({2});
  EXPECT_TRUE(other);
  EXPECT_FALSE(copied);
  std::thread writer([&] {
    snapshot.BeforeWrite({0});
    EXPECT_TRUE(copied);
  });
  go_on.count_down();
  writer.join();
  saver.join();
}

// Shards are written all the while; a copy that was begun late would have something newer.
TEST(VariableSnapshotTest, ManyRounds) {
  plan::Plan plan;
  constexpr int kShards = 64;
  for (int s = 0; s < kShards; ++s) plan.add_variables()->add_shards();
  VariableSnapshot snapshot(plan);
  std::vector<int64_t> values(kShards, 0), copies(kShards);
  std::vector<VariableSnapshot::ShardCopy> prepared;
  for (int s = 0; s < kShards; ++s) {
    prepared.push_back({s, 0, [&, s] { copies[s] = values[s]; }});
  }
  snapshot.Prepare(std::move(prepared));
  for (int64_t round = 0; round < 500; ++round) {
    snapshot.Begin();
    std::vector<std::thread> threads;
    threads.emplace_back([&] { snapshot.Finish(); });
    for (const int worker : {0, 1}) {
      threads.emplace_back([&, worker] {
        for (int32_t s = kShards - 1 - worker; s >= 0; s -= 2) {
          snapshot.BeforeWrite({s});
          values[s] = round + 1;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(copies, std::vector<int64_t>(kShards, round));
  }
}

}  // namespace
}  // namespace sluice
