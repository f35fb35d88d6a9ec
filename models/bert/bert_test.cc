#include "models/bert/bert.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "framework/graph/interpreter.h"
#include "framework/nn/model_size.h"
#include "framework/passes/cut_stages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

BertConfig Micro() {
  BertConfig config;
  config.vocabulary = 11;
  config.sequence_length = 6;
  config.layers = 2;
  config.heads = 2;
  config.hidden = 4;
  config.predictions = 2;
  config.batch = 2;
  config.dropout = 0;
  return config;
}

Array Of(const Shape& shape, std::vector<double> values) {
  Array array(shape);
  array.values = std::move(values);
  return array;
}

// Two samples, of 6 tokens and of 4.
ArrayMap Feeds() {
  ArrayMap feeds;
  feeds["tokens"] = Of({2, 6}, {2, 5, 4, 3, 8, 3, 2, 4, 9, 3, 0, 0});
  feeds["segments"] = Of({2, 6}, {0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0});
  feeds["length"] = Of({2}, {6, 4});
  feeds["positions"] = Of({2, 2}, {2, 4, 1, 0});
  feeds["labels"] = Of({2, 2}, {7, 8, 10, 0});
  feeds["weights"] = Of({2, 2}, {1, 1, 1, 0});
  feeds["masked_words"] = Of({2}, {2, 1});
  feeds["next"] = Of({2}, {0, 1});
  return feeds;
}

double LossOf(const Graph& graph, const ArrayMap& feeds, ArrayMap variables,
              const char* output = "loss") {
  const auto outputs = Interpret(graph, feeds, &variables, {});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? outputs->find(output)->second.values[0] : NAN;
}

// As Hugging Face counts those of bert-base-uncased with both heads, and of bert-large-uncased.
TEST(BertTest, SizesAreThoseOfBert) {
  BertConfig config;
  config.sequence_length = 512;
  config.batch = 1;
  Graph base, large;
  ASSERT_EQ(BuildBertLoss(config, &base), absl::OkStatus());
  EXPECT_EQ(SizeOfModel(base).parameters, 110106428);
  config.layers = 24;
  config.heads = 16;
  config.hidden = 1024;
  ASSERT_EQ(BuildBertLoss(config, &large), absl::OkStatus());
  EXPECT_EQ(SizeOfModel(large).parameters, 336226108);
}

TEST(BertTest, ProgramsShareTheirVariables) {
  for (const int64_t classes : {0, 3}) {
    BertConfig config = Micro();
    config.classes = classes;
    config.dropout = 0.1;
    config.attention_dropout = 0.25;
    Graph train, eval;
    ASSERT_EQ(BuildBertTrain(config, OptimizerOptions(), &train), absl::OkStatus());
    ASSERT_EQ(BuildBertEval(config, &eval), absl::OkStatus());
    for (const NodeId id : eval.variables()) {
      EXPECT_TRUE(train.FindVariable(eval.node(id).name)) << eval.node(id).name;
    }
    const auto dropouts = [](const Graph& graph) {
      int count = 0;
      for (const Node& node : graph.nodes()) count += node.op->name == "dropout" ? 1 : 0;
      return count;
    };
    const auto drops_weights = [](const Graph& graph) {
      int count = 0;
      for (const Node& node : graph.nodes()) {
        const auto* const a = std::get_if<AttentionAttributes>(&node.attributes);
        count += a != nullptr && a->rate == 0.25 ? 1 : 0;
      }
      return count;
    };
    EXPECT_EQ(drops_weights(train), 4);  // of two layers, forward and gradient
    EXPECT_EQ(drops_weights(eval), 0);
    EXPECT_EQ(dropouts(eval), 0);
    EXPECT_GE(dropouts(train), 5);
    std::vector<std::string> inputs;
    for (const NodeId id : eval.inputs()) inputs.push_back(eval.node(id).name);
    if (classes > 0) {
      EXPECT_THAT(inputs, ElementsAre("tokens", "segments", "length", "label"));
    } else {
      EXPECT_THAT(inputs, ElementsAre("tokens", "segments", "length", "positions", "labels",
                                      "weights", "masked_words", "next"));
    }
  }
}

