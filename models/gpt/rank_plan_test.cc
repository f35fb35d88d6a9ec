// What a rank pays for its plan follows from what its devices do, and not from how many others
// there are: bytes an instruction, of one rank of 8 devices in small and in large jobs.
// Times and resident memory are //bench:rank_plan's.
#include <cstdint>
#include <string>

#include "framework/compiler/compile.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"

namespace sluice {
namespace {

struct Cost {
  int64_t items = 0, pulls = 0, bytes = 0;
  int64_t foreign_actors = 0;  // that run on devices of other ranks and are not remote
};

Cost CostOf(const std::string& mesh_text, int64_t micro, int32_t rank) {
  const Mesh mesh = *Mesh::Parse(mesh_text);
  GptConfig config;
  config.layers = 4;
  config.hidden = 64;
  config.heads = 8;
  config.batch = 2 * mesh.AxisSize("data") * micro;
  Graph graph;
  EXPECT_EQ(BuildGptTrain(config, OptimizerOptions(), &graph), absl::OkStatus());
  CompileOptions options;
  options.ranks = static_cast<int32_t>((mesh.num_devices() + 7) / 8);
  options.rank = rank;
  options.mesh = mesh.OverRanks(options.ranks);
  options.micro_batches = micro;
  options.machine = Machine::Cpu();
  const auto plan = CompilePlan({{"train", &graph}}, options);
  EXPECT_EQ(plan.status(), absl::OkStatus()) << mesh_text;
  Cost cost;
  if (!plan.ok()) return cost;
  cost.bytes = static_cast<int64_t>(plan->ByteSizeLong());
  const plan::Program& program = plan->programs(0);
  for (const plan::Actor& actor : program.actors()) {
    const bool own = plan->devices(program.streams(actor.stream()).device()).rank() == rank;
    for (const plan::Instruction& x : actor.script()) {
      if (x.kind() == plan::INSTRUCTION_REMOTE) continue;
      if (!own) ++cost.foreign_actors;
      (x.kind() == plan::INSTRUCTION_PULL ? cost.pulls : cost.items) += 1;
    }
  }
  return cost;
}

// Of 16 times the devices: a reduction over n devices has 2 log2 n steps where that wins, and a
// pull for most of them, so what is done grows with that logarithm; what each of it costs does not.
void ExpectFlat(const std::string& small_mesh, const std::string& large_mesh, int64_t micro,
                int32_t rank) {
  SCOPED_TRACE(large_mesh);
  const Cost small = CostOf(small_mesh, micro, rank), large = CostOf(large_mesh, micro, rank);
  ASSERT_GT(small.items, 0);
  EXPECT_EQ(small.foreign_actors + large.foreign_actors, 0);
  const auto growth = static_cast<double>(large.items + large.pulls) /
                      static_cast<double>(small.items + small.pulls);
  EXPECT_LT(growth, 4);
  EXPECT_LT(static_cast<double>(large.bytes), 1.5 * growth * static_cast<double>(small.bytes));
}

TEST(RankPlanTest, ARankOfALargeJobCostsWhatItsDevicesDo) {
  ExpectFlat("data=8 model=8", "data=128 model=8", 1, 0);
  ExpectFlat("data=2 model=8 pipe=4", "data=32 model=8 pipe=4", 8, 3);
}

TEST(RankPlanTest, UnevenShardsToo) { ExpectFlat("data=10 model=6", "data=170 model=6", 1, 2); }

}  // namespace
}  // namespace sluice
