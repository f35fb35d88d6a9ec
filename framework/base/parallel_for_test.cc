#include "framework/base/parallel_for.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(ParallelForTest, CallsEachOnce) {
  for (const int threads : {0, 1, 3, 100}) {
    for (const size_t count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> calls(count);
      EXPECT_TRUE(ParallelFor(count, threads, [&](size_t i) {
                    ++calls[i];
                    return absl::OkStatus();
                  }).ok());
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(calls[i], 1) << i << " on " << threads;
    }
  }
}

// The four calls wait for each other, so that they all run at once.
TEST(ParallelForTest, CallsAtOnceAndReturnsTheFirstError) {
  std::mutex mutex;
  std::condition_variable all;
  size_t begun = 0;
  const absl::Status status = ParallelFor(1000, 4, [&](size_t i) {
    std::unique_lock<std::mutex> lock(mutex);
    if (++begun == 4) all.notify_all();
    all.wait(lock, [&] { return begun >= 4; });
    return absl::DataLossError(absl::StrCat("call ", i));
  });
  EXPECT_EQ(status.message(), "call 0");
  EXPECT_EQ(begun, 4);
}

}  // namespace
}  // namespace sluice
