#include "framework/compiler/transfers.h"

#include <string>

#include "framework/plan/kinds.h"
#include "framework/plan/text.h"
#include "framework/plan/validate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// What lowering makes of two devices: one is fed and computes, the other reads it twice, once to
// move it and once to sum it with its own, and is fetched from.
constexpr char kProgram[] = R"(
  program main
  stream d0.host
  stream d0.compute
  stream d1.comm
  stream d1.compute
  stream d1.host
  actor feed on d0.host x 2
    x : f32 [4] = feed(step)
  actor f on d0.compute x 2
    y : f32 [4] = gelu(x : f32 [4])
  actor move on d1.comm x 2 priority 3
    z : f32 [4] = fold(y : f32 [4])
      region [0] [4] sources [0] fold [0] from [0] [1] to 0 [1]
  actor add on d1.comm x 2 priority 4
    s : f32 [4] = fold(y : f32 [4], z : f32 [4]) reduction sum
      region [0] [4] sources [0, 1] fold [0, 1, -1] from [0, 0] [1] [1] to 0 [1]
  actor g on d1.compute x 2
    %t : f32 [4] = fold(y : f32 [4], s : f32 [4]) reduction sum
      region [0] [4] sources [0, 1] fold [0, 1, -1] from [0, 0] [1] [1] to 0 [1]
    l : f32 [4] = gelu(%t : f32 [4])
  actor fetch on d1.host x 2
    fetch(l : f32 [4])
  reg step producer -1 bytes 0
)";

plan::Plan Staged(const std::string& devices, const std::string& registers = "") {
  absl::StatusOr<plan::Plan> plan = ParsePlan("plan\n" + devices + kProgram + registers);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!NeedsTransfers(*plan)) return *plan;
  AddHostDevices(&*plan);
  EXPECT_THAT(std::string(ValidateUnpackedPlan(*plan).message()),
              HasSubstr("expected operands in"));
  auto staged = StageTransfers(*plan, Machine::Cpu(), {plan->programs(0), {}});
  EXPECT_TRUE(staged.ok()) << staged.status();
  if (staged.ok()) *plan->mutable_programs(0) = std::move(staged->program);
  EXPECT_EQ(ValidateUnpackedPlan(*plan), absl::OkStatus());
  return *plan;
}

const plan::Actor* FindActor(const plan::Plan& plan, const std::string& name) {
  for (const plan::Actor& actor : plan.programs(0).actors()) {
    if (actor.name() == name) return &actor;
  }
  return nullptr;
}

TEST(TransfersTest, DevicesOfTheHostNeedNone) {
  const plan::Plan plan = Staged("device 0 0\ndevice 0 1 kind null\n");
  EXPECT_EQ(plan.devices_size(), 2);
  EXPECT_EQ(plan.programs(0).actors_size(), 6);
}

TEST(TransfersTest, EachSpaceGetsACopyThatItsReadersShare) {
  const plan::Plan plan = Staged("device 0 0 kind async\ndevice 0 1 kind async\n");
  const plan::Program& program = plan.programs(0);
  ASSERT_EQ(plan.devices_size(), 3);
  EXPECT_EQ(KindOf(plan.devices(2)), DeviceKind::kCpu);
  // The fold that only moves is a copy itself; those that sum share one.
  EXPECT_EQ(FindActor(plan, "move")->script(0).kind(), plan::INSTRUCTION_COPY);
  EXPECT_EQ(FindActor(plan, "add")->script(0).kind(), plan::INSTRUCTION_FOLD);
  ASSERT_EQ(program.actors_size(), 6 + 3);
  for (const char* name : {"d0.copy(x.d0)", "d1.copy(y.d1)", "d1.copy(l.d2)"}) {
    const plan::Actor* copy = FindActor(plan, name);
    ASSERT_NE(copy, nullptr) << name;
    EXPECT_EQ(copy->firings_per_step(), 2);
    EXPECT_EQ(copy->script(0).wire_bytes(), 16);
    // One direction does not wait for the other: only what is fetched leaves a device.
    const bool out = copy->name() == "d1.copy(l.d2)";
    EXPECT_EQ(program.streams(copy->stream()).kind(),
              out ? plan::STREAM_COPY_OUT : plan::STREAM_COPY)
        << name;
    EXPECT_EQ(program.registers(copy->script(0).outputs(0).register_()).quota(), 2);
  }
  const int staging = FindActor(plan, "d1.copy(y.d1)")->script(0).outputs(0).register_();
  EXPECT_EQ(FindActor(plan, "add")->script(0).inputs(0).register_(), staging);
  EXPECT_EQ(FindActor(plan, "g")->script(0).inputs(0).register_(), staging);
  EXPECT_EQ(program.registers(staging).device(), 1);
  EXPECT_EQ(FindActor(plan, "d1.copy(y.d1)")->priority(), 4);
  // The host reads and writes its own memory; what is fetched is copied there by its device.
  for (const char* name : {"feed", "fetch"}) {
    EXPECT_EQ(program.streams(FindActor(plan, name)->stream()).device(), 2) << name;
  }
  EXPECT_EQ(program.registers(FindActor(plan, "feed")->script(0).outputs(0).register_()).device(),
            2);
  EXPECT_EQ(program.registers(FindActor(plan, "fetch")->script(0).inputs(0).register_()).device(),
            2);
}

// A CPU cannot reach another device's memory, not even to move bytes: that device brings them.
TEST(TransfersTest, ACpuIsBroughtWhatItReads) {
  const plan::Plan plan = Staged("device 0 0 kind async\ndevice 0 1\n");
  const plan::Program& program = plan.programs(0);
  EXPECT_EQ(plan.devices_size(), 2);
  EXPECT_EQ(FindActor(plan, "move")->script(0).kind(), plan::INSTRUCTION_FOLD);
  EXPECT_EQ(program.streams(FindActor(plan, "move")->stream()).kind(), plan::STREAM_COMM);
  const plan::Actor* copy = FindActor(plan, "d0.copy(y.d1)");
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(program.streams(copy->stream()).device(), 0);
  EXPECT_EQ(program.registers(copy->script(0).outputs(0).register_()).device(), 1);
}

// A register may be larger than what is written into it: as large as another of its class needs it.
TEST(TransfersTest, ARegisterThatIsNotFilledIsCopiedAsBytes) {
  const plan::Plan plan =
      Staged("device 0 0 kind async\ndevice 0 1 kind async\n", "reg y bytes 24 device 0\n");
  const plan::Actor* copy = FindActor(plan, "d1.copy(y.d1)");
  ASSERT_NE(copy, nullptr);
  const plan::Operand& read = copy->script(0).inputs(0);
  EXPECT_EQ(read.shard().dtype(), static_cast<int32_t>(DType::kU8));
  ASSERT_EQ(read.shard().local_size(), 1);
  EXPECT_EQ(read.shard().local(0), 24);
}

TEST(TransfersTest, WritesIntoOtherSpacesAreRefused) {
  absl::StatusOr<plan::Plan> plan = ParsePlan(R"(plan
    device 0 0 kind async
    device 0 1 kind async
    actor f on d0.compute
      y : f32 [4] = gelu()
    reg y device 1)");
  ASSERT_TRUE(plan.ok()) << plan.status();
  AddHostDevices(&*plan);
  const absl::Status status =
      StageTransfers(*plan, Machine::Cpu(), {plan->programs(0), {}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("expected outputs in the memory of device 0:async0, register y"));
}

}  // namespace
}  // namespace sluice
