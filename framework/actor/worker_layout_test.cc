#include "framework/actor/worker_layout.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(WorkerLayoutTest, BytesComeInBesideWhatComputesUnlessNoneDo) {
  WorkerLayout layout = {4, 2};
  EXPECT_EQ(layout.WorkerOf(plan::STREAM_COMPUTE, 1), 0);
  EXPECT_EQ(layout.WorkerOf(plan::STREAM_COMM, 2), 1);
  EXPECT_EQ(layout.WorkerOf(plan::STREAM_NET, 1), 2);
  EXPECT_EQ(layout.WorkerOf(plan::STREAM_HOST, 2), 3);
  layout.net_computes = true;
  EXPECT_EQ(layout.WorkerOf(plan::STREAM_NET, 1), 0);
  EXPECT_EQ(layout.WorkerOf(plan::STREAM_NET, 2), 1);
  EXPECT_EQ(layout.WorkerOf(plan::STREAM_HOST, 2), 3);
}

}  // namespace
}  // namespace sluice
