// The tiny GPT with its training state split over the devices that share a batch: bytes of devices
// and on the wire are counted in the plan, bits are compared with those of the plain layout, and
// checkpoints go from each to the other.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/compiler/compile.h"
#include "framework/plan/statistics.h"
#include "framework/train/variables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

GptLayout Layout(const std::string& mesh, int zero, int64_t micro_batches = 1) {
  GptLayout layout;
  layout.mesh = mesh;
  layout.micro_batches = micro_batches;
  layout.zero = zero;
  return layout;
}

// What a plan says of the first device, and of a step of all devices.
struct Counted {
  int64_t state_bytes = 0, parameter_bytes = 0;
  int64_t planned_bytes = 0;  // with all variables
  int64_t wire_bytes = 0, reduced_bytes = 0, gathered_bytes = 0;
};

Counted Count(const GptLayout& layout) {
  Counted counted;
  Graph graph;
  const OptimizerOptions optimizer = layout.Optimizer(AdamWWithClip().optimizer);
  EXPECT_EQ(BuildGptTrain(layout.Config(), optimizer, &graph), absl::OkStatus());
  CompileOptions options;
  options.mesh = *Mesh::Parse(layout.mesh);
  options.micro_batches = layout.micro_batches;
  options.machine = Machine::Cpu();
  const auto plan = CompilePlan({{"train", &graph}}, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return counted;
  for (const plan::Variable& variable : plan->variables()) {
    int64_t bytes = 4;
    for (const plan::VariableShard& shard : variable.shards()) {
      if (shard.device() != 0) continue;
      for (const int64_t extent : shard.shard().local()) bytes *= extent;
    }
    const bool state =
        absl::EndsWith(variable.name(), ".m") || absl::EndsWith(variable.name(), ".v");
    (state ? counted.state_bytes : counted.parameter_bytes) += bytes;
  }
  counted.planned_bytes = plan->devices(0).memory_bytes();
  const auto index = ProgramIndex::Build(plan->programs(0));
  EXPECT_TRUE(index.ok()) << index.status();
  const ProgramStatistics statistics = CountProgram(*index);
  counted.wire_bytes = statistics.wire_bytes;
  for (const BoxingCount& boxing : statistics.boxings) {
    const bool value = absl::StrContains(boxing.tensor, "adamw_value");
    if (value) counted.gathered_bytes += boxing.wire_bytes;
    if (absl::StrContains(boxing.tensor, "backward")) counted.reduced_bytes += boxing.wire_bytes;
  }
  return counted;
}

TEST(ZeroTest, StateTakesItsShareAndTheWireNoMoreThanAnAllReduce) {
  for (const int64_t devices : {2, 4}) {
    SCOPED_TRACE(devices);
    const std::string mesh = absl::StrCat("data=", devices);
    const Counted plain = Count(Layout(mesh, 0)), zero = Count(Layout(mesh, 1));
    const int64_t parameters = 4 * GptParameters(Layout(mesh, 0).Config());
    EXPECT_EQ(plain.parameter_bytes, parameters);
    EXPECT_EQ(plain.state_bytes, 2 * parameters);
    EXPECT_EQ(zero.parameter_bytes, parameters);
    EXPECT_EQ(zero.state_bytes, 2 * parameters / devices);
    EXPECT_LT(zero.planned_bytes, plain.planned_bytes);
    // Each device gets its part of a gradient from all others, and gives its part of the weights.
    EXPECT_EQ(zero.reduced_bytes, (devices - 1) * parameters);
    EXPECT_EQ(zero.gathered_bytes, (devices - 1) * parameters);
    // The norm alone is new: one number of each device.
    EXPECT_LE(zero.wire_bytes, plain.wire_bytes + 4 * devices * (devices - 1));
  }
}

// A gathered weight lives as long as a few ops read it, on top of a quarter of all.
TEST(ZeroTest, LevelThreeSparesTheBytesOfWeightsWhileTheStepRuns) {
  const Counted plain = Count(Layout("data=4", 0)), one = Count(Layout("data=4", 1)),
                three = Count(Layout("data=4", 3));
  EXPECT_EQ(three.parameter_bytes, plain.parameter_bytes / 4);
  EXPECT_EQ(three.state_bytes, plain.state_bytes / 4);
  const int64_t spared = plain.parameter_bytes - three.parameter_bytes;
  EXPECT_LT(three.planned_bytes, one.planned_bytes - spared / 2);
  EXPECT_EQ(three.reduced_bytes, 3 * plain.parameter_bytes);
}

// A weight is rounded where it is stored, and gathered for forward and backward in bf16. Gradients
// are reduced in f32.
TEST(ZeroTest, InBf16WeightsAreGatheredAtHalfTheBytes) {
  GptLayout low = Layout("data=4", 3);
  low.precision.compute = DType::kBF16;
  const Counted f32 = Count(Layout("data=4", 3)), bf16 = Count(low);
  EXPECT_EQ(bf16.reduced_bytes, f32.reduced_bytes);
  const int64_t gathered = f32.wire_bytes - f32.reduced_bytes;
  const int64_t low_gathered = bf16.wire_bytes - bf16.reduced_bytes;
  std::printf("gathered: f32 %d bytes, bf16 %d\n", static_cast<int>(gathered),
              static_cast<int>(low_gathered));
  EXPECT_LT(low_gathered, 0.55 * static_cast<double>(gathered));
}

TEST(ZeroTest, LevelsTwoAndThreeSplitGradientsAndParameters) {
  const int64_t parameters = 4 * GptParameters(Layout("data=2", 0).Config());
  // With one micro-batch level 2 is level 1.
  EXPECT_EQ(Count(Layout("data=2", 2)).wire_bytes, Count(Layout("data=2", 1)).wire_bytes);
  EXPECT_EQ(Count(Layout("data=2", 2)).planned_bytes, Count(Layout("data=2", 1)).planned_bytes);
  const Counted one = Count(Layout("data=2", 1, 4)), two = Count(Layout("data=2", 2, 4)),
                three = Count(Layout("data=2", 3, 4));
  EXPECT_EQ(one.reduced_bytes, parameters);
  EXPECT_EQ(two.reduced_bytes, 4 * parameters);  // by micro-batches
  EXPECT_LT(two.planned_bytes, one.planned_bytes);
  EXPECT_EQ(two.parameter_bytes, parameters);
  EXPECT_EQ(three.parameter_bytes, parameters / 2);
  EXPECT_EQ(three.state_bytes, parameters);
}

absl::StatusOr<std::unique_ptr<ParityRun>> Train(const GptLayout& layout, int64_t begin,
                                                 int64_t end, const std::string& checkpoint) {
  ASSIGN_OR_RETURN(auto run, ParityRun::Start(GptParity(layout), AdamWWithoutClip()));
  if (!checkpoint.empty()) {
    ASSIGN_OR_RETURN(const Checkpoint saved, Checkpoint::Load(checkpoint));
    RETURN_IF_ERROR(LoadVariables(saved, run->session()));
  }
  for (int64_t step = begin; step < end; ++step) RETURN_IF_ERROR(run->Step(step).status());
  RETURN_IF_ERROR(run->session()->CheckReplicas());
  return run;
}

absl::StatusOr<std::string> Save(ParityRun* run, const std::string& name) {
  std::vector<TensorEntry> entries;
  for (const VariableInfo& variable : run->session()->variables()) {
    entries.push_back({variable.name, variable.dtype, variable.shape});
  }
  return SaveCheckpoint(absl::StrCat(::testing::TempDir(), "/", name), CheckpointMeta(), entries,
                        [&](const TensorEntry& entry) { return run->session()->Read(entry.name); });
}

// "" if all variables have the same bits, else the first that differs.
std::string Difference(ParityRun* expected, ParityRun* got) {
  const auto a = expected->ReadVariables(), b = got->ReadVariables();
  EXPECT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->size(), b->size());
  for (const auto& [name, value] : *a) {
    const auto found = b->find(name);
    if (found == b->end() || found->second.bytes != value.bytes) return name;
  }
  return "";
}

