// Phases, expanded on every device, run and compared with the reference bit for bit; and their
// closed forms, compared with what the expansions move.
#include "framework/sbp/boxing_phase.h"

#include <algorithm>
#include <set>

#include "framework/sbp/boxing.h"
#include "framework/sbp/boxing_testing.h"
#include "framework/sbp/phase_testing.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Pure code on one thread: what a sanitizer can see in all pairs of three axes, it sees in a part.
#if defined(ADDRESS_SANITIZER) || defined(THREAD_SANITIZER)
constexpr int kThinned = 8;
#else
constexpr int kThinned = 1;
#endif

// Machines on which other recipes are the cheapest: links that cost nothing to start, where the
// fewest bytes win, and links on which every message is dear.
std::vector<Machine> Machines() {
  std::vector<Machine> machines = {Machine::Cpu(), TwoLevelMachine(2), TwoLevelMachine(4)};
  for (Link& link : machines[1].links) link.latency_nanoseconds = 0;
  machines[2].link(LinkKind::kProcess).bytes_per_second = 1e11;
  return machines;
}

// Whether a change of one axis stays inside its groups, and sums in the canonical order.
bool Inside(const NdSbp& from, const NdSbp& to, int axis) {
  if (from[axis] == to[axis] || (from[axis].is_partial() && to[axis].is_partial())) return false;
  for (size_t inner = axis + 1; inner < from.size(); ++inner) {
    if (from[inner].is_split() && (from[inner] == from[axis] || from[inner] == to[axis])) {
      return false;
    }
    if (from[inner].is_partial() && from[axis].is_partial()) return false;
  }
  return true;
}

class Phases : public testing::Test {
 protected:
  void Check(const std::vector<BoxingPhase>& phases, const Layout& from, const Layout& to,
             const Shape& shape, const Machine& machine) {
    ++executed;
    for (const BoxingPhase& phase : phases) recipes.insert(PhaseName(phase));
    const std::string wrong =
        CheckPhases(phases, from, to, shape, machine, RandomShards(from, shape, &random));
    ASSERT_EQ(wrong, "") << Describe(from, to, shape);
  }

  // The cheapest phases, and the general form.
  void CheckPair(const Layout& from, const Layout& to, const Shape& shape, const Machine& machine) {
    const auto found = FindBoxing(from, to, shape, DType::kF64, machine);
    if (!OneKind(from.sbp, to.sbp)) {
      EXPECT_FALSE(found.ok());
      return;
    }
    ASSERT_TRUE(found.ok()) << found.status();
    Check(found->phases, from, to, shape, machine);
    Check({{BoxingRecipe::kGeneral, -1, 1, from, to}}, from, to, shape, machine);
    EXPECT_TRUE(!found->phases.empty() || found->nanoseconds == 0);
  }

