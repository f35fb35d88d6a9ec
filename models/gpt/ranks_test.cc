// The tiny GPT on several ranks of this process, each with a runtime and memory of its own: every
// layout computes the bits of one rank, whatever the net does with the order of what it carries.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/comm/in_process_net.h"
#include "framework/testing/layouts.h"
#include "framework/testing/rank_parity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

using Plans = std::vector<plan::Plan>;  // by rank

Plans PlansOf(const GptLayout& layout, int32_t ranks) {
  absl::StatusOr<Plans> plans = PlansOfRanks(GptParity(layout), AdamWWithClip(), ranks);
  EXPECT_TRUE(plans.ok()) << plans.status();
  return plans.ok() ? *std::move(plans) : Plans(ranks);
}

RankRecords Train(const GptLayout& layout, const Plans& plans, const InProcessNetOptions& delays,
                  const RuntimeOptions& options = {}) {
  InProcessNet net(static_cast<int32_t>(plans.size()), delays);
  return TrainRanks(
      GptParity(layout), AdamWWithClip(), plans,
      [&net](int32_t rank) { return net.endpoint(rank); }, options);
}

class RanksTest : public testing::TestWithParam<GptLayout> {};
TEST_P(RanksTest, ComputeTheBitsOfOne) {
  const GptLayout& layout = GetParam();
  const RankRecords one = Train(layout, PlansOf(layout, 1), {});
  ASSERT_TRUE(one[0].ok()) << one[0].status();
  for (const int32_t ranks : {2, 4}) {
    const Plans plans = PlansOf(layout, ranks);
    InProcessNetOptions delays;
    delays.seed = static_cast<uint64_t>(ranks);
    delays.ordered = delays.in_place = ranks == 4;
    EXPECT_EQ(DifferenceOfRanks(*one[0], Train(layout, plans, delays)), "") << ranks << " ranks";
  }
}
INSTANTIATE_TEST_SUITE_P(Layouts, RanksTest, testing::ValuesIn(ParityLayouts()), LayoutName());

class RanksOverTcpTest : public testing::TestWithParam<GptLayout> {};
TEST_P(RanksOverTcpTest, ComputeTheBitsOfOne) {
  EXPECT_EQ(DifferenceOverTcp(GptParity(GetParam()), AdamWWithClip()), "");
}
INSTANTIATE_TEST_SUITE_P(Layouts, RanksOverTcpTest, testing::ValuesIn(ParityLayouts()),
                         LayoutName());

// Many orders of what the net carries.
class ManyDelaysTest : public testing::TestWithParam<GptLayout> {};
TEST_P(ManyDelaysTest, ComputeTheBitsOfOne) {
  const GptLayout& layout = GetParam();
  const RankRecords one = Train(layout, PlansOf(layout, 1), {});
  ASSERT_TRUE(one[0].ok()) << one[0].status();
  for (const int32_t ranks : {2, 3, 4}) {
    const Plans plans = PlansOf(layout, ranks);
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      InProcessNetOptions delays;
      delays.seed = seed;
      delays.ordered = seed % 2 == 0;
      delays.in_place = seed % 4 < 2;
      delays.ahead = seed % 8 < 4;
      ASSERT_EQ(DifferenceOfRanks(*one[0], Train(layout, plans, delays)), "")
          << ranks << " ranks, seed " << seed;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Layouts, ManyDelaysTest, testing::ValuesIn(ParityLayouts()), LayoutName());

GptLayout AllAxes() {
  GptLayout layout;
  layout.mesh = "data=2 model=2 pipe=2";
  layout.micro_batches = 2;
  return layout;
}

// Plans of two ranks that exchange something, and what they should leave.
class RankFaultTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    plans_ = new Plans(PlansOf(AllAxes(), 2));
    const RankRecords one = Train(AllAxes(), PlansOf(AllAxes(), 1), {});
    ASSERT_TRUE(one[0].ok()) << one[0].status();
    expected_ = new RankRecord(*one[0]);
  }
  static void TearDownTestSuite() {
    delete plans_;
    delete expected_;
  }
  // The message of both ranks, which must be the same but for their numbers.
  static std::string ErrorOf(const Plans& plans) {
    const RankRecords records = Train(AllAxes(), plans, {});
    EXPECT_FALSE(records[0].ok());
    EXPECT_FALSE(records[1].ok());
    return std::string(records[0].status().message());
  }
  // The first actor of a program that stands for a reader on another rank.
  static int FindReader(const plan::Program& program) {
    for (int a = 0; a < program.actors_size(); ++a) {
      const plan::Instruction& x = program.actors(a).script(0);
      if (x.kind() == plan::INSTRUCTION_REMOTE && x.inputs_size() > 0) return a;
    }
    return -1;
  }
  static int FindPull(const plan::Program& program) {
    for (int a = 0; a < program.actors_size(); ++a) {
      if (program.actors(a).script(0).kind() == plan::INSTRUCTION_PULL) return a;
    }
    return -1;
  }
  static Plans* plans_;
  static RankRecord* expected_;
};
Plans* RankFaultTest::plans_ = nullptr;
RankRecord* RankFaultTest::expected_ = nullptr;

