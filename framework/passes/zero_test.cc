#include "framework/passes/zero.h"

#include <string>

#include "framework/graph/interpreter.h"
#include "framework/ops/ops.h"
#include "framework/passes/optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ZeroOptions OfLevel(int level, const std::string& mesh = "data=2") {
  return {level, "data", *Mesh::Parse(mesh)};
}

// The words on a parameter that ZeRO of this level on an axis of two finds: "stored / state".
std::string Words(int level, const Shape& shape, const ParamLayout& layout = {},
                  const std::string& mesh = "data=2 model=2") {
  Graph graph;
  const Tensor w = Scope(&graph).Param("w", shape, layout);
  const absl::Status status = SplitParameters(OfLevel(level, mesh), &graph);
  EXPECT_TRUE(status.ok()) << status;
  const TensorInfo& info = graph.tensor(w.id());
  EXPECT_EQ(info.annotation.ToString(), layout.read);
  return info.storage.ToString() + " / " + info.state.ToString();
}

TEST(Zero, LevelsSplitStateThenStorage) {
  EXPECT_EQ(Words(0, {8, 6}), " / ");
  EXPECT_EQ(Words(1, {8, 6}), " / data:S0");
  EXPECT_EQ(Words(2, {8, 6}), " / data:S0");
  EXPECT_EQ(Words(3, {8, 6}), "data:S0 / ");
  EXPECT_EQ(Words(1, {8, 6}, {}, "model=2"), " / ");  // nothing to split over
  EXPECT_EQ(Words(1, {8, 6}, {}, "data=1"), " / ");
}

TEST(Zero, TheFirstDimensionThatDividesAndIsFreeIsSplit) {
  EXPECT_EQ(Words(1, {7, 6}), " / data:S1");
  EXPECT_EQ(Words(1, {7, 5}), " / ");
  EXPECT_EQ(Words(1, {}), " / ");
  EXPECT_EQ(Words(1, {0, 6}), " / data:S1");
  EXPECT_EQ(Words(1, {8, 6}, {.read = "model:S0"}), " / data:S1");
  EXPECT_EQ(Words(1, {8, 6}, {.read = "model:S0"}, "data=2"), " / data:S0");
  EXPECT_EQ(Words(1, {8, 6}, {.read = "model:S1"}), " / data:S0");
  EXPECT_EQ(Words(3, {8, 6}, {.stored = "model:S0"}), "model:S0 data:S1 / ");
  EXPECT_EQ(Words(1, {8}, {.read = "model:S0"}), " / data:S0");  // no other there is
  EXPECT_EQ(Words(1, {8, 7}, {.read = "model:S0"}), " / data:S0");
  // The axes share it: four parts of what has two elements would leave devices without any.
  EXPECT_EQ(Words(1, {2}, {.read = "model:S0"}), " / ");
  EXPECT_EQ(Words(3, {2}, {.read = "model:S0"}), " / ");
  EXPECT_EQ(Words(3, {6, 2}, {.read = "model:S1"}, "data=4 model=2"), " / ");
}

TEST(Zero, OwnWordsOnTheAxisStay) {
  EXPECT_EQ(Words(1, {8, 6}, {.read = "data:S1"}), " / ");
  EXPECT_EQ(Words(1, {8, 6}, {.stored = "data:S1"}), "data:S1 / ");
  EXPECT_EQ(Words(3, {8, 6}, {.state = "data:S1"}), " / data:S1");
}

TEST(Zero, RefusesALevelThatThereIsNot) {
  Graph graph;
  const Tensor w = Scope(&graph).Param("w", {2});
  OptimizerOptions options;
  options.zero.level = 4;
  EXPECT_EQ(AddTraining(&graph, SumSquares(w), options),
            absl::InvalidArgumentError("zero: expected a level from 0 to 3, got 4"));
}

