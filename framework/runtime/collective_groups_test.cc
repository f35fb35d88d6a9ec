#include "framework/runtime/collective_groups.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Rank 1 of two, each of two devices of a kind, and a CPU beside each.
plan::Plan PlanOf(plan::DeviceKind kind, const std::vector<std::string>& groups) {
  plan::Plan plan;
  plan.set_rank(1);
  for (int d = 0; d < 8; ++d) {
    plan::Device* device = plan.add_devices();
    device->set_rank(d / 2 % 2);
    device->set_local(d % 2);
    device->set_kind(d < 4 ? kind : plan::DEVICE_CPU);
  }
  for (const std::string& group : groups) {
    plan::Instruction* x = plan.add_programs()->add_actors()->add_script();
    x->set_kind(plan::INSTRUCTION_COLLECTIVE);
    x->set_attributes("devices=" + group);
  }
  return plan;
}

TEST(CollectiveGroupsTest, EachIsThereOnceWithTheCardsOfThisRank) {
  const auto groups = GroupsOfCollectives(
      PlanOf(plan::DEVICE_CUDA, {"[0,1,2,3]", "[1,3]", "[1,3]", "[3,1]"}), nullptr);
  ASSERT_TRUE(groups.ok()) << groups.status();
  ASSERT_EQ(groups->size(), 3u);
  EXPECT_EQ((*groups)[0].devices, std::vector<int32_t>({0, 1, 2, 3}));
  EXPECT_EQ((*groups)[0].cards, std::vector<int32_t>({-1, -1, 0, 1}));
  EXPECT_EQ((*groups)[1].cards, std::vector<int32_t>({-1, 1}));
  EXPECT_EQ((*groups)[2].cards, std::vector<int32_t>({1, -1}));
}

TEST(CollectiveGroupsTest, DevicesThatCountHaveNothingToDoTogether) {
  const auto groups = GroupsOfCollectives(PlanOf(plan::DEVICE_NULL, {"[1,3]"}), nullptr);
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_TRUE(groups->empty());
}

TEST(CollectiveGroupsTest, OtherDevicesAreNamed) {
  EXPECT_THAT(
      std::string(
          GroupsOfCollectives(PlanOf(plan::DEVICE_CUDA, {"[1,5]"}), nullptr).status().message()),
      HasSubstr("expected collectives of CUDA devices, got one of "));
  EXPECT_THAT(
      std::string(
          GroupsOfCollectives(PlanOf(plan::DEVICE_CUDA, {"[1,8]"}), nullptr).status().message()),
      HasSubstr("expected some of 8"));
}

}  // namespace
}  // namespace sluice