TEST_F(RankFaultTest, RanksExchangeSomething) {
  for (const plan::Plan& plan : *plans_) {
    EXPECT_GE(FindReader(plan.programs(0)), 0);
    EXPECT_GE(FindPull(plan.programs(0)), 0);
  }
}

// Of one register there is a reader less than there should be: its bytes could be taken over.
TEST_F(RankFaultTest, AReaderThatIsNotCounted) {
  Plans plans = *plans_;
  plan::Program* program = plans[0].mutable_programs(0);
  program->mutable_actors(FindReader(*program))->mutable_script(0)->set_number(9999);
  EXPECT_THAT(ErrorOf(plans), testing::HasSubstr("reads other edges of rank 0"));
}

TEST_F(RankFaultTest, ANumberOfAnotherRegister) {
  Plans plans = *plans_;
  plan::Program* program = plans[1].mutable_programs(0);
  const int32_t from = program->actors(FindPull(*program)).script(0).inputs(0).register_();
  program->mutable_registers(from)->set_number(program->registers(from).number() + 1);
  EXPECT_THAT(ErrorOf(plans), testing::HasSubstr("reads other edges of rank 0"));
}

TEST_F(RankFaultTest, AnEdgeThatStandsTwice) {
  Plans plans = *plans_;
  plan::Program* program = plans[0].mutable_programs(0);
  std::map<int32_t, const plan::Actor*> reader_of;  // by register
  int planted = 0;
  for (plan::Actor& actor : *program->mutable_actors()) {
    plan::Instruction* x = actor.mutable_script(0);
    if (x->kind() != plan::INSTRUCTION_REMOTE || x->inputs_size() == 0 || planted > 0) continue;
    const auto [first, fresh] = reader_of.emplace(x->inputs(0).register_(), &actor);
    if (fresh) continue;
    actor.set_stream(first->second->stream());
    x->set_number(first->second->script(0).number());
    ++planted;
  }
  ASSERT_EQ(planted, 1);
  EXPECT_THAT(ErrorOf(plans),
              testing::HasSubstr("two remote actors stand for program 0, register"));
}

TEST_F(RankFaultTest, AFarOperandTakenForANearOne) {
  Plans plans = *plans_;
  plan::Program* program = plans[0].mutable_programs(0);
  const plan::Instruction pull = program->actors(FindPull(*program)).script(0);
  int planted = 0;
  for (plan::Actor& actor : *program->mutable_actors()) {
    for (plan::Instruction& x : *actor.mutable_script()) {
      for (plan::Operand& input : *x.mutable_inputs()) {
        if (input.register_() != pull.outputs(0).register_()) continue;
        input.set_register_(pull.inputs(0).register_());
        ++planted;
      }
    }
  }
  ASSERT_GT(planted, 0);
  EXPECT_THAT(ErrorOf(plans), testing::HasSubstr("expected operands of rank 0, got register"));
}

// Without a reuse edge the bytes are no longer proven, unless others imply it; then all is as it
// was. Plants the first `most` that `planted` picks, one at a time, and counts those that are
// refused.
int CountRefused(const Plans& whole, const RankRecord& expected, int most,
                 const std::function<bool(const plan::Program&, const plan::ReuseEdge&)>& planted) {
  int refused = 0;
  const plan::Program& program = whole[0].programs(0);
  for (int e = 0; e < program.reuse_edges_size() && most > 0; ++e) {
    if (!planted(program, program.reuse_edges(e))) continue;
    --most;
    Plans plans = whole;
    plans[0].mutable_programs(0)->mutable_reuse_edges()->DeleteSubrange(e, 1);
    const RankRecords records = Train(AllAxes(), plans, {});
    if (records[0].ok()) {
      EXPECT_EQ(DifferenceOfRanks(expected, records), "") << "edge " << e;
      continue;
    }
    ++refused;
    EXPECT_THAT(std::string(records[0].status().message()), testing::HasSubstr("share"));
  }
  return refused;
}

TEST_F(RankFaultTest, AReuseEdgeOfAnotherRanksReader) {
  EXPECT_GT(CountRefused(*plans_, *expected_, 20,
                         [](const plan::Program& program, const plan::ReuseEdge& edge) {
                           const plan::Actor& after = program.actors(edge.after().actor());
                           return after.script(0).kind() == plan::INSTRUCTION_REMOTE;
                         }),
            5);
}

