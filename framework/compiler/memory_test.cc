#include "framework/compiler/memory.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "framework/actor/virtual_clock.h"
#include "framework/plan/proof.h"
#include "framework/plan/text.h"
#include "framework/plan/validate.h"
#include "framework/testing/hand_plans.h"
#include "framework/testing/interleaver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

plan::Program Recorded(const std::string& text) {
  absl::StatusOr<plan::Plan> plan = ParsePlan(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const auto run = RecordOrder(plan->mutable_programs(0));
  EXPECT_TRUE(run.ok()) << run.status();
  return plan->programs(0);
}

int64_t Makespan(const plan::Program& program, int steps) {
  const auto index = ProgramIndex::Build(program);
  EXPECT_TRUE(index.ok()) << index.status();
  ClockOptions options;
  options.steps = steps;
  const auto run = RunClock(*index, options);
  EXPECT_TRUE(run.ok()) << run.status();
  return run->makespan;
}

class PackedHandPlanTest : public testing::TestWithParam<HandPlan> {};

// Shared bytes change no value in any order, and cost no time.
TEST_P(PackedHandPlanTest, ComputesTheSameInSharedBytes) {
  const HandPlan& hand = GetParam();
  plan::Program program = Recorded(hand.text);
  const int64_t unpacked = Makespan(program, 3);
  const auto packing = PackMemory(&program);
  ASSERT_TRUE(packing.ok()) << packing.status();
  EXPECT_EQ(CheckPacking(program), absl::OkStatus());
  EXPECT_LE(Makespan(program, 3), unpacked + unpacked / 20);
  const auto index = ProgramIndex::Build(program);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(ValidateProgram(*index), absl::OkStatus());
  Certificate certificate;
  ASSERT_EQ(ProveLive(*index, &certificate), absl::OkStatus());
  const std::vector<LogEntry> expected = hand.expect(3);
  for (int seed = 0; seed < 1000; ++seed) {
    InterleaverOptions options;
    options.seed = seed;
    options.fifo = seed % 3 > 0;
    options.launch_ahead = seed % 2 == 1;
    options.initial = hand.initial;
    const auto run = RunInterleaved(*index, options);
    ASSERT_TRUE(run.ok()) << "seed " << seed << ": " << run.status();
    ASSERT_EQ(run->outcome.log, expected) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackedHandPlanTest, testing::ValuesIn(AllHandPlans()),
                         [](const auto& info) { return info.param.name; });

TEST(MemoryTest, LifetimesThatDoNotMeetShareBytes) {
  plan::Program program = Recorded(R"(
    actor a on d0.compute
      %x = feed(1)
      %y = copy(%x)
      %z = copy(%y)
      %u = copy(%z)
    temporary %x bytes 64
    temporary %y bytes 64
    temporary %z bytes 64
    temporary %u bytes 64)");
  PackingOptions options;
  options.base = {1000 * 64};
  const auto packing = PackMemory(&program, options);
  ASSERT_TRUE(packing.ok()) << packing.status();
  EXPECT_EQ(packing->devices[0].packed, 128);
  EXPECT_EQ(packing->devices[0].live, 128);
  EXPECT_EQ(packing->devices[0].unshared, 256);
  EXPECT_EQ(program.reuse_edges_size(), 0);  // one stream, in order
  for (const plan::Temporary& local : program.temporaries()) EXPECT_GE(local.offset(), 64000);
  EXPECT_EQ(CheckPacking(program, options), absl::OkStatus());
}

// Scratch has bytes while its instruction runs, and they are others' before and after.
TEST(MemoryTest, ScratchIsLiveWithItsInstruction) {
  plan::Program program = Recorded(R"(
    actor a on d0.compute x 2
      %x = feed(1)
      %y = copy(%x) scratch 640 at 0
      %z = copy(%y)
      %u = copy(%z) scratch 640 at 0
      log(%u) scratch 9999
    temporary %x bytes 64
    temporary %y bytes 64
    temporary %z bytes 64
    temporary %u bytes 64)");
  PackingOptions options;
  options.base = {1024};
  options.alignment = 256;
  const auto packing = PackMemory(&program, options);
  ASSERT_TRUE(packing.ok()) << packing.status();
  EXPECT_EQ(packing->devices[0].packed, 3 * 256 + 2 * 256);
  EXPECT_EQ(packing->devices[0].live, 640 + 2 * 64);
  EXPECT_EQ(packing->devices[0].unshared, 2 * 640 + 4 * 64);
  plan::Actor* actor = program.mutable_actors(0);
  for (const int i : {1, 3}) {
    const int64_t at = actor->script(i).scratch_offset();
    EXPECT_TRUE(at >= 1024 && at % 256 == 0) << at;
  }
  EXPECT_FALSE(actor->script(4).has_scratch_offset());  // not the plan's
  EXPECT_EQ(CheckPacking(program, options), absl::OkStatus());
  // Moved to where the instruction's own operand lies, it is found.
  actor->mutable_script(1)->set_scratch_offset(program.temporaries(0).offset());
  EXPECT_THAT(std::string(CheckPacking(program, options).message()),
              testing::AllOf(testing::HasSubstr("scratch of "),
                             testing::HasSubstr("share bytes and are live at one time")));
}

plan::Operand& Output(plan::Program* program, int actor, int instruction) {
  return *program->mutable_actors(actor)->mutable_script(instruction)->mutable_outputs(0);
}

PackingOptions InPlace() {
  PackingOptions options;
  options.take.in_place = [](absl::string_view op, size_t) { return op == "sq"; };
  return options;
}

// x goes on in y and y in z, in 640 bytes; mul is no op that could.
TEST(MemoryTest, OutputsTakeTheBytesOfInputsThatEndThere) {
  plan::Program program = Recorded(R"(
    actor f on d0.compute x 2
      x = feed(1)
      s = mul(x)
    actor b on d0.compute x 2
      y = sq(x)
      %z = sq(y)
      log(%z, s)
    reg x bytes 640
    reg y bytes 640
    reg s bytes 640
    temporary %z bytes 640)");
  const auto packing = PackMemory(&program, InPlace());
  ASSERT_TRUE(packing.ok()) << packing.status();
  EXPECT_EQ(Output(&program, 0, 1).takes(), 0);
  EXPECT_EQ(Output(&program, 1, 0).takes(), 1);
  EXPECT_EQ(Output(&program, 1, 1).takes(), 1);
  EXPECT_EQ(packing->devices[0].packed, 2 * 640);
  EXPECT_EQ(packing->devices[0].live, 2 * 640);
  EXPECT_EQ(packing->devices[0].unshared, 4 * 640);
  EXPECT_EQ(CheckPacking(program), absl::OkStatus());
  // Elsewhere it has not what it takes.
  program.mutable_temporaries(0)->set_offset(program.temporaries(0).offset() + 64);
  EXPECT_THAT(std::string(CheckPacking(program).message()),
              testing::HasSubstr("expected both at one place"));
}

// The second firing's x is made before the first one's y has been read: they cannot take turns.
TEST(MemoryTest, AChainOfOneFiringIsOverBeforeTheNextBegins) {
  const auto packed = [](const char* order) {
    auto plan = ParsePlan(absl::StrCat(R"(
      actor f on d0.compute x 2
        x = feed(1)
        y = sq(x)
      actor b on d0.compute x 2; z = sq(y)
      actor c on d0.compute x 2; log(z)
      reg x bytes 640
      reg y bytes 640
      reg z bytes 640
      order d0.compute )",
                                       order));
    EXPECT_TRUE(plan.ok()) << plan.status();
    plan::Program program = plan->programs(0);
    EXPECT_TRUE(PackMemory(&program, InPlace()).ok());
    EXPECT_EQ(CheckPacking(program), absl::OkStatus());
    return std::pair(Output(&program, 0, 1).takes(), Output(&program, 1, 0).takes());
  };
  EXPECT_EQ(packed("(f 0 0 2) (b 0 0 1) (c 0 0 1) (f 1 0 2) (b 1 0 1) (c 1 0 1)"), std::pair(1, 1));
  EXPECT_EQ(packed("(f 0 0 2) (b 0 0 1) (f 1 0 1) (c 0 0 1) (f 1 1 2) (b 1 0 1) (c 1 0 1)"),
            std::pair(1, 0));
}

// Whoever else reads an input must be done by then anyway: nobody waits for memory's sake.
TEST(MemoryTest, WhatOthersStillReadIsNotTaken) {
  plan::Program program = Recorded(R"(
    actor a on d0.compute
      x = feed(1)
      y = sq(x)
      z = sq(y)
      log(y, z)
    actor send on d1.comm; r = mul(x) cost 2
    actor fetch on d1.host; log(r)
    reg x bytes 640
    reg y bytes 640
    reg z bytes 640)");
  ASSERT_TRUE(PackMemory(&program, InPlace()).ok());
  EXPECT_EQ(Output(&program, 0, 1).takes(), 0);  // `send` reads x, too
  EXPECT_EQ(Output(&program, 0, 2).takes(), 0);  // y is read later
  EXPECT_EQ(CheckPacking(program), absl::OkStatus());
  // Where a plan says otherwise, the proof finds who waits for nobody, and who comes later.
  for (const int i : {1, 2}) {
    plan::Program wrong = program;
    plan::Operand& taker = Output(&wrong, 0, i);
    taker.set_takes(1);
    wrong.mutable_registers(taker.register_())
        ->set_slot_offsets(
            0, wrong.registers(wrong.actors(0).script(i).inputs(0).register_()).slot_offsets(0));
    EXPECT_THAT(std::string(CheckPacking(wrong).message()),
                testing::AllOf(testing::HasSubstr("share bytes and nothing makes"),
                               testing::HasSubstr("wait for")))
        << i;
  }
}

TEST(MemoryTest, BytesThatChangeStreamsGetAReuseEdge) {
  // The copy to the other device reads `x` when nothing else makes `y`'s writer wait for it.
  plan::Program program = Recorded(R"(
    actor a on d0.compute
      x = feed(1) cost 1
      s = feed(2) cost 9
      t = copy(s)
      y = feed(3) cost 1
      z = copy(y)
    actor send on d1.comm; r = copy(x) cost 2
    actor fetch on d1.host; log(r, z, t)
    reg x bytes 640
    reg y bytes 640)");
  const auto packing = PackMemory(&program);
  ASSERT_TRUE(packing.ok()) << packing.status();
  EXPECT_LT(packing->devices[0].packed, packing->devices[0].unshared);
  EXPECT_GT(program.reuse_edges_size(), 0);
  EXPECT_EQ(CheckPacking(program), absl::OkStatus());
  program.clear_reuse_edges();
  const absl::Status status = CheckPacking(program);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("share bytes and"));
}

