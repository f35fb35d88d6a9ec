// All pairs of layouts, each candidate run and compared with the reference implementation bit for
// bit.
#include <algorithm>
#include <set>

#include "framework/sbp/boxing_candidates.h"
#include "framework/sbp/boxing_testing.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Pure code on one thread: what a sanitizer can see in all pairs of three axes, it sees in a part.
#if defined(ADDRESS_SANITIZER) || defined(THREAD_SANITIZER)
constexpr int kThinned = 8;
#else
constexpr int kThinned = 1;
#endif

// Runs every candidate of a pair; counts them.
class Pairs {
 public:
  explicit Pairs(int seed) : random(seed) {}

  void Check(const Layout& from, const Layout& to, const Shape& shape, const Machine& machine) {
    const absl::StatusOr<std::vector<Boxing>> candidates =
        BoxingCandidates(from, to, shape, DType::kF64, machine);
    const absl::StatusOr<Boxing> chosen = PlanBoxing(from, to, shape, DType::kF64, machine);
    if (!OneKind(from.sbp, to.sbp)) {
      EXPECT_FALSE(candidates.ok());
      EXPECT_FALSE(chosen.ok());
      ++refused;
      return;
    }
    ++pairs;
    ASSERT_TRUE(candidates.ok()) << candidates.status();
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const std::vector<Array> shards = RandomShards(from, shape, &random);
    const Boxing* best = &(*candidates)[0];
    for (const Boxing& boxing : *candidates) {
      ++executed;
      recipes.insert(boxing.recipe);
      const std::string wrong = CheckBoxing(boxing, from, to, shape, DType::kF64, shards);
      ASSERT_EQ(wrong, "") << Describe(from, to, shape) << " by " << boxing.recipe;
      if (std::make_pair(boxing.nanoseconds, boxing.bytes) <
          std::make_pair(best->nanoseconds, best->bytes)) {
        best = &boxing;
      }
    }
    EXPECT_EQ(chosen->nanoseconds, best->nanoseconds) << Describe(from, to, shape);
    EXPECT_EQ(chosen->bytes, best->bytes) << Describe(from, to, shape);
  }

