// The tiny GPT on asynchronous devices (device/async.h): whatever their streams do first, every
// layout computes the bits that CPUs compute, and mistakes in what waits for what are found.
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/plan/kinds.h"
#include "framework/testing/layouts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

constexpr int64_t kSteps = 5;

// What training leaves behind: the results of every step, and all variables.
using Record = std::vector<Fetches>;

absl::StatusOr<Record> Train(const GptLayout& layout, const plan::Plan& plan,
                             const RuntimeOptions& options) {
  auto run = ParityRun::Start(GptParity(layout), AdamWWithClip(), plan, options);
  if (!run.ok()) return run.status();
  Record record;
  for (int64_t step = 0; step < kSteps; ++step) {
    const absl::StatusOr<StepRecord> stepped = (*run)->Step(step);
    if (!stepped.ok()) return stepped.status();
    record.push_back((*run)->fetches());
  }
  const absl::Status replicas = (*run)->session()->CheckReplicas();
  if (!replicas.ok()) return replicas;
  auto variables = (*run)->ReadVariables();
  if (!variables.ok()) return variables.status();
  record.push_back(*std::move(variables));
  return record;
}

// "" if all bits are equal, else the first tensor that differs.
std::string Difference(const Record& expected, const Record& got) {
  for (size_t step = 0; step < expected.size(); ++step) {
    for (const auto& [name, tensor] : expected[step]) {
      const auto found = got[step].find(name);
      if (found == got[step].end() || found->second.bytes != tensor.bytes) {
        return name + " of step " + std::to_string(step);
      }
    }
  }
  return "";
}

GptLayout On(GptLayout layout, const std::string& kinds) {
  layout.mesh += " @" + kinds;
  return layout;
}

plan::Plan PlanOf(const GptLayout& layout) {
  auto plan = CompileParityPlan(GptParity(layout), AdamWWithClip());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

RuntimeOptions OptionsOf(uint64_t seed) {
  RuntimeOptions options;
  options.workers = 1 + static_cast<int>(seed % 2);
  options.async.seed = seed;
  return options;
}

void ExpectTheBitsOfCpus(const GptLayout& layout, const std::string& kinds, uint64_t first,
                         uint64_t seeds) {
  const auto expected = Train(layout, PlanOf(layout), OptionsOf(0));
  ASSERT_TRUE(expected.ok()) << expected.status();
  const plan::Plan plan = PlanOf(On(layout, kinds));
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const auto got = Train(layout, plan, OptionsOf(seed));
    ASSERT_TRUE(got.ok()) << "seed " << seed << ": " << got.status();
    ASSERT_EQ(Difference(*expected, *got), "") << "seed " << seed;
  }
}

class AsyncTest : public testing::TestWithParam<GptLayout> {};
TEST_P(AsyncTest, ComputesTheBitsOfCpus) { ExpectTheBitsOfCpus(GetParam(), "async", 0, 9); }
INSTANTIATE_TEST_SUITE_P(Six, AsyncTest, testing::ValuesIn(SixOf(ParityLayouts())), LayoutName());

class ManySeedsTest : public testing::TestWithParam<GptLayout> {};
TEST_P(ManySeedsTest, ComputesTheBitsOfCpus) {
  ExpectTheBitsOfCpus(GetParam(), "async", 1000, 200);
}
INSTANTIATE_TEST_SUITE_P(Layouts, ManySeedsTest, testing::ValuesIn(ParityLayouts()), LayoutName());

GptLayout AllAxes() {
  GptLayout layout;
  layout.mesh = "data=2 model=2 pipe=2";
  layout.micro_batches = 4;
  return layout;
}

TEST(AsyncMixTest, CpusAndAsynchronousDevicesTrainTogether) {
  ExpectTheBitsOfCpus(AllAxes(), "cpu,async,async", 0, 10);
}

// Trains under seed after seed until the run fails or gives other bits; how many that took, or 0.
int SeedsToFind(const plan::Plan& plan, const Record& expected,
                const std::function<void(RuntimeOptions*)>& plant) {
  for (int seed = 0; seed < 50; ++seed) {
    RuntimeOptions options = OptionsOf(static_cast<uint64_t>(seed));
    plant(&options);
    const auto got = Train(AllAxes(), plan, options);
    if (!got.ok() || !Difference(expected, *got).empty()) return seed + 1;
  }
  return 0;
}

class AsyncFaultTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    plan_ = new plan::Plan(PlanOf(On(AllAxes(), "async")));
    auto expected = Train(AllAxes(), PlanOf(AllAxes()), OptionsOf(0));
    ASSERT_TRUE(expected.ok()) << expected.status();
    expected_ = new Record(*std::move(expected));
  }
  static void TearDownTestSuite() {
    delete plan_;
    delete expected_;
  }
  static plan::Plan* plan_;
  static Record* expected_;
};
plan::Plan* AsyncFaultTest::plan_ = nullptr;
Record* AsyncFaultTest::expected_ = nullptr;

