#include "framework/plan/program_index.h"

#include <string>
#include <vector>

#include "framework/plan/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

plan::Program Parse(const std::string& text) {
  absl::StatusOr<plan::Plan> plan = ParsePlan(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->programs(0);
}

int RegisterNamed(const plan::Program& program, const std::string& name) {
  for (int r = 0; r < program.registers_size(); ++r) {
    if (program.registers(r).name() == name) return r;
  }
  ADD_FAILURE() << name;
  return -1;
}

std::string Error(const std::string& text) {
  const plan::Program program = Parse(text);
  return std::string(ProgramIndex::Build(program).status().message());
}

const char kTrain[] = R"(
  actor feed on d0.host x 4; x = feed(1)
  actor model on d0.compute x 4
    h = mul(x, w)
    y = mul(h, x)
    G += copy(y)
    z = mul(h, y)
  actor update on d0.compute; w -= copy(G)
  actor fetch on d0.host x 4; log(z)
  reg x quota 3; reg w tokens 1; reg G every 4)";

TEST(ProgramIndexTest, TokensAreTakenAtFirstUseAndGivenAtLast) {
  const plan::Program program = Parse(kTrain);
  const auto index = ProgramIndex::Build(program);
  ASSERT_TRUE(index.ok()) << index.status();
  const int x = RegisterNamed(program, "x"), w = RegisterNamed(program, "w");
  const int G = RegisterNamed(program, "G");
  EXPECT_EQ(index->reg(x).tokens, 4);
  EXPECT_EQ(index->reg(G).tokens, 1);
  const ProgramIndex::Consumer& of_x = index->consumer(index->reg(x).consumers_begin);
  EXPECT_EQ(of_x.first, 0);
  EXPECT_EQ(of_x.last, 1);
  EXPECT_EQ(of_x.serves, 1);
  const ProgramIndex::Consumer& of_w = index->consumer(index->reg(w).consumers_begin);
  EXPECT_EQ(of_w.serves, 4);
  EXPECT_EQ(index->TokenOf(of_w, 7), 1);
  EXPECT_THAT(index->Acquires(1, 2), ElementsAre(G));
  EXPECT_THAT(index->Emits(1, 2), ElementsAre(G));
  EXPECT_THAT(index->Acquires(1, 3), testing::SizeIs(1));
  EXPECT_EQ(index->num_instances(), 4 + 16 + 1 + 4);
  const ProgramIndex::Instance e = index->InstanceAt(index->InstanceOf(1, 2, 3));
  EXPECT_EQ(e.actor, 1);
  EXPECT_EQ(e.firing, 2);
  EXPECT_EQ(e.instruction, 3);
}

TEST(ProgramIndexTest, WaitsAreEarlierInstances) {
  const plan::Program program = Parse(kTrain);
  const auto index = ProgramIndex::Build(program);
  ASSERT_TRUE(index.ok());
  std::vector<std::string> waits;
  // Fire 4 is the first of the second step: it needs the update, and a slot of x is long free.
  index->ForEachWait(1, 4, 0, [&](const ProgramIndex::Wait& wait) {
    waits.push_back(index->ActorName(wait.actor) + " " + std::to_string(wait.firing) + "." +
                    std::to_string(wait.instruction));
  });
  EXPECT_THAT(waits, ElementsAre("actor \"model\" 3.3", "actor \"feed\" 4.0",
                                 "actor \"update\" 0.0", "actor \"model\" 3.3"));
  waits.clear();
  index->ForEachWait(2, 0, 0, [&](const ProgramIndex::Wait& wait) {
    waits.push_back(index->ActorName(wait.actor) + " " + std::to_string(wait.firing) + "." +
                    std::to_string(wait.instruction));
  });
  // The accumulated gradient, and the last reader of the weight.
  EXPECT_THAT(waits, ElementsAre("actor \"model\" 3.2", "actor \"model\" 3.0"));
}

