// Boxing of large meshes, held to what is known of small ones: the same path at the same price as
// counted from moves, the reference implementation's values, and shares that are shards of the
// whole.
#include <map>
#include <string>
#include <tuple>

#include "framework/sbp/boxing_candidates.h"
#include "framework/sbp/boxing_testing.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using Region = std::tuple<Box, std::vector<DeviceId>, std::vector<int>>;

// What a device does, by step: its regions with the devices that they come from.
std::map<size_t, std::vector<std::vector<Region>>> DeedsOf(const Boxing& boxing, DeviceId device) {
  std::map<size_t, std::vector<std::vector<Region>>> deeds;
  for (size_t s = 0; s < boxing.steps.size(); ++s) {
    for (const BoxingWrite& write : boxing.steps[s].writes) {
      if (boxing.buffers[write.buffer].device != device) continue;
      std::vector<Region>& regions = deeds[s].emplace_back();
      for (const BoxingRegion& region : write.regions) {
        std::vector<DeviceId> sources;
        for (int source : region.sources) sources.push_back(boxing.buffers[source].device);
        regions.push_back({region.box, sources, region.fold});
      }
    }
  }
  return deeds;
}

class LargeBoxing : public testing::Test {
 protected:
  // Runs it on all devices, and looks at the share of each.
  void Check(const Layout& from, const Layout& to, const Shape& shape, const Machine& machine) {
    const std::string what = Describe(from, to, shape);
    BoxingPlanner planner(machine, 0);
    const auto all = planner.Plan(from, to, shape, DType::kF64);
    ASSERT_TRUE(all.ok()) << all.status() << what;
    if (!(*all)->share) return;  // no path
    ++shares;
    const std::vector<Array> shards = RandomShards(from, shape, &random);
    ASSERT_EQ(CheckBoxing(**all, from, to, shape, DType::kF64, shards), "")
        << what << " by " << (*all)->recipe;
    const auto price = planner.Price(from, to, shape, DType::kF64);
    ASSERT_TRUE(price.ok());
    EXPECT_EQ(price->bytes, (*all)->bytes) << what;
    EXPECT_EQ(price->nanoseconds, (*all)->nanoseconds) << what;
    for (const Layout* side : {&from, &to}) {
      for (const DeviceId& device : side->mesh.devices()) {
        const uint64_t key = static_cast<uint64_t>(device.local) + 1;
        const auto share = planner.PlanShare(from, to, shape, DType::kF64, {&device, 1}, key);
        ASSERT_TRUE(share.ok()) << share.status();
        ASSERT_EQ(DeedsOf(**share, device), DeedsOf(**all, device))
            << what << " by " << (*all)->recipe << " on " << ToString(device);
      }
    }
  }

  std::mt19937_64 random{1};
  int shares = 0;
};

// Even shapes, so that every path is open to both searches.
TEST_F(LargeBoxing, PathsAndPricesAreThoseCountedFromMoves) {
  int compared = 0;
  for (const Machine& machine : {Machine::Cpu(), TwoLevelMachine(2), TwoLevelMachine(4)}) {
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{2}, {4}, {8}, {2, 2}, {4, 2}, {2, 1, 4}, {2, 2, 2}}) {
      const Mesh mesh = CellGridOf(sizes);
      const Shape shape{64, 128};
      for (const NdSbp& from : AllNdSbps(BoxingSymbols(), sizes.size(), 2)) {
        for (const NdSbp& to : AllNdSbps(BoxingSymbols(), sizes.size(), 2)) {
          if (!OneKind(from, to) || (sizes.size() == 3 && random() % 8 != 0)) continue;
          BoxingCandidate counted, closed;
          const bool found =
              CheapestPath(mesh, from, to, shape, DType::kF32, machine, nullptr, &counted);
          ASSERT_EQ(CheapestEvenPath(mesh, from, to, shape, DType::kF32, machine, {}, &closed),
                    found);
          if (!found) continue;
          ++compared;
          const std::string what = Describe({mesh, from}, {mesh, to}, shape);
          EXPECT_EQ(closed.recipe, counted.recipe) << what;
          EXPECT_EQ(closed.cost.bytes, counted.cost.bytes) << what << counted.recipe;
          EXPECT_EQ(closed.cost.nanoseconds, counted.cost.nanoseconds) << what << counted.recipe;
        }
      }
    }
  }
  EXPECT_GT(compared, 3000);
}

TEST_F(LargeBoxing, OneMesh) {
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{4}, {3}, {2, 2}, {2, 3}, {2, 2, 2}}) {
    const Mesh mesh = CellGridOf(sizes);
    for (const Shape& shape : {Shape{12, 24}, Shape{6, 5}, Shape{1}}) {
      const auto layouts = AllNdSbps(BoxingSymbols(), sizes.size(), shape.rank());
      for (const NdSbp& from : layouts) {
        for (const NdSbp& to : layouts) {
          if (!OneKind(from, to) || (sizes.size() == 3 && random() % 8 != 0)) continue;
          Check({mesh, from}, {mesh, to}, shape, TwoLevelMachine(2));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(shares, 2000);
}

TEST_F(LargeBoxing, TwoMeshesOfTheSameAxes) {
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{4}, {2, 2}, {3, 2}}) {
    const Mesh from_mesh = CellGridOf(sizes), to_mesh = CellGridOf(sizes, 6);
    const auto layouts = AllNdSbps(BoxingSymbols(), sizes.size(), 2);
    for (const NdSbp& from : layouts) {
      for (const NdSbp& to : layouts) {
        if (!OneKind(from, to)) continue;
        Check({from_mesh, from}, {to_mesh, to}, Shape{12, 24}, TwoLevelMachine(4));
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(shares, 500);
}

// What one device costs to plan: buffers of its peers, not of the mesh.
TEST_F(LargeBoxing, AShareIsSmall) {
  const Mesh mesh = CellGridOf({64, 16});
  BoxingPlanner planner(Machine::Cpu());
  const DeviceId one{0, 5};
  const auto share = planner.PlanShare({mesh, {Sbp::P(), Sbp::B()}}, {mesh, {Sbp::B(), Sbp::B()}},
                                       {1024, 1024}, DType::kF32, {&one, 1}, 1);
  ASSERT_TRUE(share.ok()) << share.status();
  EXPECT_TRUE((*share)->share);
  EXPECT_LE((*share)->buffers.size(), 3u * (64 + 16)) << (*share)->recipe;
}

}  // namespace
}  // namespace sluice
