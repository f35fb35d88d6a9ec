#include "framework/actor/actor.h"

#include <string>
#include <vector>

#include "framework/plan/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

struct Fixture {
  explicit Fixture(const char* text)
      : plan(*ParsePlan(text)), index(*ProgramIndex::Build(plan.programs(0))) {}
  plan::Plan plan;
  ProgramIndex index;
};

MessageList Finish(Actor* actor, Fence fence = 0) {
  MessageList out;
  EXPECT_TRUE(actor->Ready());
  actor->Finish(fence, &out);
  return out;
}

TEST(ActorTest, QuotaBoundsHowFarAProducerRuns) {
  const Fixture f(R"(
    actor a on d0.compute; x = feed(1)
    actor b on d1.compute; log(x)
    reg x quota 2)");
  Actor a(&f.index, 0), b(&f.index, 1);
  EXPECT_FALSE(b.Ready());
  MessageList first = Finish(&a);
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].kind, Message::Kind::kReq);
  EXPECT_EQ(first[0].to, 1);
  EXPECT_EQ(a.SlotOf(0), 1);  // the second firing writes the second slot
  Finish(&a);
  EXPECT_FALSE(a.Ready());
  b.On(first[0]);
  const MessageList ack = Finish(&b);
  ASSERT_THAT(ack, SizeIs(1));
  EXPECT_EQ(ack[0].kind, Message::Kind::kAck);
  EXPECT_EQ(ack[0].sequence, 2);
  a.On(ack[0]);
  EXPECT_TRUE(a.Ready());
  EXPECT_EQ(a.SlotOf(0), 0);
  EXPECT_EQ(a.MostMessages(), 1);
}

TEST(ActorTest, ReqAndAckLeaveInMidScript) {
  const Fixture f(R"(
    actor a on d0.compute
      y = mul(x)
      z = copy(y)
    actor b on d1.compute; x = feed(1)
    actor c on d1.comm; log(y, z))");
  Actor a(&f.index, 0), b(&f.index, 1);
  for (const Message& m : Finish(&b)) a.On(m);
  const MessageList first = Finish(&a);
  EXPECT_EQ(a.cursor(), 1);
  ASSERT_THAT(first, SizeIs(2));  // y to c, x's slot to b; y to itself needs no message
  EXPECT_EQ(first[0].to, 2);
  EXPECT_EQ(first[1].to, 1);
  EXPECT_THAT(Finish(&a), SizeIs(1));
  EXPECT_EQ(a.firing(), 1);
  EXPECT_EQ(a.step(), 1);
}

TEST(ActorTest, RatesServeAndEmitEvery) {
  const Fixture f(R"(
    actor a on d0.compute x 3
      G += mul(x, w)
    actor u on d0.compute
      w -= copy(G)
    reg w tokens 1; reg G every 3)");
  Actor a(&f.index, 0), u(&f.index, 1);
  MessageList granted;
  GrantStep(f.index, 0, &granted);
  ASSERT_THAT(granted, SizeIs(1));  // x is the session's: one token a step, for three firings
  a.On(granted[0]);
  EXPECT_THAT(Finish(&a), IsEmpty());
  EXPECT_THAT(Finish(&a), IsEmpty());
  EXPECT_FALSE(u.Ready());
  const MessageList last = Finish(&a);  // emits G, gives w back; x's slot is nobody's
  ASSERT_THAT(last, SizeIs(2));
  u.On(last[1]);
  EXPECT_FALSE(u.Ready());
  u.On(last[0]);
  EXPECT_TRUE(u.Ready());
  EXPECT_FALSE(a.Ready());  // the next step's w
}

TEST(ActorTest, AnUpdateWaitsForEveryOtherReader) {
  const Fixture f(R"(
    actor a on d0.compute; log(w)
    actor b on d1.compute; log(w)
    actor u on d0.comm; w += feed(1)
    reg w tokens 1)");
  Actor a(&f.index, 0), b(&f.index, 1), u(&f.index, 2);
  EXPECT_TRUE(a.Ready());  // a token is there at the start
  EXPECT_FALSE(u.Ready());
  u.On(Finish(&a)[0]);
  EXPECT_FALSE(u.Ready());
  ProgramIndex::Wait missing;
  ASSERT_TRUE(u.FindMissing(&missing));
  EXPECT_EQ(missing.kind, ProgramIndex::WaitKind::kSlot);
  u.On(Finish(&b)[0]);
  const MessageList next = Finish(&u);
  EXPECT_THAT(next, SizeIs(2));
  EXPECT_FALSE(a.Ready());
  a.On(next[0]);
  EXPECT_TRUE(a.Ready());
}