TEST_F(AsyncFaultTest, AFenceThatIsNotWaitedFor) {
  const int seeds = SeedsToFind(*plan_, *expected_, [](RuntimeOptions* options) {
    options->async.fault = AsyncFault::kForgottenWait;
  });
  EXPECT_GT(seeds, 0);
  RecordProperty("seeds", seeds);
}

TEST_F(AsyncFaultTest, AnAckWithoutItsFence) {
  const int seeds = SeedsToFind(*plan_, *expected_, [](RuntimeOptions* options) {
    options->tamper = [](Message* message) {
      if (message->kind == Message::Kind::kAck) message->fence = 0;
    };
  });
  EXPECT_GT(seeds, 0);
  RecordProperty("seeds", seeds);
}

TEST_F(AsyncFaultTest, AHostStreamThatTakesAMessageTooEarly) {
  const int seeds = SeedsToFind(*plan_, *expected_, [](RuntimeOptions* options) {
    options->async.fault = AsyncFault::kEarlyDone;
  });
  EXPECT_GT(seeds, 0);
  RecordProperty("seeds", seeds);
}

// The second slot lies where the first does: its producer writes one firing before it may.
TEST_F(AsyncFaultTest, ASlotThatIsUsedAgainOneFiringEarly) {
  int planted = 0;
  for (int r = 0; r < plan_->programs(0).registers_size(); ++r) {
    const plan::Register& reg = plan_->programs(0).registers(r);
    if (reg.slot_offsets_size() != 2 || reg.bytes() == 0 || planted == 5) continue;
    if (KindOf(plan_->devices(reg.device())) != DeviceKind::kAsync) continue;
    ++planted;
    plan::Plan plan = *plan_;
    plan::Register* early = plan.mutable_programs(0)->mutable_registers(r);
    early->set_slot_offsets(1, early->slot_offsets(0));
    EXPECT_GT(SeedsToFind(plan, *expected_, [](RuntimeOptions*) {}), 0) << reg.name();
  }
  EXPECT_EQ(planted, 5);
}

// A fold that reads the register itself where a copy of it was made.
TEST_F(AsyncFaultTest, AnOperandInForeignMemory) {
  plan::Plan plan = *plan_;
  plan::Program* program = plan.mutable_programs(0);
  int planted = 0;
  for (const plan::Actor& actor : program->actors()) {
    const plan::Instruction& copy = actor.script(0);
    if (copy.kind() != plan::INSTRUCTION_COPY || copy.regions_size() > 0) continue;
    for (plan::Actor& reader : *program->mutable_actors()) {
      for (plan::Instruction& x : *reader.mutable_script()) {
        if (x.kind() != plan::INSTRUCTION_FOLD) continue;
        for (plan::Operand& input : *x.mutable_inputs()) {
          if (planted > 0 || input.register_() != copy.outputs(0).register_()) continue;
          input.set_register_(copy.inputs(0).register_());
          ++planted;
        }
      }
    }
  }
  ASSERT_EQ(planted, 1);
  const auto got = Train(AllAxes(), plan, OptionsOf(0));
  EXPECT_THAT(std::string(got.status().message()),
              testing::HasSubstr("expected operands in the memory of device 0:async"));
}

TEST(AsyncErrorTest, NamesWhereItCameFrom) {
  GptLayout layout;
  layout.mesh = "data=2 @async";
  auto run = ParityRun::Start(GptParity(layout), AdamWWithClip(), PlanOf(layout), OptionsOf(1));
  ASSERT_TRUE(run.ok()) << run.status();
  auto table = (*run)->session()->Read("embedding/table");
  ASSERT_TRUE(table.ok()) << table.status();
  RuntimeOptions options = OptionsOf(1);
  options.check_nan = true;
  run = ParityRun::Start(GptParity(layout), AdamWWithClip(), PlanOf(layout), options);
  ASSERT_TRUE(run.ok()) << run.status();
  for (int64_t i = 0; i < table->shape.NumElements(); ++i) table->data<float>()[i] = NAN;
  ASSERT_TRUE((*run)->session()->Write("embedding/table", *table).ok());
  const std::string error((*run)->Step(3).status().message());
  EXPECT_THAT(error, testing::MatchesRegex("program train, step 3, device [01], .*embedding.* "
                                           "\\(.*\\): a result is NaN or infinite"));
  EXPECT_EQ(std::string((*run)->session()->Read("embedding/table").status().message()), error);
}

}  // namespace
}  // namespace sluice
