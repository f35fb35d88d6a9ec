// Every planted bug is found by one of the first random graphs.
#include "framework/conformance/planted_bugs.h"

#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/compiler/compile.h"
#include "framework/testing/parallel.h"
#include "framework/testing/parity.h"
#include "framework/testing/random_graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kGraphs = 150;
constexpr int kSteps = 2;
constexpr double kTolerance = 1e-9;

absl::StatusOr<plan::Plan> CompileRandom(const RandomGraph& random) {
  CompileOptions options;
  options.mesh = random.mesh;
  options.micro_batches = random.micro_batches;
  options.script_length = random.script_length;
  options.machine = Machine::Cpu();
  return CompilePlan({{"train", random.graph.get()}}, options);
}

// A random graph with its right plan and what it computes.
struct Case {
  RandomGraph random;
  plan::Plan plan;
  InterpretedSteps reference;
  bool usable = false;
};

class PlantedBugsTest : public testing::Test {
 protected:
  PlantedBugsTest() : cases_(kGraphs) {
    ParallelFor(kGraphs, [this](int seed) { Prepare(seed); });
  }

  void Prepare(int seed) {
    Case& c = cases_[seed];
    absl::StatusOr<RandomGraph> random = MakeRandomGraph(seed, kSteps);
    if (!random.ok()) return;
    c.random = *std::move(random);
    absl::StatusOr<plan::Plan> plan = CompileRandom(c.random);
    absl::StatusOr<InterpretedSteps> reference = InterpretSteps(*c.random.graph, c.random.feeds, 7);
    c.usable = plan.ok() && reference.ok();
    if (!c.usable) return;
    c.plan = *std::move(plan);
    c.reference = *std::move(reference);
  }

  absl::Status Run(const Case& c, const plan::Plan& plan) const {
    PlanExecutorOptions run;
    run.seed = 7;
    return CompareWithReference(plan, c.random.feeds, c.reference, kTolerance, run);
  }

  std::vector<Case> cases_;
};

TEST_F(PlantedBugsTest, AreAllFound) {
  const auto rules = RuleBugs();
  const auto plans = PlanBugs();
  ASSERT_GE(rules.size() + plans.size(), 20u);
  const int bugs = static_cast<int>(rules.size() + plans.size());
  std::vector<std::string> found(bugs);
  ParallelFor(bugs, [&](int b) {
    const bool rule = b < static_cast<int>(rules.size());
    OpDef wrong;
    if (rule) wrong = WrongOp(rules[b]);
    int planted = 0;
    for (int seed = 0; seed < kGraphs && found[b].empty(); ++seed) {
      const Case& c = cases_[seed];
      if (!c.usable) continue;
      plan::Plan plan = c.plan;
      if (rule) {
        absl::StatusOr<RandomGraph> random = MakeRandomGraph(seed, 0);
        if (!random.ok() || !Plant(wrong, random->graph.get())) continue;
        absl::StatusOr<plan::Plan> compiled = CompileRandom(*random);
        if (!compiled.ok()) continue;
        plan = *std::move(compiled);
      } else if (!plans[b - rules.size()].plant(&plan)) {
        continue;
      }
      ++planted;
      const absl::Status status = Run(c, plan);
      if (status.ok()) continue;
      found[b] = absl::StrCat("seed ", seed, ", planted in ", planted,
                              " graphs: ", status.message().substr(0, 100));
    }
  });
  for (int b = 0; b < bugs; ++b) {
    const bool rule = b < static_cast<int>(rules.size());
    const char* name = rule ? rules[b].name : plans[b - rules.size()].name;
    EXPECT_NE(found[b], "") << name << " was not found by " << kGraphs << " graphs";
    std::cout << name << "\n    " << found[b] << "\n";
  }
}

// The other half of the claim: without a bug none is found.
TEST_F(PlantedBugsTest, NothingIsFoundWithoutThem) {
  int usable = 0;
  for (const Case& c : cases_) {
    if (!c.usable) continue;
    ++usable;
    EXPECT_TRUE(Run(c, c.plan).ok());
  }
  EXPECT_GE(usable, kGraphs * 9 / 10);
}

}  // namespace
}  // namespace sluice
