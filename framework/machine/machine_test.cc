#include "framework/machine/machine.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(Machine, TextFormKeepsEveryField) {
  Machine machine;
  machine.devices_per_rank = 4;
  machine.devices_per_host = 8;
  machine.link(LinkKind::kHost) = {7, 1.0 / 3.0};
  machine.flops_per_second = 1.0 / 3.0 * 1e12;
  machine.launch_nanoseconds = 0;
  absl::StatusOr<Machine> back = Machine::Parse(machine.ToString());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->ToString(), machine.ToString());
  EXPECT_EQ(back->flops_per_second, machine.flops_per_second);
  EXPECT_EQ(back->devices_per_host, 8);
  EXPECT_EQ(back->link(LinkKind::kHost), machine.link(LinkKind::kHost));
  EXPECT_EQ(Machine::Parse("")->ToString(), Machine::Cpu().ToString());
}

TEST(Machine, ErrorsNameTheWord) {
  for (const char* bad : {"flops=3", "flops_per_second", "flops_per_second=-1",
                          "flops_per_second=nan", "devices_per_host=0", "devices_per_host=2.5",
                          "network_bytes_per_second=0", "host_latency_nanoseconds=-1"}) {
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
  machine.link(LinkKind::kHost).bytes_per_second = 1e9;
  machine.link(LinkKind::kNetwork).bytes_per_second = 1e8;
  EXPECT_EQ(machine.LinkNanoseconds(100, LinkKind::kHost), 100);
  EXPECT_EQ(machine.LinkNanoseconds(100, LinkKind::kNetwork), 1000);
}

TEST(Machine, HostsHoldWholeRanksOrPartsOfOne) {
  Machine machine;
  EXPECT_EQ(machine.LinkBetween({0, 0}, {0, 5}), LinkKind::kProcess);
  EXPECT_EQ(machine.LinkBetween({0, 0}, {65535, 0}), LinkKind::kHost);
  machine.devices_per_rank = 4;
  machine.devices_per_host = 8;
  EXPECT_EQ(machine.LinkBetween({0, 0}, {1, 3}), LinkKind::kHost);
  EXPECT_EQ(machine.LinkBetween({1, 3}, {2, 0}), LinkKind::kNetwork);
  machine.devices_per_host = 2;
  EXPECT_EQ(machine.LinkBetween({0, 0}, {0, 1}), LinkKind::kProcess);
  EXPECT_EQ(machine.LinkBetween({0, 1}, {0, 2}), LinkKind::kNetwork);
  EXPECT_EQ(ToString(DeviceId{2, 3}), "2:3");
}

// As a launcher deals them out that fills hosts in turn.
TEST(Machine, HostsOfAJobsRanksCountBeforeAll) {
  Machine machine;
  machine.devices_per_host = 1;
  machine.host_of_rank = {0, 1, 0, 1};
  EXPECT_EQ(machine.LinkBetween({0, 0}, {0, 1}), LinkKind::kProcess);
  EXPECT_EQ(machine.LinkBetween({0, 0}, {2, 1}), LinkKind::kHost);
  EXPECT_EQ(machine.LinkBetween({0, 0}, {1, 0}), LinkKind::kNetwork);
  const std::string said = machine.LinksText();
  machine.host_of_rank[1] = 0;
  EXPECT_NE(machine.LinksText(), said);
}

}  // namespace
}  // namespace sluice
