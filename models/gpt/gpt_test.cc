#include "models/gpt/gpt.h"

#include <cmath>
#include <map>

#include "framework/base/hash.h"
#include "framework/data/batch.h"
#include "framework/data/text_corpus.h"
#include "framework/data/text_dataset.h"
#include "framework/graph/interpreter.h"
#include "framework/nn/learning_rate.h"
#include "framework/passes/cut_stages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr char kFixedText[] = "models/gpt/testdata/fixed.txt";

// One block of four numbers: small enough for reference implementations in f64.
GptConfig Micro() {
  return {.vocabulary = 256,
          .sequence_length = 8,
          .layers = 1,
          .heads = 2,
          .hidden = 4,
          .batch = 2,
          .dropout = 0.1};
}

int64_t CountParameters(const Graph& graph) {
  int64_t count = 0;
  for (NodeId id : graph.variables()) {
    const TensorId tensor = graph.node(id).outputs[0];
    if (graph.tensor(tensor).role == Role::kParameter)
      count += graph.tensor(tensor).type.shape.NumElements();
  }
  return count;
}

int CountOps(const Graph& graph, absl::string_view name) {
  int count = 0;
  for (const Node& node : graph.nodes()) count += node.op->name == name;
  return count;
}

std::string WordsOf(Graph* graph, absl::string_view variable) {
  return graph->tensor(graph->FindVariable(variable).id()).annotation.ToString();
}

TEST(GptTest, FixedTextNeverChanges) {
  absl::StatusOr<std::string> text = ReadFile(kFixedText);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->size(), 200000u);
  EXPECT_EQ(HashText(StableHash(*text)), "a903a638064fbd60");
}

TEST(GptTest, TrainProgramHasItsPortsAndParameters) {
  Graph graph;
  const GptConfig config = {.layers = 4, .heads = 4, .hidden = 128, .batch = 8};
  const absl::Status status = BuildGptTrain(config, OptimizerOptions(), &graph);
  ASSERT_TRUE(status.ok()) << status;
  std::vector<std::string> inputs, outputs;
  for (NodeId id : graph.inputs()) inputs.push_back(graph.node(id).name);
  for (const auto& output : graph.outputs()) outputs.push_back(output.first);
  EXPECT_THAT(inputs, ::testing::ElementsAre("tokens", "labels", "learning_rate", "step"));
  EXPECT_THAT(outputs, ::testing::ElementsAre("loss", "grad_norm"));
  EXPECT_EQ(CountParameters(graph), GptParameters(config));
  EXPECT_EQ(GptParameters(config), 4 * 198272 + (256 + 128) * 128 + 256);
  EXPECT_EQ(CountOps(graph, "transpose"), 0);
}

TEST(GptTest, AnnotationsAreMegatrons) {
  Graph graph;
  ASSERT_TRUE(BuildGptEval(GptConfig(), &graph).ok());
  const std::map<std::string, std::string> expected = {{"embedding/table", "model:S0"},
                                                       {"positions/table", ""},
                                                       {"h0/attn/q/weight", "model:S1"},
                                                       {"h0/attn/k/bias", "model:S0"},
                                                       {"h5/attn/out/weight", "model:S0"},
                                                       {"h5/attn/out/bias", ""},
                                                       {"h1/mlp/up/weight", "model:S1"},
                                                       {"h1/mlp/up/bias", "model:S0"},
                                                       {"h1/mlp/down/weight", "model:S0"},
                                                       {"h1/mlp/down/bias", ""},
                                                       {"h2/norm1/gamma", ""},
                                                       {"norm/beta", ""}};
  for (const auto& variable : expected) {
    EXPECT_EQ(WordsOf(&graph, variable.first), variable.second) << variable.first;
  }
}

TEST(GptTest, BlocksAreSpreadOverStages) {
  Graph graph;
  ASSERT_TRUE(BuildGptEval({.layers = 4}, &graph).ok());
  const auto cut = RunPasses(graph, {CutStages(2)});
  ASSERT_TRUE(cut.ok()) << cut.status();
  std::map<std::string, int> stages;
  for (const Node& node : (*cut)->nodes()) stages[node.name] = node.stage;
  EXPECT_EQ(stages["embedding/table"], 0);
  EXPECT_EQ(stages["positions/table"], 0);
  EXPECT_EQ(stages["h1/mlp/down/weight"], 0);
  EXPECT_EQ(stages["h2/norm1/gamma"], 1);
  EXPECT_EQ(stages["norm/gamma"], 1);
  EXPECT_EQ(stages["logits"], 1);
  EXPECT_EQ(stages["loss"], 1);
}

// Attention that drops weights, and its gradients.
int CountDropping(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes()) {
    const auto* const attention = std::get_if<AttentionAttributes>(&node.attributes);
    count += attention != nullptr && attention->rate > 0 ? 1 : 0;
  }
  return count;
}