  void CheckMesh(const Mesh& mesh, const std::vector<Shape>& shapes, int one_in = 1) {
    for (const Machine& machine : Machines()) {
      for (const Shape& shape : shapes) {
        const std::vector<NdSbp> all = AllNdSbps(BoxingSymbols(), mesh.axes().size(), shape.rank());
        for (const NdSbp& from : all) {
          for (const NdSbp& to : all) {
            if (one_in > 1 && random() % one_in != 0) continue;
            CheckPair({mesh, from}, {mesh, to}, shape, machine);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }

  // Every recipe of every pair of symbols, on one axis.
  void CheckAxis(const Mesh& mesh, const std::vector<Shape>& shapes, const Machine& machine) {
    const int64_t size = mesh.num_devices();
    const int64_t inner = NodesOf(mesh, machine).axes[0].inner;
    for (const Shape& shape : shapes) {
      const std::vector<NdSbp> all = AllNdSbps(BoxingSymbols(), 1, shape.rank());
      for (const NdSbp& from : all) {
        for (const NdSbp& to : all) {
          if (from == to || !OneKind(from, to)) continue;
          for (BoxingRecipe recipe : AxisRecipes(from[0], to[0], size, inner)) {
            Check({{recipe, 0, inner, {mesh, from}, {mesh, to}}}, {mesh, from}, {mesh, to}, shape,
                  machine);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }

  std::mt19937_64 random{1};
  int executed = 0;
  std::set<std::string> recipes;
};

TEST_F(Phases, EveryRecipeOfOneAxis) {
  for (int64_t size = 2; size <= 32; ++size) {
    for (int64_t node : {int64_t{1000}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, size / 2}) {
      if (node == 0) continue;
      const int64_t n = size;
      CheckAxis(CellGridOf({n}), {{2 * n, n}, {n + 1, 3}, {1, 5}, {0, 3}, {7}, {}},
                TwoLevelMachine(node));
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(executed, 10000);
  for (const char* recipe :
       {"slice[0]", "pad[0]", "embed[0]", "all_gather[0]", "all_gather[0]:two_level",
        "all_gather[0]:doubling", "all_to_all[0]", "reduce_scatter[0]",
        "reduce_scatter[0]:two_level", "reduce_scatter[0]:halving", "all_reduce[0]",
        "all_reduce[0]:split", "all_reduce[0]:two_level", "all_reduce[0]:halving"}) {
    EXPECT_EQ(recipes.count(recipe), 1u) << recipe;
  }
}

// Hosts of ranks of devices: the two slowest links are told apart, the third is counted as near.
TEST_F(Phases, EveryRecipeOverThreeLinks) {
  for (const auto& [size, ranks] : {std::pair{8, 4}, {16, 4}, {12, 4}, {9, 3}, {10, 4}}) {
    for (int hosts : {1, 2, 4}) {
      Machine machine = TwoLevelMachine(1);
      for (int r = 0; r < ranks; ++r) machine.host_of_rank.push_back(r * hosts / ranks);
      const int64_t n = size;
      CheckAxis(CellGridOf({n}).OverRanks(ranks), {{2 * n, n}, {n + 1, 3}, {7}}, machine);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_EQ(recipes.count("all_reduce[0]:two_level"), 1u);
  EXPECT_EQ(recipes.count("reduce_scatter[0]:two_level"), 1u);
}

// Every recipe along each axis of three, whose groups are then uneven in other ways.
TEST_F(Phases, EveryRecipeOfOneAxisAmongOthers) {
  for (const Machine& machine : {TwoLevelMachine(2), TwoLevelMachine(6), TwoLevelMachine(4)}) {
    const Mesh mesh = CellGridOf({2, 3, 4});
    for (const Shape& shape : {Shape{25, 14}, Shape{3, 2}}) {
      for (const NdSbp& from : AllNdSbps(BoxingSymbols(), 3, 2)) {
        const int axis = static_cast<int>(random() % 3);
        NdSbp to = from;
        to[axis] = BoxingSymbols()[random() % 5];
        if (random() % kThinned != 0 || !Inside(from, to, axis)) continue;
        if (!OneKind(from, to) || !CheckNdSbp(to, mesh, shape).ok()) continue;
        const int64_t inner = NodesOf(mesh, machine).axes[axis].inner;
        for (BoxingRecipe recipe :
             AxisRecipes(from[axis], to[axis], mesh.axes()[axis].size, inner)) {
          Check({{recipe, axis, inner, {mesh, from}, {mesh, to}}}, {mesh, from}, {mesh, to}, shape,
                machine);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(executed, 200 / kThinned);
}

TEST_F(Phases, PairsOfOneAxis) {
  CheckMesh(CellGridOf({1}), {{}, {3}, {2, 2}});
  CheckMesh(CellGridOf({2}), {{}, {4, 4}, {5, 3}, {1, 4}, {1, 1}, {0, 3}, {3}});
  CheckMesh(CellGridOf({3}), {{6, 6}, {5, 1}, {2, 7}, {3, 2, 2}});
  CheckMesh(CellGridOf({4}), {{4, 4}, {5, 3}, {2, 7}, {16, 1}});
  CheckMesh(CellGridOf({5}, 1), {{7, 6}, {3, 11}});
}

TEST_F(Phases, PairsOfTwoAxes) {
  CheckMesh(CellGridOf({2, 2}), {{4, 4}, {5, 3}, {1, 6}, {0, 3}});
  CheckMesh(CellGridOf({2, 3}), {{6, 6}, {5, 4}, {7, 1}});
  CheckMesh(CellGridOf({3, 2}), {{6, 5}, {2}});
  CheckMesh(CellGridOf({4, 1}), {{5, 2}});
  EXPECT_GT(executed, 20000);
}

TEST_F(Phases, PairsOfThreeAxes) {
  CheckMesh(CellGridOf({2, 2, 2}), {{5, 3}}, 3 * kThinned);
  CheckMesh(CellGridOf({2, 3, 2}), {{7, 6}}, 20 * kThinned);
  CheckMesh(CellGridOf({2, 1, 4}), {{16, 8}}, 20 * kThinned);
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
    for (int i = 0; i < 12; ++i) devices.push_back({i / 3, i % 3});
    std::shuffle(devices.begin(), devices.end(), *random);
    devices.resize(count);
    return Mesh::Of(axes, devices);
  }
}

TEST_F(Phases, PairsOfDifferentMeshes) {
  for (int pairs = 0; pairs < 2500;) {
    const Mesh from = AnyMesh(&random), to = random() % 4 == 0 ? from : AnyMesh(&random);
    Shape shape;
    const int rank = 1 + static_cast<int>(random() % 3);
    for (int d = 0; d < rank; ++d) shape.Append(1 + static_cast<int64_t>(random() % 6));
    std::vector<Sbp> symbols = BoxingSymbols();
    symbols.push_back(Sbp::S(2));
    symbols.push_back(Sbp::P(Reduction::kMin));
    const auto any = [&](const Mesh& mesh) {
      const std::vector<NdSbp> all = AllNdSbps(symbols, mesh.axes().size(), rank);
      return all[random() % all.size()];
    };
    const int64_t nodes[] = {2, 3, 6, 100};
    Machine machine = TwoLevelMachine(nodes[random() % 4]);
    machine.devices_per_rank = 3;
    const Layout a{from, any(from)}, b{to, any(to)};
    CheckPair(a, b, shape, machine);
    if (HasFatalFailure()) return;
    pairs += OneKind(a.sbp, b.sbp);
  }
}

TEST_F(Phases, PipelinesOfUnequalStages) {
  // data=4 -> data=2 model=2, and stages on devices 0-3 -> 4-5 -> 6; and stages that are alike.
  const std::pair<Mesh, Mesh> meshes[] = {
      {CellGridOf({4}), CellGridOf({2, 2})},      {CellGridOf({2, 2}), CellGridOf({4})},
      {CellGridOf({4}), CellGridOf({2}, 4)},      {CellGridOf({2, 2}), CellGridOf({2}, 4)},
      {CellGridOf({2}, 4), CellGridOf({1}, 6)},   {CellGridOf({1}, 6), CellGridOf({2}, 4)},
      {CellGridOf({2}, 4), CellGridOf({4})},      {CellGridOf({2, 2}), CellGridOf({2, 2}, 4)},
      {CellGridOf({2, 3}), CellGridOf({2, 3}, 6)}};
  for (const auto& [from, to] : meshes) {
    for (const Shape& shape : {Shape{4, 4}, Shape{5, 3}}) {
      for (const NdSbp& a : AllNdSbps(BoxingSymbols(), from.axes().size(), 2)) {
        for (const NdSbp& b : AllNdSbps(BoxingSymbols(), to.axes().size(), 2)) {
          CheckPair({from, a}, {to, b}, shape, TwoLevelMachine(4));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice
