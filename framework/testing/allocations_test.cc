#include "framework/testing/allocations.h"

#include <thread>

#include "gtest/gtest.h"

namespace sluice {
namespace {

thread_local bool inside = false;
bool Inside() { return inside; }

TEST(AllocationsTest, EveryDoorIsCountedOnceForWhoAskedForTheMemory) {
  if (!kCountsAllocations) GTEST_SKIP() << "allocations are the sanitizer's";
  ASSERT_EQ(AllocationDoors().size(), 17u);
  for (const AllocationDoor& door : AllocationDoors()) {
    StartCountingAllocations(Inside);
    door.get(640);
    inside = true;
    door.get(128);
    inside = false;
    const Allocations counted = CountedAllocations();
    EXPECT_EQ(counted.own, 1) << door.name;
    EXPECT_EQ(counted.library, 1) << door.name;
    EXPECT_GE(counted.largest_own, 640) << door.name;
    EXPECT_GE(counted.largest_library, 128) << door.name;
  }
}

TEST(AllocationsTest, OtherThreadsAreCountedAndNothingIsALibrarysUnlessSaid) {
  if (!kCountsAllocations) GTEST_SKIP() << "allocations are the sanitizer's";
  StartCountingAllocations();
  inside = true;
  std::thread([] { AllocationDoors()[0].get(1 << 20); }).join();
  inside = false;
  const Allocations counted = CountedAllocations();
  EXPECT_GE(counted.own, 1);  // the thread's own state, too
  EXPECT_EQ(counted.library, 0);
  EXPECT_EQ(counted.largest_own, 1 << 20);
}

}  // namespace
}  // namespace sluice
