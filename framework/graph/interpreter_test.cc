#include "framework/graph/interpreter.h"

#include <cmath>

#include "framework/graph/toy_ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Array Matrix(const Shape& shape, std::vector<double> values) {
  Array array(shape);
  array.values = std::move(values);
  return array;
}

TEST(Interpreter, RunsNodesAndUpdatesVariablesInPlace) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {2, 2}, "");
  const Tensor w = graph.Variable("w", DType::kF32, {2, 2}, {}, "");
  const Tensor y = toy::MatMul(x, w);
  const Tensor twice = toy::Add(y, y);
  const auto signs = graph.Add(toy::SignsOp(), NoAttributes{}, {twice});
  graph.Output("positive", signs[0]);
  graph.Output("w before", w);
  Graph::Context context;
  context.phase = Phase::kUpdate;
  graph.set_context(context);
  toy::Descend(w, toy::Add(signs[1], signs[1]), 0.5);
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();

  ArrayMap variables = {{"w", Matrix({2, 2}, {1, 2, 3, -4})}, {"other program's", Array({1})}};
  const ArrayMap feeds = {{"x", Matrix({2, 2}, {1, 0, 1, 1})}};
  std::map<TensorId, Array> all;
  InterpretOptions options;
  options.all = &all;
  const auto outputs = Interpret(graph, feeds, &variables, options);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(outputs->at("positive").values, ElementsAre(2, 4, 8, 0));
  EXPECT_THAT(variables.at("w").values, ElementsAre(1, 2, 3, 0));  // -4 - 0.5 * 2 * -4
  EXPECT_EQ(all.size(), static_cast<size_t>(graph.num_tensors()));
  EXPECT_THAT(all[y.id()].values, ElementsAre(1, 2, 4, -2));
  EXPECT_THAT(all[w.id()].values, ElementsAre(1, 2, 3, -4));
  EXPECT_EQ(variables.size(), 2u);

  // Without `all` values are dropped after their last reader; the results are the same.
  ArrayMap again = {{"w", Matrix({2, 2}, {1, 2, 3, -4})}};
  const auto repeated = Interpret(graph, feeds, &again, {});
  ASSERT_TRUE(repeated.ok());
  EXPECT_EQ(repeated->at("positive").values, outputs->at("positive").values);
  EXPECT_EQ(again.at("w").values, variables.at("w").values);
}

TEST(Interpreter, HandsStepToTheReferences) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {1}, "");
  graph.Output("y", graph.Add(toy::NoiseOp(), DropoutAttributes{0, 2}, {x})[0]);
  ASSERT_TRUE(graph.Finish().ok());
  InterpretOptions options;
  options.step = 7;
  ArrayMap variables;
  const auto outputs = Interpret(graph, {{"x", Matrix({1}, {1})}}, &variables, options);
  ASSERT_TRUE(outputs.ok());
  EXPECT_THAT(outputs->at("y").values, ElementsAre(8));
}

TEST(Interpreter, NamesWhatIsMissingOrMisshapen) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {2}, "");
  const Tensor w = graph.Variable("w", DType::kF32, {2}, {}, "");
  graph.Output("y", toy::Add(x, w));
  const auto error_of = [&graph](const ArrayMap& feeds, ArrayMap variables) {
    const auto outputs = Interpret(graph, feeds, &variables, {});
    EXPECT_FALSE(outputs.ok());
    return std::string(outputs.status().message());
  };
  EXPECT_THAT(error_of({}, {{"w", Array({2})}}), HasSubstr("input x has no value"));
  EXPECT_THAT(error_of({{"x", Array({2})}}, {}), HasSubstr("variable w has no value"));
  EXPECT_THAT(error_of({{"x", Array({3})}}, {{"w", Array({2})}}),
              HasSubstr("input x: expected shape [2], got [3]"));
  EXPECT_THAT(error_of({{"x", Array({2})}, {"z", Array({2})}}, {{"w", Array({2})}}),
              HasSubstr("there is no input z"));
}

TEST(InterpreterTest, AConstantIsTheSameEverywhere) {
  const VariableAttributes quarter = {.init = "constant", .value = 0.25};
  EXPECT_THAT(InitialShard("slope", quarter, {3}, WholeBox({3}), 1).values, ::testing::Each(0.25));
}

TEST(InitialVariables, ArePartsOfOneDrawByNameAndSeed) {
  Graph graph;
  graph.Variable("zeros", DType::kF32, {3}, {}, "");
  graph.Variable("ones", DType::kF32, {3}, {"ones"}, "");
  graph.Variable("normal", DType::kF32, {40, 50}, {"normal", 0.5}, "");
  graph.Variable("bf16", DType::kBF16, {40, 50}, {"normal", 0.5}, "");
  graph.Variable("other", DType::kF32, {40, 50}, {"normal", 0.5}, "");
  graph.Variable("uniform", DType::kF32, {40, 50}, {"uniform", 0.5}, "");
  const ArrayMap variables = InitialVariables(graph, 3);
  EXPECT_THAT(variables.at("zeros").values, ElementsAre(0, 0, 0));
  EXPECT_THAT(variables.at("ones").values, ElementsAre(1, 1, 1));
  const std::vector<double>& draw = variables.at("normal").values;
  double sum = 0, squares = 0;
  for (double value : draw) {
    EXPECT_EQ(value, static_cast<float>(value)) << "not rounded to f32";
    sum += value, squares += value * value;
  }
  EXPECT_NEAR(sum / 2000, 0, 0.05);
  EXPECT_NEAR(std::sqrt(squares / 2000), 0.5, 0.05);
  EXPECT_NE(variables.at("other").values, draw);
  EXPECT_NE(InitialVariables(graph, 4).at("normal").values, draw);
  EXPECT_EQ(InitialVariables(graph, 3).at("normal").values, draw);
  const std::vector<double>& uniform = variables.at("uniform").values;
  double largest = 0, uniform_squares = 0;
  for (double value : uniform) {
    largest = std::max(largest, std::abs(value));
    uniform_squares += value * value;
  }
  EXPECT_LE(largest, std::sqrt(3.0) * 0.5 * 1.000001);
  EXPECT_GT(largest, std::sqrt(3.0) * 0.5 * 0.99);
  EXPECT_NEAR(std::sqrt(uniform_squares / 2000), 0.5, 0.02);
  for (double value : variables.at("bf16").values) {
    EXPECT_EQ(value, BFloat16ToFloat(FloatToBFloat16(static_cast<float>(value))));
  }

  // Every device computes its own box.
  const Shape shape = {40, 50};
  const Array whole = InitialShard("normal", {"normal", 0.5}, shape, WholeBox(shape), 3);
  for (const Box& box : {Box{{3, 10}, {20, 50}}, Box{{0, 40}, {7, 7}}, Box{{39, 40}, {49, 50}}}) {
    const Array shard = InitialShard("normal", {"normal", 0.5}, shape, box, 3);
    EXPECT_EQ(shard.shape, ShapeOf(box));
    EXPECT_EQ(shard.values, Slice(whole, WholeBox(shape), box).values);
  }
}

}  // namespace
}  // namespace sluice