TEST(ProgramIndexTest, OwnReadsBetweenTheWritesOfABundleNeedNoToken) {
  const plan::Program program = Parse(R"(
    actor a on d0.compute x 2
      r = feed(1)
      r + 64 = mul(r)
      s = copy(r)
    actor b on d0.comm x 2; log(r, s)
    reg r bytes 128 quota 2)");
  const auto index = ProgramIndex::Build(program);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_THAT(index->Requires(0, 1), IsEmpty());
  EXPECT_THAT(index->Requires(0, 2), testing::SizeIs(1));  // after the last write: a reader
  EXPECT_EQ(index->Operands(0, 1)[0].divisor, 1);
}

TEST(ProgramIndexTest, RegistersOfARingTakeItsSlotsInTurn) {
  const plan::Program program = Parse(R"(
    actor gather on d0.comm
      a = feed(1)
      b = feed(2)
      c = feed(3)
    actor model on d0.compute; log(a); log(b); log(c)
    ring weights slots 2 registers a b c)");
  const auto index = ProgramIndex::Build(program);
  ASSERT_TRUE(index.ok());
  const int a = RegisterNamed(program, "a"), c = RegisterNamed(program, "c");
  EXPECT_EQ(index->SequenceOf(a, 0), 0);
  EXPECT_EQ(index->SequenceOf(c, 0), 2);
  EXPECT_EQ(index->SequenceOf(a, 1), 3);
  EXPECT_EQ(index->SlotOf(c, 0), 0);
  EXPECT_EQ(index->SlotOf(a, 1), 1);
  const ProgramIndex::Token taker = index->TokenAt(index->reg(a).ring, 5);
  EXPECT_EQ(taker.reg, c);
  EXPECT_EQ(taker.token, 1);
  std::vector<int> waits;
  index->ForEachWait(0, 0, 2, [&](const ProgramIndex::Wait& w) { waits.push_back(w.instruction); });
  EXPECT_THAT(waits, ElementsAre(1, 0));  // the script; the reader of a, whose slot c takes
}

TEST(ProgramIndexTest, StateReadAfterItsUpdateIsTheNewToken) {
  const plan::Program program = Parse(R"(
    actor a on d0.compute x 2
      m += feed(1)
      log(m)
    reg m tokens 1)");
  const auto index = ProgramIndex::Build(program);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->consumer(0).offset, 1);
  EXPECT_EQ(index->ReleasesOf(0, 0), 0);  // nobody reads what was there at the start
  EXPECT_EQ(index->ReleasesOf(0, 1), 1);
}

TEST(ProgramIndexTest, RefusesWhatRefersToNothing) {
  EXPECT_THAT(Error("actor a on d0.compute\n x = f()\nactor b on d0.compute\n x = f()"),
              HasSubstr("register \"x\" has two producers: actor \"a\" and actor \"b\""));
  EXPECT_THAT(Error("actor a on d0.compute\n f($3)"), HasSubstr("names register 3 of 0"));
  EXPECT_THAT(Error("actor a on $4\n f()"), HasSubstr("runs on stream 4 of 0"));
  EXPECT_THAT(Error("actor a on d0.compute"), HasSubstr("actor \"a\" has no instruction"));
  EXPECT_THAT(Error("actor a on d0.compute x 0\n f()"), HasSubstr("fires 0 times"));
  EXPECT_THAT(Error("reg x quota 0\nactor a on d0.compute\n x = f()"), HasSubstr("quota 0"));
  EXPECT_THAT(Error("reg x producer 0\nactor a on d0.compute\n f()"),
              HasSubstr("produces register \"x\", but no instruction writes it"));
  EXPECT_THAT(
      Error("reg x producer 1\nactor a on d0.compute\n x = f()\nactor b on d0.compute\n f()"),
      HasSubstr("actor \"a\" writes register \"x\", whose producer is actor \"b\""));
  EXPECT_THAT(Error("actor a on d0.compute\n x = f()\nring q slots 1 registers x\nring p slots 1 "
                    "registers x"),
              HasSubstr("is in two rings"));
  EXPECT_THAT(Error("actor a on d0.compute\n x = f()\nring q slots 1 registers $9"),
              HasSubstr("names register 9 of 1"));
  EXPECT_THAT(Error("actor a on d0.compute\n f()\nreuse a 0 0 -> a 0 7"),
              HasSubstr("instruction 7, which is not in the program"));
  EXPECT_THAT(Error("actor a on d0.compute\n f()\norder d0.compute (a 0 0 2)"),
              HasSubstr("which the stream does not have"));
}