  void CheckMesh(const Mesh& mesh, const std::vector<Shape>& shapes, const Machine& machine,
                 int one_in = 1) {
    for (const Shape& shape : shapes) {
      const std::vector<NdSbp> all = AllNdSbps(BoxingSymbols(), mesh.axes().size(), shape.rank());
      for (const NdSbp& from : all) {
        for (const NdSbp& to : all) {
          if (one_in > 1 && random() % one_in != 0) continue;
          Check({mesh, from}, {mesh, to}, shape, machine);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }

  std::mt19937_64 random;
  int pairs = 0, executed = 0, refused = 0;
  std::set<std::string> recipes;
};

TEST(BoxingPairs, OneAxis) {
  Pairs pairs(1);
  for (const Machine& machine : {Machine::Cpu(), TwoLevelMachine(2)}) {
    pairs.CheckMesh(CellGridOf({1}), {{}, {3}, {2, 2}}, machine);
    pairs.CheckMesh(CellGridOf({2}), {{}, {4, 4}, {5, 3}, {1, 4}, {1, 1}, {0, 3}, {3}}, machine);
    pairs.CheckMesh(CellGridOf({3}), {{6, 6}, {5, 1}, {2, 7}, {3, 2, 2}}, machine);
    pairs.CheckMesh(CellGridOf({4}), {{4, 4}, {5, 3}, {2, 7}, {16, 1}}, machine);
    pairs.CheckMesh(CellGridOf({5}, 1), {{7, 6}, {3, 11}}, machine);
  }
  EXPECT_GT(pairs.pairs, 700);
  EXPECT_GT(pairs.refused, 60);
  for (const char* recipe : {"slice[0]", "pad[0]", "embed[0]", "all_gather[0]", "all_to_all[0]",
                             "reduce_scatter[0]", "all_reduce[0]", "identity", "general:direct",
                             "general:home", "general:source", "general:two_level"}) {
    EXPECT_EQ(pairs.recipes.count(recipe), 1u) << recipe;
  }
}

TEST(BoxingPairs, TwoAxes) {
  Pairs pairs(2);
  for (const Machine& machine : {Machine::Cpu(), TwoLevelMachine(2)}) {
    pairs.CheckMesh(CellGridOf({2, 2}), {{4, 4}, {5, 3}, {1, 6}, {0, 3}}, machine);
    pairs.CheckMesh(CellGridOf({2, 3}), {{6, 6}, {5, 4}, {7, 1}}, machine);
  }
  pairs.CheckMesh(CellGridOf({3, 2}), {{6, 5}, {2}}, TwoLevelMachine(3));
  pairs.CheckMesh(CellGridOf({4, 1}), {{5, 2}}, Machine::Cpu());
  EXPECT_GT(pairs.pairs, 5000);
  EXPECT_GT(pairs.executed, 20000);
}

TEST(BoxingPairs, ThreeAxes) {
  Pairs pairs(3);
  pairs.CheckMesh(CellGridOf({2, 2, 2}), {{5, 3}}, Machine::Cpu(), kThinned);
  pairs.CheckMesh(CellGridOf({2, 2, 2}), {{4, 8}}, TwoLevelMachine(2), 6 * kThinned);
  pairs.CheckMesh(CellGridOf({2, 3, 2}), {{7, 6}}, TwoLevelMachine(4), 8 * kThinned);
  EXPECT_GT(pairs.pairs, 7000 / kThinned);
}

// A mesh of up to 8 of 12 devices, in any order.
Mesh AnyMesh(std::mt19937_64* random) {
  const auto below = [&](int n) { return static_cast<int>((*random)() % n); };
  while (true) {
    std::vector<MeshAxis> axes;
    int64_t count = 1;
    const int rank = 1 + (below(5) + 1) / 2 % 3;
    for (int a = 0; a < rank; ++a) {
      const int64_t sizes[] = {1, 2, 2, 3, 4};
      axes.push_back(
          {std::string(1, static_cast<char>('a' + a)), sizes[below(5)], AxisKind::kSpace});
      count *= axes.back().size;
    }
    if (count > 8) continue;
    std::vector<DeviceId> devices;
    for (int i = 0; i < 12; ++i) devices.push_back({i / 6, i % 6});
    std::shuffle(devices.begin(), devices.end(), *random);
    devices.resize(count);
    return Mesh::Of(axes, devices);
  }
}

TEST(BoxingPairs, DifferentMeshes) {
  Pairs pairs(4);
  while (pairs.pairs < 2500) {
    const Mesh from = AnyMesh(&pairs.random), to = AnyMesh(&pairs.random);
    if (from == to) continue;
    Shape shape;
    const int rank = 1 + static_cast<int>(pairs.random() % 3);
    for (int d = 0; d < rank; ++d) shape.Append(1 + static_cast<int64_t>(pairs.random() % 6));
    std::vector<Sbp> symbols = BoxingSymbols();
    symbols.push_back(Sbp::S(2));
    symbols.push_back(Sbp::P(Reduction::kMin));
    const auto any = [&](const Mesh& mesh) {
      const std::vector<NdSbp> all = AllNdSbps(symbols, mesh.axes().size(), rank);
      return all[pairs.random() % all.size()];
    };
    const int64_t nodes[] = {2, 3, 6, 100};
    Machine machine = TwoLevelMachine(nodes[pairs.random() % 4]);
    machine.devices_per_rank = 6;
    pairs.Check({from, any(from)}, {to, any(to)}, shape, machine);
    if (HasFatalFailure()) return;
  }
}

TEST(BoxingPairs, PipelinesOfUnequalStages) {
  // data=4 -> data=2 model=2, and stages on devices 0-3 -> 4-5 -> 6.
  Pairs pairs(5);
  const std::pair<Mesh, Mesh> meshes[] = {
      {CellGridOf({4}), CellGridOf({2, 2})},    {CellGridOf({2, 2}), CellGridOf({4})},
      {CellGridOf({4}), CellGridOf({2}, 4)},    {CellGridOf({2, 2}), CellGridOf({2}, 4)},
      {CellGridOf({2}, 4), CellGridOf({1}, 6)}, {CellGridOf({1}, 6), CellGridOf({2}, 4)},
      {CellGridOf({2}, 4), CellGridOf({4})}};
  for (const auto& [from, to] : meshes) {
    for (const Shape& shape : {Shape{4, 4}, Shape{5, 3}}) {
      for (const NdSbp& a : AllNdSbps(BoxingSymbols(), from.axes().size(), 2)) {
        for (const NdSbp& b : AllNdSbps(BoxingSymbols(), to.axes().size(), 2)) {
          pairs.Check({from, a}, {to, b}, shape, TwoLevelMachine(4));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(pairs.pairs, 700);
}

}  // namespace
}  // namespace sluice