// The script that makes a tensor reads it later itself, and then another's bytes are taken.
TEST_F(RankFaultTest, AReuseEdgeOfTheProducersOwnRead) {
  EXPECT_GT(CountRefused(*plans_, *expected_, 20,
                         [](const plan::Program& program, const plan::ReuseEdge& edge) {
                           const plan::Actor& after = program.actors(edge.after().actor());
                           return after.script_size() > 1 &&
                                  edge.before().actor() != edge.after().actor();
                         }),
            5);
}

// Staging that a reader still needs.
TEST_F(RankFaultTest, StagingThatIsStillRead) {
  EXPECT_GT(CountRefused(*plans_, *expected_, 10,
                         [](const plan::Program& program, const plan::ReuseEdge& edge) {
                           const plan::Actor& before = program.actors(edge.before().actor());
                           return before.script(0).kind() == plan::INSTRUCTION_PULL;
                         }),
            5);
}

TEST_F(RankFaultTest, BytesThatComeAfterTheyWereSaidToBeThere) {
#ifdef THREAD_SANITIZER
  GTEST_SKIP() << "what is planted is a race, and the sanitizer would end the test";
#endif
  int found = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    InProcessNetOptions delays;
    delays.seed = seed;
    delays.early_end = true;
    const std::string difference = DifferenceOfRanks(*expected_, Train(AllAxes(), *plans_, delays));
    found += difference.empty() ? 0 : 1;
  }
  EXPECT_EQ(found, 5);
}

TEST_F(RankFaultTest, ARankThatDecidedOtherwise) {
  GptLayout other = AllAxes();
  other.script_length = 1;
  Plans plans = *plans_;
  plans[1] = PlansOf(other, 2)[1];
  EXPECT_THAT(ErrorOf(plans), testing::ContainsRegex("rank 1 cannot join: the first decision that "
                                                     "differs is number [0-9]+: .*script length"));
  // The same options, and one op that chose otherwise.
  plans = *plans_;
  int op = 0;
  while (plans[1].decisions(op).what() != "signature of train, h1/mlp/up/matmul" &&
         op + 1 < plans[1].decisions_size()) {
    ++op;
  }
  for (int n = op; n < plans[1].decisions_size(); ++n) {
    plans[1].mutable_decisions(n)->set_digest(plans[1].decisions(n).digest() + 1);
  }
  EXPECT_THAT(ErrorOf(plans), testing::HasSubstr(plans[1].decisions(op).what()));
}

