// Which boxings of CUDA devices are collectives, and that all devices have them in one order.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/plan/validate_collectives.h"
#include "framework/testing/models.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

absl::StatusOr<plan::Plan> CompileMlp(const std::string& mesh, const CollectiveOptions& collectives,
                                      const OptimizerOptions& optimizer = {}, int64_t batch = 8) {
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse(mesh));
  options.collectives = collectives;
  MlpOptions model;
  model.batch = batch;
  model.optimizer = optimizer;
  model.annotation = MegatronAnnotations(3);
  Graph graph;
  RETURN_IF_ERROR(BuildMlp(&graph, model));
  return CompilePlan({{"train", &graph}}, options);
}

// How many collectives there are, by op and dtype.
std::map<std::string, int> CountsOf(const plan::Plan& plan) {
  std::map<std::string, int> counts;
  for (const plan::Actor& actor : plan.programs(0).actors()) {
    for (const plan::Instruction& x : actor.script()) {
      if (x.kind() != plan::INSTRUCTION_COLLECTIVE) continue;
      const auto dtype = static_cast<DType>(x.inputs(0).shard().dtype());
      ++counts[x.op() + " " + std::string(DTypeName(dtype))];
    }
  }
  return counts;
}

TEST(LowerCollectivesTest, OfCudaDevicesUnlessResultsAreToBeTheCpus) {
  const auto cuda = CompileMlp("data=2 @cuda", {.nccl = true});
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  EXPECT_GE(CountsOf(*cuda)["all_reduce f32"], 2 * 6);
  const auto reproducible = CompileMlp("data=2 @cuda", {});
  ASSERT_TRUE(reproducible.ok()) << reproducible.status();
  EXPECT_TRUE(CountsOf(*reproducible).empty());
  const auto cpu = CompileMlp("data=2", {.nccl = true});
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  EXPECT_TRUE(CountsOf(*cpu).empty());
}

TEST(LowerCollectivesTest, SumsOfBf16AreRoundedOnceUnlessToldOtherwise) {
  OptimizerOptions optimizer;
  optimizer.reduce = DType::kBF16;
  const auto count = [&](const char* mesh, bool bf16_sums) {
    optimizer.zero.mesh = *Mesh::Parse(mesh);
    const auto plan = CompileMlp(mesh, {.nccl = true, .bf16_sums = bf16_sums}, optimizer);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? CountsOf(*plan)["all_reduce bf16"] : -1;
  };
  EXPECT_GE(count("data=2 @cuda", false), 2 * 6);
  EXPECT_EQ(count("data=4 @cuda", false), 0);
  EXPECT_GE(count("data=4 @cuda", true), 4 * 6);
}

TEST(LowerCollectivesTest, StateThatLiesApartIsScatteredAndGathered) {
  OptimizerOptions optimizer;
  optimizer.zero = {1, "data", *Mesh::Parse("data=2")};
  const auto plan = CompileMlp("data=2 @cuda", {.nccl = true}, optimizer);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(CountsOf(*plan)["reduce_scatter f32"], 0);
  EXPECT_GT(CountsOf(*plan)["all_gather f32"], 0);
}

TEST(LowerCollectivesTest, AllDevicesOfAGroupHaveOneOrder) {
  for (const char* mesh : {"data=2 @cuda", "data=2 model=2 @cuda", "data=3 pipe=2 @cuda"}) {
    SCOPED_TRACE(mesh);
    const auto plan = CompileMlp(mesh, {.nccl = true}, {}, /*batch=*/12);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const plan::Program& program = plan->programs(0);
    std::map<int32_t, std::vector<int32_t>> order;  // of numbers, by device
    std::map<int32_t, int> members;
    std::map<int32_t, std::vector<int32_t>> groups;
    for (const plan::Stream& stream : program.streams()) {
      if (stream.kind() != plan::STREAM_COLLECTIVE) continue;
      for (const plan::ScheduleEntry& entry : stream.order()) {
        const plan::Instruction& x = program.actors(entry.actor()).script(entry.from());
        order[stream.device()].push_back(x.collective());
        ++members[x.collective()];
        groups[x.collective()] = *DevicesOfCollective(*plan, x);
      }
    }
    EXPECT_FALSE(groups.empty());
    for (const auto& [number, group] : groups) {
      EXPECT_EQ(members[number], static_cast<int>(group.size())) << "collective " << number;
    }
    // Of two devices, what both take part in comes in one order.
    for (const auto& [a, of_a] : order) {
      for (const auto& [b, of_b] : order) {
        const auto shared = [&](const std::vector<int32_t>& numbers, int32_t other) {
          std::vector<int32_t> kept;
          for (const int32_t number : numbers) {
            const std::vector<int32_t>& group = groups[number];
            if (std::count(group.begin(), group.end(), other) > 0) kept.push_back(number);
          }
          return kept;
        };
        EXPECT_EQ(shared(of_a, b), shared(of_b, a)) << "devices " << a << " and " << b;
      }
    }
  }
}

}  // namespace
}  // namespace sluice
