#include "framework/train/interrupt.h"

#include <unistd.h>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(InterruptTest, FirstSignalAsks) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.requested());
  raise(SIGINT);
  EXPECT_TRUE(interrupt.requested());
}

TEST(InterruptTest, SecondSignalEnds) {
  EXPECT_EXIT(
      {
        Interrupt interrupt;
        raise(SIGTERM);
        raise(SIGINT);
      },
      ::testing::ExitedWithCode(128 + SIGINT), "");
}

TEST(InterruptTest, HandlersAreGivenBack) {
  { Interrupt interrupt; }
  EXPECT_EXIT(raise(SIGTERM), ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace sluice
