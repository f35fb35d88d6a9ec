#include "framework/session/replica_digests.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<absl::string_view> kVariables = {"w", "bias"};

std::string Message(const std::vector<std::string>& texts) {
  return std::string(CompareReplicas(texts, kVariables).message());
}

TEST(ReplicaDigestsTest, ReplicasAreShardsOfTheSameBox) {
  const std::string mine = ReplicaLine({0, "[0:2]", 7, 0}) + ReplicaLine({1, "[0:2]", 8, 0});
  EXPECT_EQ(CompareReplicas({mine, ReplicaLine({0, "[2:4]", 9, 1})}, kVariables), absl::OkStatus());
  EXPECT_EQ(CompareReplicas({mine, ReplicaLine({0, "[0:2]", 7, 1})}, kVariables), absl::OkStatus());
  const absl::Status torn =
      CompareReplicas({mine, "", ReplicaLine({1, "[0:2]", 9, 2})}, kVariables);
  EXPECT_EQ(torn.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(torn.message(),
            "variable bias: replicas differ: device 0 has 0000000000000008, device 2 has "
            "0000000000000009");
}

// A rank may say anything, of any length.
TEST(ReplicaDigestsTest, WhatIsNoShardIsNamedInALine) {
  for (const std::string line :
       {"0", "0\t[0:2]\t7\t0", "2\t[0:2]\t0000000000000007\t0", "-1\t[0:2]\t0000000000000007\t0",
        "0\t[0:2]\t0000000000000007\t-1", "0\t[0:2]\t00000000000000070\t0",
        "0\t[0:2]\t0000000000000007\t0\t"}) {
    EXPECT_THAT(Message({ReplicaLine({0, "[0:2]", 7, 0}), line + "\n"}),
                HasSubstr("expected of rank 1 a shard's variable, box, digest and device"))
        << line;
  }
  const std::string shown = Message({std::string(100'000, 'x') + "\x1b[2J"});
  EXPECT_LT(shown.size(), 200u);
  EXPECT_THAT(Message({"\x1b[2J"}), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace sluice