TEST(MemoryTest, WhatLivesAcrossStepsSharesNothing) {
  plan::Program program = Recorded(R"(
    actor a on d0.compute x 3
      x = feed(1)
      %y = copy(x)
      log(%y)
    reg x quota 2 bytes 64)");
  const auto packing = PackMemory(&program);
  ASSERT_TRUE(packing.ok());
  EXPECT_EQ(packing->devices[0].packed, 192);  // three takes of two slots rotate
  // Moving the local there is found.
  program.mutable_temporaries(0)->set_offset(program.registers(0).slot_offsets(0));
  EXPECT_THAT(std::string(CheckPacking(program).message()),
              testing::HasSubstr("lives across steps"));
}

// Whatever else a program has, and in whichever order they come.
TEST(MemoryTest, WhatProgramsShareLiesFirstByName) {
  plan::Program one = Recorded(R"(
    actor a on d0.compute
      %x = feed(1)
      %y = copy(%x, b, a)
    actor keep on d0.compute; b -= copy(%z); a -= copy(%z)
    temporary %x bytes 640
    temporary %y bytes 64
    temporary %z bytes 64
    reg b bytes 100 tokens 1
    reg a bytes 64 tokens 1)");
  plan::Program two = Recorded(R"(
    actor keep on d0.compute; a -= copy(%z); b -= copy(%z)
    temporary %z bytes 64
    reg a bytes 64 tokens 1
    reg b bytes 100 tokens 1)");
  PackingOptions options;
  options.base = {64};
  for (plan::Program* program : {&one, &two}) {
    const auto packing = PackMemory(program, options);
    ASSERT_TRUE(packing.ok()) << packing.status();
    for (const plan::Register& reg : program->registers()) {
      EXPECT_EQ(reg.slot_offsets(0), reg.name() == "a" ? 64 : 128);
    }
    for (const plan::Temporary& local : program->temporaries()) EXPECT_GE(local.offset(), 256);
    EXPECT_EQ(CheckPacking(*program, options), absl::OkStatus());
    EXPECT_EQ(packing->devices[0].packed, program == &one ? 192 + 704 : 192 + 64);
  }
}