TEST(GptTest, EvaluationAndSampleHaveNoDropout) {
  GptConfig config = Micro();
  config.attention_dropout = 0.25;
  Graph train, eval, decode, prefill;
  ASSERT_TRUE(BuildGptTrain(config, OptimizerOptions(), &train).ok());
  ASSERT_TRUE(BuildGptEval(config, &eval).ok());
  ASSERT_TRUE(BuildGptDecode(config, &decode).ok());
  ASSERT_TRUE(BuildGptPrefill(config, &prefill).ok());
  EXPECT_GT(CountOps(train, "dropout"), 0);
  EXPECT_EQ(CountDropping(train), 2);
  EXPECT_EQ(CountDropping(eval), 0);
  EXPECT_EQ(CountOps(eval, "dropout"), 0);
  for (const Graph* graph : {&decode, &prefill}) {
    EXPECT_EQ(CountOps(*graph, "dropout"), 0);
    EXPECT_EQ(CountDropping(*graph), 0);
    const TensorId logits = graph->outputs()[0].second;
    EXPECT_EQ(graph->tensor(logits).type.shape, (Shape{1, 256}));
    EXPECT_EQ(graph->TensorsOf(Role::kCache).size(), 2u);  // of one layer
    EXPECT_EQ(CountParameters(*graph), GptParameters(Micro()));
  }
}

// Definitions alone: from nearly ln 256, the loss of one batch falls as it is learnt.
TEST(GptTest, LearnsUnderTheInterpreter) {
  GptConfig config = Micro();
  Graph graph;
  OptimizerOptions options;
  options.clip = 1;
  ASSERT_TRUE(BuildGptTrain(config, options, &graph).ok());
  const TextDataset text =
      *TextDataset::Create("text", *ReadFile(kFixedText), config.sequence_length);
  Batch batch(text, config.batch);
  ASSERT_TRUE(ReadBatch(text, {SampleOrder::kRandom, 1}, 0, &batch).ok());
  ArrayMap variables = InitialVariables(graph, 1);
  std::vector<double> losses;
  for (int step = 0; step < 4; ++step) {
    Array rate{Shape{}}, count{Shape{}};
    rate.values = {0.01};
    count.values = {step + 1.0};
    InterpretOptions interpret;
    interpret.seed = 1;
    interpret.step = step;
    absl::StatusOr<ArrayMap> outputs = Interpret(graph,
                                                 {{"tokens", ToArray(batch.tensors[0])},
                                                  {"labels", ToArray(batch.tensors[1])},
                                                  {"learning_rate", rate},
                                                  {"step", count}},
                                                 &variables, interpret);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    losses.push_back((*outputs)["loss"].values[0]);
    EXPECT_GT((*outputs)["grad_norm"].values[0], 0);
  }
  EXPECT_NEAR(losses[0], std::log(256), 0.1);
  for (size_t i = 1; i < losses.size(); ++i) EXPECT_LT(losses[i], losses[i - 1]);
}

// A sequence gives the sum over the labels that count, in nats and, divided by what a bit is in
// nats and a token in bytes, in bits a byte.
TEST(GptTest, EvaluationTellsBitsOfText) {
  GptConfig config = Micro();
  Graph untold, told;
  ASSERT_TRUE(BuildGptEval(config, &untold).ok());
  EXPECT_EQ(untold.outputs().size(), 2u);
  config.bytes_per_token = 3.5;
  ASSERT_TRUE(BuildGptEval(config, &told).ok());
  const TextDataset text =
      *TextDataset::Create("text", *ReadFile(kFixedText), config.sequence_length);
  Batch batch(text, config.batch);
  ASSERT_TRUE(ReadBatch(text, {SampleOrder::kRandom, 1}, 0, &batch).ok());
  ArrayMap variables = InitialVariables(told, 1);
  Array weights({config.batch, config.sequence_length});
  weights.values.assign(config.batch * config.sequence_length, 1);
  std::fill_n(weights.values.begin(), config.sequence_length - 3, 0);
  auto outputs = Interpret(told,
                           {{"tokens", ToArray(batch.tensors[0])},
                            {"labels", ToArray(batch.tensors[1])},
                            {"weights", weights}},
                           &variables, InterpretOptions());
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const auto length = static_cast<double>(config.sequence_length);
  const std::vector<double> loss = (*outputs)["loss"].values;
  ASSERT_EQ(loss.size(), static_cast<size_t>(config.batch));
  EXPECT_NEAR(loss[0], 3 * std::log(256), 0.3);
  EXPECT_NEAR(loss[1], length * std::log(256), 0.1 * length);
  EXPECT_EQ((*outputs)["predicted"].values[0], 3);
  EXPECT_EQ((*outputs)["predicted"].values[1], length);
  EXPECT_NEAR((*outputs)["bits_per_byte"].values[1], loss[1] / 0.69314718056 / 3.5, 1e-9);
}

TEST(GptTest, SizesOutOfRangeAreRefused) {
  auto error = [](const GptConfig& config, int64_t stages) {
    return std::string(CheckGpt(config, stages).message());
  };
  EXPECT_EQ(error({.layers = 0}, 1), "layers: expected 1 to 1000, got 0");
  EXPECT_EQ(error({.heads = 5}, 1), "heads: expected a divisor of hidden, 192, got 5");
  EXPECT_EQ(error({.batch = -1}, 1), "batch: expected 1 to 1048576, got -1");
  EXPECT_EQ(error({.dropout = 1.5}, 1), "dropout: expected 0 to 0.99, got 1.5");
  EXPECT_THAT(error({.layers = 4}, 8),
              HasSubstr("at most one pipeline stage a layer, 4, got pipe=8"));
}

}  // namespace
}  // namespace sluice
