#include "framework/actor/worker_layout.h"

#include <set>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// Each of a card's streams may stand still for work of other cards.
TEST(WorkerLayoutTest, WithCollectivesNoTwoStreamsOfACardShareAWorker) {
  WorkerLayout layout;
  layout.devices = layout.computing = 3;
  layout.collectives = true;
  std::set<int32_t> workers;
  for (int32_t device = 0; device < layout.devices; ++device) {
    for (const auto kind : {plan::STREAM_COMPUTE, plan::STREAM_COPY, plan::STREAM_COPY_OUT,
                            plan::STREAM_COLLECTIVE}) {
      const int32_t worker = layout.WorkerOf(kind, device);
      EXPECT_LT(worker, layout.workers());
      EXPECT_TRUE(workers.insert(worker).second) << device << ", " << kind;
    }
  }
}

TEST(WorkerLayoutTest, WithoutThemWhoeverComputesCopies) {
  const WorkerLayout layout;
  for (const auto kind : {plan::STREAM_COPY, plan::STREAM_COPY_OUT}) {
    EXPECT_EQ(layout.WorkerOf(kind, 0), layout.WorkerOf(plan::STREAM_COMPUTE, 0));
  }
  EXPECT_NE(layout.WorkerOf(plan::STREAM_NET, 0), layout.WorkerOf(plan::STREAM_COMPUTE, 0));
}

}  // namespace
}  // namespace sluice