// w [4,2] dense, a table [4,2] by rows, b [3] that nothing divides; trained for a step.
struct Trained {
  Graph graph;
  ArrayMap variables;
  explicit Trained(const OptimizerOptions& options) {
    const Scope root(&graph);
    const Tensor ids = graph.Input("ids", DType::kI32, {3}, "");
    const Tensor rows = Embedding(root.Param("table", {4, 2}, "", {"ones"}), ids);
    const Tensor w = root.Param("w", {2, 3}, "", {"ones"}), b = root.Param("b", {3}, "", {"ones"});
    EXPECT_TRUE(AddTraining(&graph, SumSquares(MatMul(rows, w) + b), options).ok());
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    variables = InitialVariables(graph, 0);
    ArrayMap feeds;
    feeds["ids"] = Array({3});
    feeds["ids"].values = {1, 3, 1};
    feeds["learning_rate"] = Array({}, 0.01), feeds["step"] = Array({}, 1);
    EXPECT_TRUE(Interpret(graph, feeds, &variables, {}).ok());
  }
  // Ops of the update phase that change a variable or stand for one that would, in order.
  std::vector<std::string> Updates() const {
    std::vector<std::string> updates;
    for (const Node& node : graph.nodes()) {
      // A norm is told by the table which rows there are.
      if (node.op->name == "sum_squares_sparse") continue;
      const bool reads_variable = !node.inputs.empty() && graph.IsVariable(node.inputs[0]);
      if (node.phase == Phase::kUpdate && reads_variable) updates.push_back(node.name);
    }
    return updates;
  }
};

TEST(Zero, AStateThatLiesApartIsUpdatedByAValueAndAnAssignment) {
  OptimizerOptions options;
  options.clip = 1;
  EXPECT_THAT(Trained(options).Updates(), ElementsAre("table/adamw_sparse", "w/adamw", "b/adamw"));
  options.zero = OfLevel(1);
  Trained apart(options);
  // Each value is put into its variable after the next update.
  EXPECT_THAT(apart.Updates(), ElementsAre("table/adamw_sparse_value", "w/adamw_value",
                                           "table/assign_sparse", "b/adamw", "w/assign"));
  EXPECT_EQ(apart.graph.tensor(apart.graph.FindVariable("w.m").id()).storage.ToString(), "data:S0");
  EXPECT_EQ(apart.graph.tensor(apart.graph.FindVariable("b.m").id()).storage.ToString(), "");
  options.zero.level = 3;  // the state lies as its parameter: in place
  EXPECT_THAT(Trained(options).Updates(), ElementsAre("table/adamw_sparse", "w/adamw", "b/adamw"));
}

TEST(Zero, EveryLevelIsTheSameTraining) {
  for (const bool adamw : {false, true}) {
    OptimizerOptions options;
    options.kind = adamw ? OptimizerOptions::kAdamW : OptimizerOptions::kSgd;
    options.momentum = 0.9;
    options.clip = 1;
    const Trained plain(options);
    for (int level = 1; level <= 3; ++level) {
      options.zero = OfLevel(level);
      const Trained zero(options);
      ASSERT_EQ(zero.variables.size(), plain.variables.size());
      for (const auto& [name, value] : plain.variables) {
        EXPECT_EQ(zero.variables.at(name).values, value.values) << name << " of level " << level;
      }
    }
  }
}

// A layout that is said once more of the state is no other one.
TEST(Zero, AStateThatLiesAsItsParameterIsUpdatedInPlace) {
  const auto updates_of = [](const ParamLayout& layout) {
    Graph graph;
    const Tensor w = Scope(&graph).Param("w", {2, 2}, layout);
    EXPECT_TRUE(AddTraining(&graph, SumSquares(w), {}).ok());
    return graph.nodes().back().op->name;
  };
  EXPECT_EQ(updates_of({.read = "data:S0", .state = "data:S0"}), "adamw");
  EXPECT_EQ(updates_of({.stored = "data:S0", .state = "data:S0"}), "adamw");
  EXPECT_EQ(updates_of({.read = "data:S0", .stored = "data:S1", .state = "data:S0"}), "assign");
  EXPECT_EQ(updates_of({.stored = "data:S0", .state = "data:B"}), "assign");
  EXPECT_EQ(updates_of({.state = "data:S0"}), "assign");
}

TEST(Zero, LevelTwoAddsGradientsUpInParts) {
  const auto words_of = [](int level, bool sparse) {
    Graph graph;
    const Tensor table = Scope(&graph).Param("w", {4, 4});
    const Tensor ids = graph.Input("ids", DType::kI32, {3}, "");
    OptimizerOptions options;
    options.zero = OfLevel(level);
    const Tensor y = sparse ? Embedding(table, ids) : table;
    EXPECT_TRUE(AddTraining(&graph, SumSquares(y), options).ok());
    std::string words;
    for (const auto& [gradient, parameter] : graph.TensorsOf(Role::kGradient)) {
      words += graph.tensor(gradient).annotation.ToString();
    }
    return words;
  };
  EXPECT_EQ(words_of(1, false), "");
  EXPECT_EQ(words_of(2, false), "data:S0");
  EXPECT_EQ(words_of(3, false), "data:S0");
  EXPECT_EQ(words_of(2, true), "");
}

}  // namespace
}  // namespace sluice