TEST(ProgramIndexTest, KnowsWhichInstructionsHaveToDoWithTokens) {
  const plan::Plan plan = *ParsePlan(R"(
    actor a on d0.compute x 2
      %h = f(x)
      %h = f(%h)
      y = f(%h)
      %h = f(x)
      f(%h)
      %h = f()
    actor b on d0.comm x 2
      f(y)
      f()
    reuse b 1 1 -> a 0 5 wraps
    reg x producer -1)");
  const auto index = ProgramIndex::Build(plan.programs(0));
  ASSERT_EQ(index.status(), absl::OkStatus());
  std::string waits, exchanges;
  for (int a = 0; a < 2; ++a) {
    const ProgramIndex::Script script = index->ScriptOf(a);
    for (int i = 0; i < index->actor(a).length; ++i) {
      waits += (script.Uses(i) & ProgramIndex::kWaits) != 0 ? 'w' : '-';
      exchanges += (script.Uses(i) & ProgramIndex::kExchanges) != 0 ? 'x' : '-';
    }
  }
  // x is waited for at its first use and given back at its last; a reuse edge counts in every
  // firing.
  EXPECT_EQ(waits,
            "w-w--w"
            "w-");
  EXPECT_EQ(exchanges,
            "--xx-x"
            "xx");
}

// An index that took over other reuse edges says what one says that was built with them.
TEST(ProgramIndexTest, ReuseEdgesAreReadAnew) {
  plan::Program program = Parse(std::string(kTrain) + "\n  reuse model 0 1 -> model 2 0");
  auto index = ProgramIndex::Build(program);
  ASSERT_TRUE(index.ok()) << index.status();
  const plan::Program other = Parse(std::string(kTrain) +
                                    "\n  reuse model 1 3 -> update 0 0\n"
                                    "  reuse update 0 0 -> model 0 2 wraps");
  *program.mutable_reuse_edges() = other.reuse_edges();
  ASSERT_TRUE(index->ReadReuseEdges().ok());
  const auto fresh = ProgramIndex::Build(other);
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  for (int32_t instance = 0; instance < index->num_instances(); ++instance) {
    EXPECT_EQ(index->ReuseInto(instance), fresh->ReuseInto(instance)) << instance;
    EXPECT_EQ(index->ReuseFrom(instance), fresh->ReuseFrom(instance)) << instance;
  }
  for (int a = 0; a < index->num_actors(); ++a) {
    EXPECT_EQ(index->actor(a).reuse_edges_in, fresh->actor(a).reuse_edges_in) << a;
    for (int i = 0; i < index->actor(a).length; ++i) {
      EXPECT_EQ(index->ScriptOf(a).Uses(i), fresh->ScriptOf(a).Uses(i)) << a << " " << i;
    }
  }
  for (int n = 0; n < program.reuse_edges_size(); ++n) {
    EXPECT_EQ(index->reuse_local(n), fresh->reuse_local(n));
    EXPECT_EQ(index->reuse_target(n), fresh->reuse_target(n));
  }
  program.mutable_reuse_edges(1)->mutable_before()->set_instruction(4);
  EXPECT_THAT(std::string(index->ReadReuseEdges().message()), HasSubstr("reuse 1 names"));
}

}  // namespace
}  // namespace sluice