// Runs a function on every rank at once; their statuses.
std::vector<absl::Status> OnRanks(InProcessNet& net, const Plans& plans,
                                  const std::function<absl::Status(int32_t, ParityRun*)>& run) {
  const auto ranks = static_cast<int32_t>(plans.size());
  std::vector<absl::Status> statuses(ranks);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      RuntimeOptions options;
      options.net = net.endpoint(rank);
      auto started = ParityRun::Start(GptParity(AllAxes()), AdamWWithClip(), plans[rank], options);
      statuses[rank] = started.ok() ? run(rank, started->get()) : started.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

std::vector<absl::Status> OnRanks(const Plans& plans,
                                  const std::function<absl::Status(int32_t, ParityRun*)>& run) {
  InProcessNet net(static_cast<int32_t>(plans.size()), {});
  return OnRanks(net, plans, run);
}

TEST_F(RankFaultTest, AKernelsErrorEndsTheStepEverywhereWithThatStatus) {
  for (const int32_t bad : {0, 1}) {
    const auto statuses = OnRanks(*plans_, [bad](int32_t rank, ParityRun* run) {
      RETURN_IF_ERROR(OneStep(run, 5));
      const absl::Status failed = OneStep(run, rank == bad ? 300 : 5);
      // Torn state is neither stepped nor read.
      EXPECT_EQ(OneStep(run, 5), failed);
      EXPECT_EQ(run->session()->ReadBox("loss", {}).status(), failed);
      return failed;
    });
    EXPECT_THAT(std::string(statuses[0].message()),
                testing::MatchesRegex(absl::StrCat(
                    "rank ", bad,
                    ", program train, step 1, device .*embedding.*: expected ids in .*got 300.*")));
    EXPECT_EQ(statuses[0], statuses[1]);
  }
}

// A reason that the ranks' steps know nothing of, such as a loss that is not finite.
TEST_F(RankFaultTest, ARankThatFailsByItselfTellsAllWhy) {
  for (const int32_t bad : {0, 1}) {
    const auto statuses = OnRanks(*plans_, [bad](int32_t rank, ParityRun* run) {
      RETURN_IF_ERROR(OneStep(run, 5));
      if (rank == bad) {
        run->session()->Fail(absl::FailedPreconditionError("step 7: the loss is not finite"));
        run->session()->Fail(absl::InternalError("what comes second"));
      }
      return OneStep(run, 5);
    });
    const std::string why = absl::StrCat("rank ", bad, " has left: step 7: the loss is not finite");
    EXPECT_EQ(statuses[bad], absl::FailedPreconditionError(why));
    EXPECT_EQ(statuses[1 - bad], absl::UnavailableError(why));
  }
}

TEST_F(RankFaultTest, AReplicaOnAnotherRankThatDiffersIsNamed) {
  const auto statuses = OnRanks(*plans_, [](int32_t rank, ParityRun* run) {
    RETURN_IF_ERROR(run->session()->CheckReplicas());
    // Both ranks hold all of it, as devices of each data coordinate do.
    ASSIGN_OR_RETURN(const auto boxes, run->session()->boxes("embedding/table"));
    ASSIGN_OR_RETURN(HostTensor value, run->session()->ReadBox("embedding/table", boxes[0].box));
    if (rank == 1) value.data<float>()[7] += 1e-6f;
    RETURN_IF_ERROR(run->session()->WriteBox("embedding/table", boxes[0].box, value));
    return run->session()->CheckReplicas();
  });
  EXPECT_THAT(std::string(statuses[0].message()),
              testing::HasSubstr("variable embedding/table: replicas differ: device"));
  EXPECT_EQ(statuses[0], statuses[1]);
}

TEST_F(RankFaultTest, ARankThatLeavesEndsTheOthersSteps) {
  const auto statuses = OnRanks(*plans_, [](int32_t rank, ParityRun* run) {
    RETURN_IF_ERROR(OneStep(run, 5));
    return rank == 1 ? absl::OkStatus() : OneStep(run, 5);
  });
  EXPECT_EQ(statuses[1], absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(statuses[0]));
  // And what waits for it.
  EXPECT_THAT(std::string(statuses[0].message()),
              testing::MatchesRegex("rank 1 has left; here device [0-3] [a-z]+: .* .*, step 1, "
                                    "micro-batch [01], waits for .*, .* rank 1"));
}

TEST_F(RankFaultTest, WaitingForOthersCanBeStopped) {
  InProcessNet net(2, {});
  const auto begin = std::chrono::steady_clock::now();
  RuntimeOptions options;
  options.net = net.endpoint(0);
  options.stop = [begin] {
    return std::chrono::steady_clock::now() - begin > std::chrono::seconds(1);
  };
  const auto started =
      ParityRun::Start(GptParity(AllAxes()), AdamWWithClip(), (*plans_)[0], options);
  EXPECT_TRUE(absl::IsCancelled(started.status())) << started.status();
}

// It is asked for something when it is no longer there to hear it.
TEST_F(RankFaultTest, ARankThatHasLeftAnswersNothing) {
  for (const int32_t leaves : {0, 1}) {
    const auto statuses = OnRanks(*plans_, [leaves](int32_t rank, ParityRun* run) {
      RETURN_IF_ERROR(OneStep(run, 5));
      if (rank == leaves) return absl::OkStatus();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return run->session()->Agree("", [](auto) { return absl::OkStatus(); });
    });
    EXPECT_EQ(statuses[leaves], absl::OkStatus());
    EXPECT_EQ(statuses[1 - leaves],
              absl::UnavailableError(absl::StrCat("rank ", leaves, " has left")));
  }
}

// As when the connection of two ranks breaks: others have lost nobody, and are in the same step as
// the one that leaves because of it.
TEST_F(RankFaultTest, ALossThatOneRankSeesEndsAll) {
  const Plans plans = PlansOf(AllAxes(), 4);
  InProcessNet net(4, {});
  const auto statuses = OnRanks(net, plans, [&](int32_t rank, ParityRun* run) {
    RETURN_IF_ERROR(OneStep(run, 5));
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const auto lost = LeftBecause(2, absl::UnavailableError("its connection was closed"));
      net.endpoint(2)->Send(0, lost);
    }
    return OneStep(run, 5);
  });
  const std::string seen = "rank 2 has left: its connection was closed";
  for (const int32_t rank : {0, 1, 3}) {
    EXPECT_TRUE(absl::IsUnavailable(statuses[rank]));
    // What waits here for another rank is each one's own.
    EXPECT_THAT(std::string(statuses[rank].message()), testing::StartsWith(seen));
  }
}

TEST_F(RankFaultTest, RanksThatBeginOtherStepsAreStopped) {
  const auto statuses = OnRanks(*plans_, [](int32_t rank, ParityRun* run) {
    run->session()->set_step(rank == 1 ? 7 : 0);
    return OneStep(run, 5);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr("ranks do not begin the same steps"));
  }
}

}  // namespace
}  // namespace sluice
