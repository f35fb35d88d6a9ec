#include "framework/plan/validate.h"

#include <time.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/plan/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::HasSubstr;

std::string Error(const std::string& text) {
  const absl::StatusOr<plan::Plan> plan = ParsePlan(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const auto index = ProgramIndex::Build(plan->programs(0));
  EXPECT_TRUE(index.ok()) << index.status();
  return std::string(ValidateProgram(*index).message());
}

TEST(ValidateTest, AcceptsWhatIsWhole) {
  EXPECT_EQ(Error(R"(
    actor feed on d0.host x 4; x = feed(1)
    actor model on d0.compute x 4; G += mul(x, w)
    actor update on d0.compute; w -= copy(G)
    reg w tokens 1; reg G every 4
    order d0.compute (model 0 0 1) (model 1 0 1) (model 2 0 1) (model 3 0 1) (update 0 0 1))"),
            "");
}

TEST(ValidateTest, RatesOfProducersAndReadersAgree) {
  EXPECT_THAT(Error("actor a on d0.compute x 3\n x = f()\nreg x every 2"),
              HasSubstr("register \"x\": emitted every 2 firings of actor \"a\", which fires 3"));
  EXPECT_THAT(Error("actor a on d0.compute x 2\n x = f()\nactor b on d0.compute x 3\n f(x)"),
              HasSubstr("2 tokens a step cannot serve the 3 firings of actor \"b\""));
  EXPECT_THAT(Error("actor a on d0.compute x 4\n x = f()\nactor b on d0.compute x 2\n f(x)"),
              HasSubstr("4 tokens a step cannot serve the 2 firings"));
}

TEST(ValidateTest, TokensFitTheirSlots) {
  EXPECT_THAT(Error("actor a on d0.compute\n x = f()\nreg x tokens 2"),
              HasSubstr("2 initial tokens in 1 slots"));
  EXPECT_THAT(Error("actor a on d0.compute\n x += f()\nreg x tokens 1 quota 2"),
              HasSubstr("updated in place needs one slot, has 2"));
}

TEST(ValidateTest, NoInstructionReadsWhatItUpdates) {
  EXPECT_THAT(Error("actor a on d0.compute\n w += f(w)\nreg w tokens 1"),
              HasSubstr("both reads and writes register \"w\""));
  EXPECT_THAT(Error("actor a on d0.compute\n x = f(x)"),
              HasSubstr("mark the operand as an update"));
  EXPECT_THAT(Error("actor a on d0.compute\n f(w)\n w += f()\n g(w)\nreg w tokens 1"),
              HasSubstr("reads register \"w\" both before and after it updates it"));
  EXPECT_EQ(Error("actor a on d0.compute\n x = f()\n x + 64 = g(x)\nactor b on d0.compute\n f(x)"),
            "");
}

TEST(ValidateTest, BytesAreTakenFromWhatIsWholeAndAlike) {
  const auto error = [](const std::string& instruction, const std::string& rest = "") {
    return Error(absl::StrCat("actor f on d0.compute x 2\n x = f()\n z = f()\n",
                              "actor a on d0.compute x 2\n ", instruction, "\n", rest));
  };
  EXPECT_EQ(error("y takes 1 = g(x)"), "");
  EXPECT_EQ(error("y takes 2 = g(z, x)"), "");
  EXPECT_EQ(error("%h = f()\n y takes 1 = g(%h)"), "");
  const std::string where = "cannot take the bytes of input ";
  EXPECT_THAT(error("y takes 2 = g(x)"), HasSubstr(where + "1: expected one of 1 inputs"));
  EXPECT_THAT(error("y takes -1 = g(x)"), HasSubstr(where + "-2: expected one of 1 inputs"));
  EXPECT_THAT(error("y takes -2147483648 = g(x)"), HasSubstr("expected one of 1 inputs"));
  EXPECT_THAT(error("y = g(x takes 1)"), HasSubstr("an input cannot take bytes"));
  EXPECT_THAT(error("y takes 1 = g(x, x)"), HasSubstr("an input that is no other operand"));
  EXPECT_THAT(error("y takes 1 = g(x + 8)"), HasSubstr("expected the whole of a register"));
  EXPECT_THAT(error("y takes 1 = g(x)", "reg x bytes 64"),
              HasSubstr(where + "0: expected as many bytes, got 16 for 64"));
  EXPECT_THAT(error("y takes 1 = g(x)", "reg x quota 2"),
              HasSubstr(where + "0: expected as many slots, got 1 for 2"));
  EXPECT_THAT(error("y takes 1 = g(w)", "reg w tokens 1"), HasSubstr("no state, of register"));
  EXPECT_THAT(error("y takes 1 = g(x)\n y + 8 = g(z)"), HasSubstr("nothing else writes"));
  EXPECT_THAT(Error("actor f on d0.compute\n x = f()\nactor a on d1.compute\n y takes 1 = g(x)"),
              HasSubstr(where + "0: expected one device"));
}

TEST(ValidateTest, RingsAreWhole) {
  EXPECT_THAT(Error("actor a on d0.compute x 2\n x = f()\nring q slots 1 registers x"),
              HasSubstr("takes 1 slots a round, emits 2 tokens"));
  EXPECT_THAT(Error("actor a on d0.compute\n x = f()\nreg x tokens 1\nring q slots 1 registers x"),
              HasSubstr("has a token at the start"));
  EXPECT_THAT(Error("actor a on d0.compute\n f(x)\nreg x\nring q slots 1 registers x"),
              HasSubstr("is the session's"));
  EXPECT_THAT(Error("actor a on d0.compute\n x = f()\nactor b on d1.compute\n y = f()\nring q "
                    "slots 1 registers x y"),
              HasSubstr("lies on device 1, others on 0"));
}

TEST(ValidateTest, OrdersHaveEachInstanceOnce) {
  const std::string actors = "actor a on d0.compute x 2\n f()\n g()\n";
  EXPECT_THAT(Error(actors + "order d0.compute (a 0 0 2)"), HasSubstr("micro-batch 1 0 times"));
  EXPECT_THAT(Error(actors + "order d0.compute (a 0 0 2) (a 1 0 2) (a 0 1 2)"),
              HasSubstr("2 times"));
}

TEST(ValidateTest, CollectivesAreOrderedAndOnePerDevice) {
  EXPECT_THAT(Error("actor a on d0.compute\n f() collective 1"), HasSubstr("which has no order"));
  EXPECT_THAT(Error("actor a on d0.compute\n f() collective 1\n f() collective 1\norder d0.compute "
                    "(a 0 0 2)"),
              HasSubstr("device 0 has two members"));
  EXPECT_THAT(
      Error(
          "actor a on d0.compute x 2\n f() collective 1\nactor b on d1.compute\n f() collective 1\n"
          "order d0.compute (a 0 0 1) (a 1 0 1)\norder d1.compute (b 0 0 1)"),
      HasSubstr("actor \"b\" fires 1 times a step, actor \"a\" 2"));
  EXPECT_THAT(
      Error(
          "actor a on d0.compute\n f() collective 1\nactor b on d0.collective\n f() collective 2\n"
          "order d0.compute (a 0 0 1)\norder d0.collective (b 0 0 1)"),
      HasSubstr("device 0 has collectives in two orders"));
}

TEST(ValidateTest, KindsAreOnesThatThereAre) {
  EXPECT_THAT(Error("actor a on d0.compute\n f() kind 17"),
              HasSubstr("no kind of instruction has number 17"));
  EXPECT_THAT(Error("actor a on d0.compute\n f() kind copy"),
              HasSubstr("expected no op, got \"f\""));
  EXPECT_THAT(Error("actor a on d0.compute\n f() collective 1 kind kernel"),
              HasSubstr("got collective 1, expected a number above 0 of collectives alone"));
  EXPECT_THAT(Error("actor a on d0.compute\n f() kind collective"), HasSubstr("got collective 0"));
  EXPECT_THAT(Error("stream $0 device 0 kind 9\nactor a on $0\n f()"),
              HasSubstr("no kind of stream has number 9"));
}

TEST(ValidateTest, TemporariesBelongToOneActor) {
  EXPECT_THAT(Error("actor a on d0.compute\n %x = f()\nactor b on d0.compute\n g(%x)"),
              HasSubstr("uses temporary 0, which is actor 0's"));
}

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// One that looks through all variables for each register takes ten seconds.
TEST(ValidateTest, ManyVariablesTakeTimeInProportion) {
  constexpr int kVariables = 60000;
  plan::Plan plan;
  plan::Device* device = plan.add_devices();
  device->set_memory_bytes(8 * kVariables);
  device->set_variable_bytes(8 * kVariables);
  plan::Program* program = plan.add_programs();
  for (int v = 0; v < kVariables; ++v) {
    const std::string name = absl::StrCat("layers/weight", v);
    plan::Variable* variable = plan.add_variables();
    variable->set_name(name);
    plan::VariableShard* shard = variable->add_shards();
    shard->set_offset(8 * v);
    plan::Register* reg = program->add_registers();
    reg->set_name(name);
    reg->set_variable(name);
    reg->set_producer(-1);
    reg->set_quota(1);
    reg->set_bytes(4);
  }
  const double begin = CpuSeconds();
  EXPECT_EQ(ValidatePlan(plan), absl::OkStatus());
  EXPECT_LT(CpuSeconds() - begin, 3);
}

// However far it has come.
TEST(ValidateTest, EndsSoonAfterItIsStopped) {
  const absl::StatusOr<plan::Plan> plan = ParsePlan(
      "plan\ndevice 0 0 memory 64\nactor a on d0.compute\n x = f()\nactor b on d0.compute\n f(x)");
  ASSERT_TRUE(plan.ok()) << plan.status();
  int asked = 0;
  const absl::Status whole = ValidatePlan(*plan, [&] {
    ++asked;
    return false;
  });
  EXPECT_FALSE(absl::IsCancelled(whole)) << whole;
  EXPECT_GE(asked, 4);  // around each index that is built
  for (int last = 1; last <= asked; ++last) {
    int n = 0;
    EXPECT_TRUE(absl::IsCancelled(ValidatePlan(*plan, [&] { return ++n == last; }))) << last;
  }
}

TEST(ValidateTest, PlansNameTheirVariablesAndDevices) {
  const auto error = [](const std::string& text) {
    const absl::StatusOr<plan::Plan> plan = ParsePlan(text);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return std::string(ValidateUnpackedPlan(*plan).message());
  };
  EXPECT_THAT(error("reg w variable weight\nactor a on d0.compute\n f(w)"),
              HasSubstr("is variable \"weight\", which the plan lacks"));
  EXPECT_THAT(error("plan\ndevice 0 0 kind 9"), HasSubstr("no kind of device has number 9"));
  const std::string across = "actor a on d0.compute\n x = f()\nactor b on d1.copy\n y = ";
  const std::string near = "plan\ndevice 0 0\ndevice 0 1 kind async\n" + across;
  EXPECT_THAT(error(near + "f(x)"),
              HasSubstr("expected operands in the memory of device 0:async1, got register \"x\" of "
                        "device 0:0"));
  EXPECT_EQ(error(near + "copy(x)"), "");
  EXPECT_EQ(error("plan\ndevice 0 0\ndevice 0 1 kind null\n" + across + "f(x)"), "");
  EXPECT_EQ(error(near + "f(x)\nreg x bytes 0"), "");
  const std::string far = "plan\ndevice 0 0\ndevice 1 0\n" + across;
  EXPECT_THAT(error(far + "copy(x)"), HasSubstr("got register \"x\" of device 0:0"));
  EXPECT_EQ(error(far + "pull(x)"), "");
  EXPECT_THAT(error("plan\ndevice 0 0\nactor a on d1.compute\n f()"),
              HasSubstr("on device 1 of 1"));
  EXPECT_THAT(error("plan\nvariable w f32 [2]\nshard 0"), HasSubstr("on device 0 of 0"));
  EXPECT_THAT(error("plan\ndevice 0 0 kind 9"), HasSubstr("no kind of device has number 9"));
  EXPECT_THAT(error("plan\ndevice 0 0\nactor a on d0.compute\n x = f()\nreg x device 3"),
              HasSubstr("lies on device 3 of 1"));
}

}  // namespace
}  // namespace sluice