// One stage of a transformer, roughly: blocks of activations that backward reads again, workspaces
// that it does not, gradients that a second stream takes to be reduced.
std::string Layers(int devices, int layers, int micro) {
  std::string text;
  for (int d = 0; d < devices; ++d) {
    const auto reg = [&](const std::string& name, int64_t bytes, const std::string& rest = "") {
      absl::StrAppend(&text, "reg ", name, "_", d, " bytes ", bytes, " ", rest, "\n");
    };
    absl::StrAppend(&text, "actor feed", d, " on d", d, ".host x ", micro, "; x0_", d,
                    " = feed(1)\nactor model", d, " on d", d, ".compute x ", micro, "\n");
    reg("x0", 512, "quota 2");
    std::string body;
    for (int l = 1; l <= layers; ++l) {
      absl::StrAppend(&body, absl::Substitute(R"(
        %n$0_$2 = copy(%x$1_$2) cost 2
        %q$0_$2 = mul(%n$0_$2) cost 9
        %s$0_$2 = copy(%q$0_$2) cost 4
        %a$0_$2 = mul(%s$0_$2, %q$0_$2) cost 4
        %m$0_$2 = mul(%a$0_$2) cost 12
        %g$0_$2 = copy(%m$0_$2) cost 2
        %x$0_$2 = add(%x$1_$2, %g$0_$2) cost 12)",
                                              l, l - 1, d));
    }
    absl::StrAppend(&body, "\n        %e", layers, "_", d, " = copy(%x", layers, "_", d, ")");
    for (int l = layers; l >= 1; --l) {
      absl::StrAppend(&body, absl::Substitute(R"(
        %t$0_$2 = mul(%e$0_$2, %g$0_$2) cost 12
        G$0_$2 += mul(%t$0_$2, %m$0_$2) cost 12
        %u$0_$2 = mul(%t$0_$2, %a$0_$2) cost 9
        %v$0_$2 = mul(%u$0_$2, %s$0_$2) cost 9
        H$0_$2 += mul(%v$0_$2, %n$0_$2) cost 9
        %e$1_$2 = add(%v$0_$2, %e$0_$2) cost 2)",
                                              l, l - 1, d));
    }
    std::string first = absl::StrCat("  %x0_", d, " = copy(x0_", d, ")\n");
    absl::StrAppend(&text, first, body, "\n");
    absl::StrAppend(&text, "actor reduce", d, " on d", d, ".comm\n");
    for (int l = layers; l >= 1; --l) {
      absl::StrAppend(&text, absl::Substitute("  r$0_$1 = add(G$0_$1, H$0_$1)\n", l, d));
    }
    absl::StrAppend(&text, "actor update", d, " on d", d, ".compute\n");
    for (int l = layers; l >= 1; --l) {
      absl::StrAppend(&text, absl::Substitute("  w$0_$1 -= copy(r$0_$1)\n", l, d));
      const auto local = [&](const char* name, int64_t bytes) {
        absl::StrAppend(&text,
                        absl::Substitute("temporary %$0$1_$2 bytes $3\n", name, l, d, bytes));
      };
      reg(absl::StrCat("G", l), 4 * 4096, absl::StrCat("every ", micro));
      reg(absl::StrCat("H", l), 4096, absl::StrCat("every ", micro));
      reg(absl::StrCat("r", l), 5 * 4096);
      absl::StrAppend(&text,
                      absl::Substitute("reg w$0_$1 bytes 64 tokens 1 variable w$0_$1\n", l, d));
      local("n", 8192), local("q", 3 * 8192), local("s", 16384), local("a", 8192);
      local("m", 4 * 8192), local("g", 4 * 8192), local("x", 8192);
      local("t", 4 * 8192), local("u", 8192), local("v", 3 * 8192), local("e", 8192);
    }
  }
  return text;
}