TEST(ActorTest, PassesAreTokensOfTheirOwn) {
  const Fixture f(R"(
    actor a on d0.compute; x = feed(1)
    actor b on d0.comm; y = feed(2)
    reuse a 0 0 -> b 0 0
    reuse b 0 0 -> a 0 0 wraps)");
  Actor a(&f.index, 0), b(&f.index, 1);
  EXPECT_TRUE(a.Ready());  // what wraps is there at the start
  EXPECT_FALSE(b.Ready());
  const MessageList reuse_edge = Finish(&a);
  ASSERT_THAT(reuse_edge, SizeIs(1));
  EXPECT_EQ(reuse_edge[0].kind, Message::Kind::kReuse);
  EXPECT_FALSE(a.Ready());
  b.On(reuse_edge[0]);
  a.On(Finish(&b)[0]);
  EXPECT_TRUE(a.Ready());
}

TEST(ActorTest, FencesComeWithWhatTheyGuard) {
  const Fixture f(R"(
    actor a on d0.compute; x = feed(1)
    actor b on d1.compute; log(x)
    reg x quota 1)");
  Actor a(&f.index, 0), b(&f.index, 1);
  b.On(Finish(&a, 71)[0]);
  std::vector<Fence> fences;
  b.AppendFences(0, &fences);
  EXPECT_THAT(fences, ElementsAre(71));
  a.On(Finish(&b, 72)[0]);
  fences.clear();
  a.AppendFences(0, &fences);
  EXPECT_THAT(fences, ElementsAre(72));
}

// What an instruction behind the cursor takes is asked for before its turn has come.
TEST(ActorTest, TakesOfInstructionsBehindTheCursor) {
  const Fixture f(R"(
    actor a on d0.compute
      w = feed(1)
      x = copy(w)
      y = copy(w)
    actor b on d1.compute; log(x)
    actor c on d1.comm; log(1)
    reuse c 0 0 -> a 0 2 wraps
    reg x quota 1)");
  Actor a(&f.index, 0), b(&f.index, 1), c(&f.index, 2);
  for (const int32_t instruction : {0, 1, 2}) EXPECT_TRUE(a.CanTake(instruction));
  Finish(&a);
  b.On(Finish(&a, 71)[0]);
  Finish(&a);
  EXPECT_TRUE(a.CanTake(0));
  EXPECT_FALSE(a.CanTake(1));  // its slot
  EXPECT_FALSE(a.CanTake(2));  // its bytes
  a.On(Finish(&b, 72)[0]);
  EXPECT_TRUE(a.CanTake(1));
  EXPECT_FALSE(a.CanTake(2));
  a.On(Finish(&c, 73)[0]);
  EXPECT_TRUE(a.CanTake(2));
  for (const int32_t instruction : {1, 2}) {
    std::vector<Fence> fences;
    a.AppendFences(instruction, &fences);
    EXPECT_THAT(fences, ElementsAre(71 + instruction));
  }
}

TEST(ActorTest, StopsAtItsLimitAndSaysWhatItMisses) {
  const Fixture f(R"(
    actor a on d0.compute; y = mul(x)
    actor b on d1.compute; log(y))");
  Actor a(&f.index, 0);
  ProgramIndex::Wait missing;
  ASSERT_TRUE(a.FindMissing(&missing));
  EXPECT_EQ(missing.kind, ProgramIndex::WaitKind::kToken);
  EXPECT_EQ(missing.actor, -1);  // the session's
  a.set_step_limit(1);
  MessageList granted;
  for (int step = 0; step < 2; ++step) GrantStep(f.index, step, &granted);
  for (const Message& m : granted) a.On(m);
  Finish(&a);
  EXPECT_TRUE(a.Done());
  EXPECT_FALSE(a.Ready());
  EXPECT_FALSE(a.FindMissing(&missing));
}

}  // namespace
}  // namespace sluice
