#include "framework/machine/machine.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(Machine, TextFormKeepsEveryField) {
  Machine machine;
  machine.devices_per_rank = 4;
  machine.devices_per_node = 8;
  machine.flops_per_second = 1.0 / 3.0 * 1e12;
  machine.launch_nanoseconds = 0;
  absl::StatusOr<Machine> back = Machine::Parse(machine.ToString());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->ToString(), machine.ToString());
  EXPECT_EQ(back->flops_per_second, machine.flops_per_second);
  EXPECT_EQ(back->devices_per_node, 8);
  EXPECT_EQ(Machine::Parse("")->ToString(), Machine::Cpu().ToString());
}

TEST(Machine, ErrorsNameTheWord) {
  for (const char* bad : {"flops=3", "flops_per_second", "flops_per_second=-1",
                          "flops_per_second=nan", "devices_per_node=0", "devices_per_node=2.5"}) {
    absl::StatusOr<Machine> machine = Machine::Parse(bad);
    ASSERT_FALSE(machine.ok()) << bad;
    const std::string word(bad);
    const std::string named = word.substr(0, word.find('='));
    EXPECT_NE(std::string(machine.status().message()).find(named), std::string::npos)
        << machine.status();
  }
}

TEST(Machine, TimesAreTheSlowerResource) {
  Machine machine;
  machine.flops_per_second = 1e9;
  machine.bf16_flops_per_second = 4e9;
  machine.memory_bytes_per_second = 2e9;
  machine.launch_nanoseconds = 7;
  EXPECT_EQ(machine.ComputeNanoseconds(1000, 0, false), 1007);
  EXPECT_EQ(machine.ComputeNanoseconds(1000, 0, true), 257);
  EXPECT_EQ(machine.ComputeNanoseconds(1000, 4000, false), 2007);
  machine.inner_bytes_per_second = 1e9;
  machine.outer_bytes_per_second = 1e8;
  EXPECT_EQ(machine.LinkNanoseconds(100, false), 100);
  EXPECT_EQ(machine.LinkNanoseconds(100, true), 1000);
}

TEST(Machine, NodesHoldWholeRanksOrPartsOfOne) {
  Machine machine;
  EXPECT_EQ(machine.NodeOf({0, 5}), 0);
  EXPECT_NE(machine.NodeOf({1, 0}), machine.NodeOf({0, 0}));
  machine.devices_per_rank = 4;
  machine.devices_per_node = 8;
  EXPECT_EQ(machine.NodeOf({1, 3}), 0);
  EXPECT_EQ(machine.NodeOf({2, 0}), 1);
  machine.devices_per_node = 2;
  EXPECT_EQ(machine.NodeOf({0, 1}), 0);
  EXPECT_EQ(machine.NodeOf({0, 2}), 1);
  EXPECT_EQ(ToString(DeviceId{2, 3}), "2:3");
}

}  // namespace
}  // namespace sluice