TEST(MemoryTest, PacksLayersTightlyAndFast) {
  for (const auto& [devices, layers, micro] :
       {std::tuple(1, 4, 1), {2, 4, 2}, {4, 8, 4}, {8, 12, 8}}) {
    plan::Program program = Recorded(Layers(devices, layers, micro));
    const auto begin = std::chrono::steady_clock::now();
    const auto packing = PackMemory(&program);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ASSERT_TRUE(packing.ok()) << packing.status();
    EXPECT_EQ(CheckPacking(program), absl::OkStatus());
    for (const PackedDevice& device : packing->devices) {
      EXPECT_LE(device.packed, 1.05 * device.live) << devices << "x" << layers << "x" << micro;
    }
    std::cout << devices << " devices, " << layers << " layers, " << micro
              << " micro-batches: " << packing->devices[0].packed << " of "
              << packing->devices[0].live << " live, " << packing->devices[0].unshared
              << " unshared, " << program.reuse_edges_size() << " reuse edges, " << seconds
              << " s\n";
    EXPECT_LT(seconds, 5);
  }
}

TEST(MemoryTest, OrderProofAndClockAreFastOnTwentyThousandEvents) {
  plan::Program program;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto since = [&](auto begin) {
    return std::chrono::duration<double>(now() - begin).count();
  };
  absl::StatusOr<plan::Plan> plan = ParsePlan(Layers(8, 24, 8));
  ASSERT_TRUE(plan.ok());
  program = plan->programs(0);
  auto begin = now();
  const auto run = RecordOrder(&program);
  ASSERT_TRUE(run.ok()) << run.status();
  const double record = since(begin);
  begin = now();
  const auto index = ProgramIndex::Build(program);
  const double build = since(begin);
  Certificate certificate;
  begin = now();
  ASSERT_EQ(ProveLive(*index, &certificate), absl::OkStatus());
  const double prove = since(begin);
  begin = now();
  ASSERT_EQ(CheckCertificate(*index, certificate), absl::OkStatus());
  const double check = since(begin);
  std::cout << index->num_instances() << " instances: record " << record << " s, index " << build
            << " s, proof " << prove << " s, certificate " << check << " s\n";
  EXPECT_GT(index->num_instances(), 20'000);
  EXPECT_LT(prove, 0.5);  // 0.01 s alone on a core; the machine may be busy
  EXPECT_LT(record, 1);
}

}  // namespace
}  // namespace sluice
