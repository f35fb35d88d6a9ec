#include "framework/base/log.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::MatchesRegex;

TEST(LogTest, LineHasSeverityTimeRankAndPlace) {
  testing::internal::CaptureStderr();
  SLUICE_LOG(WARNING) << "low on " << 3;
  SetLogRank(2);
  SLUICE_LOG(INFO) << "x";
  SetLogRank(-1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("W [0-9:.]+ log_test.cc:[0-9]+] low on 3\n"
                           "I [0-9:.]+ rank 2 log_test.cc:[0-9]+] x\n"));
}

TEST(LogTest, LowSeverityIsDropped) {
  testing::internal::CaptureStderr();
  SetLogSeverity(LogSeverity::kERROR);
  SLUICE_LOG(INFO) << "not this";
  SLUICE_LOG(ERROR) << "this";
  SetLogSeverity(LogSeverity::kINFO);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), MatchesRegex("E [^\n]*this\n"));
}

TEST(LogTest, ChecksThatHoldEvaluateOnceAndAreStatements) {
  int calls = 0;
  auto next = [&] { return ++calls; };
  if (calls == 0)
    SLUICE_CHECK(next() == 1) << "never built";
  else
    FAIL();
  if (calls == 1)
    SLUICE_CHECK_EQ(next(), size_t{2});
  else
    FAIL();
  EXPECT_EQ(calls, 2);
  SLUICE_CHECK_LT(-1, size_t{0});  // by value: no wrap to a huge unsigned
  SLUICE_CHECK_NE(-1, ~0u);
  SLUICE_CHECK_GE(2, 2);
  SLUICE_CHECK_LE(2, 2.5);
  SLUICE_CHECK_GT(std::string("b"), "a");
  SLUICE_CHECK_OK(absl::OkStatus());
  SLUICE_CHECK_OK(absl::StatusOr<int>(3));
}

TEST(LogDeathTest, FailuresSayWhatAndWhere) {
  const int n = 3;
  EXPECT_DEATH(SLUICE_CHECK(n == 4) << "n=" << n, "F .*log_test.cc.*check failed: n == 4 n=3");
  EXPECT_DEATH(SLUICE_CHECK_EQ(n, 4) << "text", "n == 4 \\(3 vs. 4\\) text");
  EXPECT_DEATH(SLUICE_CHECK_EQ(LogSeverity::kINFO, LogSeverity::kERROR), "\\(0 vs. 2\\)");
  EXPECT_DEATH(SLUICE_CHECK_OK(absl::NotFoundError("no plan")), "NOT_FOUND: no plan");
  SetLogSeverity(LogSeverity::kFATAL);
  EXPECT_DEATH(SLUICE_LOG(FATAL) << "end", "end");
  SetLogSeverity(LogSeverity::kINFO);
}

}  // namespace
}  // namespace sluice