// Before anything is learned a word is one of the vocabulary, and a next sentence one of two.
TEST(BertTest, BeginsAtChance) {
  Graph graph;
  ASSERT_EQ(BuildBertLoss(Micro(), &graph), absl::OkStatus());
  const ArrayMap variables = InitialVariables(graph, 1);
  EXPECT_NEAR(LossOf(graph, Feeds(), variables), std::log(11) + std::log(2), 0.2);
}

// Of three masked words each counts alike, though the first sample has two of them.
TEST(BertTest, TheLossIsTheMeanOverMaskedWordsOfTheBatch) {
  Graph loss, eval;
  ASSERT_EQ(BuildBertLoss(Micro(), &loss), absl::OkStatus());
  ASSERT_EQ(BuildBertEval(Micro(), &eval), absl::OkStatus());
  ArrayMap variables = InitialVariables(loss, 1);
  for (auto& [name, array] : variables) {
    for (double& value : array.values) value *= 50;  // so that words differ in how likely they are
  }
  ArrayMap held = variables;
  const auto metrics = Interpret(eval, Feeds(), &held, {});
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  const auto of = [&](const char* name) { return metrics->find(name)->second.values; };
  const std::vector<double> masked = of("masked_loss"), next = of("next_loss");
  ASSERT_EQ(masked.size(), 2u);
  EXPECT_EQ(of("masked_words"), (std::vector<double>{2, 1}));
  EXPECT_GT(std::abs(masked[0] / 2 - masked[1]), 0.1);
  EXPECT_NEAR(LossOf(loss, Feeds(), variables),
              (masked[0] + masked[1]) / 3 + (next[0] + next[1]) / 2, 1e-12);
}

// Neither what stands in the padding nor a prediction without weight has a part in anything, and
// whatever is inside has.
TEST(BertTest, PaddingHasNoPart) {
  Graph graph;
  ASSERT_EQ(BuildBertLoss(Micro(), &graph), absl::OkStatus());
  const ArrayMap variables = InitialVariables(graph, 1);
  const double loss = LossOf(graph, Feeds(), variables);
  const auto changed = [&](const char* field, size_t at, double value) {
    ArrayMap feeds = Feeds();
    feeds[field].values[at] = value;
    return LossOf(graph, feeds, variables);
  };
  EXPECT_EQ(changed("tokens", 10, 7), loss);
  EXPECT_EQ(changed("segments", 11, 1), loss);
  EXPECT_EQ(changed("labels", 3, 5), loss);
  EXPECT_EQ(changed("positions", 3, 3), loss);
  EXPECT_NE(changed("tokens", 9, 7), loss);
  EXPECT_NE(changed("segments", 8, 0), loss);
  EXPECT_NE(changed("length", 1, 3), loss);
  EXPECT_NE(changed("labels", 2, 5), loss);
  EXPECT_NE(changed("next", 1, 0), loss);
}

TEST(BertTest, BlocksAreSpreadOverStages) {
  Graph graph;
  BertConfig config = Micro();
  config.layers = 4;
  ASSERT_EQ(BuildBertLoss(config, &graph), absl::OkStatus());
  const auto cut = RunPasses(graph, {CutStages(2)});
  ASSERT_TRUE(cut.ok()) << cut.status();
  std::map<std::string, int> stages;
  for (const Node& node : (*cut)->nodes()) stages[node.name] = node.stage;
  EXPECT_EQ(stages["embedding/table"], 0);
  EXPECT_EQ(stages["h1/norm2/gamma"], 0);
  EXPECT_EQ(stages["h2/attn/q/weight"], 1);
  EXPECT_EQ(stages["pooler/weight"], 1);
  EXPECT_EQ(stages["masked/transform/weight"], 1);
}

TEST(BertTest, WhatDoesNotFitIsNamed) {
  BertConfig config = Micro();
  EXPECT_EQ(CheckBert(config, 2), absl::OkStatus());
  EXPECT_EQ(CheckBert(config, 3).message(),
            "mesh: expected at most one pipeline stage a layer, 2, got pipe=3");
  config.heads = 3;
  EXPECT_EQ(CheckBert(config, 1).message(), "heads: expected a divisor of hidden, 4, got 3");
  config = Micro();
  config.predictions = 7;
  EXPECT_EQ(CheckBert(config, 1).message(), "predictions: expected 1 to 6, got 7");
}

}  // namespace
}  // namespace sluice