// Without clipping, where the order in which a norm adds up shows in nothing. Level 2 adds up
// micro-batches in another order.
TEST(ZeroTest, EveryLevelHasTheBitsOfThePlainLayoutAndLoadsItsCheckpoints) {
  constexpr int64_t kHalf = 3;
  for (const char* mesh : {"data=2", "data=2 model=2"}) {
    SCOPED_TRACE(mesh);
    const auto half = Train(Layout(mesh, 0), 0, kHalf, "");
    const auto whole = Train(Layout(mesh, 0), 0, 2 * kHalf, "");
    ASSERT_TRUE(half.ok() && whole.ok()) << half.status() << whole.status();
    const auto plain = Save(half->get(), absl::StrCat("plain", mesh));
    ASSERT_TRUE(plain.ok()) << plain.status();
    for (const int zero : {1, 2, 3}) {
      SCOPED_TRACE(zero);
      const auto split_half = Train(Layout(mesh, zero), 0, kHalf, "");
      ASSERT_TRUE(split_half.ok()) << split_half.status();
      EXPECT_EQ(Difference(half->get(), split_half->get()), "");
      const auto there = Train(Layout(mesh, zero), kHalf, 2 * kHalf, *plain);
      ASSERT_TRUE(there.ok()) << there.status();
      EXPECT_EQ(Difference(whole->get(), there->get()), "") << "from the plain layout's checkpoint";
      const auto split = Save(split_half->get(), absl::StrCat("split", zero, mesh));
      ASSERT_TRUE(split.ok()) << split.status();
      const auto back = Train(Layout(mesh, 0), kHalf, 2 * kHalf, *split);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(Difference(whole->get(), back->get()), "") << "to the plain layout";
    }
  }
}

}  // namespace
}  // namespace sluice
