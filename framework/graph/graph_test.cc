#include "framework/graph/graph.h"

#include "framework/base/status.h"
#include "framework/graph/toy_ops.h"
#include "framework/graph/verify.h"
#include "framework/tensor/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Node& ProducerOf(Tensor tensor) {
  return tensor.graph()->node(tensor.graph()->tensor(tensor.id()).producer);
}
std::string NameOf(Tensor tensor) { return ProducerOf(tensor).name; }
int32_t StageOf(Tensor tensor) { return ProducerOf(tensor).stage; }
std::string ErrorOf(const Graph& graph) { return std::string(graph.status().message()); }

void SetPhase(Graph* graph, Phase phase) {
  Graph::Context context;
  context.phase = phase;
  graph->set_context(context);
}

TEST(Graph, OpsAreCalledAfterTheScopeTheyAreWrittenIn) {
  Graph graph;
  const Scope root(&graph), down = root / "h0" / "down";
  const Tensor x = graph.Input("x", DType::kF32, {4, 8}, "data:S0");
  const Tensor w = down.Param("weight", {8, 8}, "model:S1");
  const auto linear = [&] {
    const InScope here(down);
    const Tensor y = toy::MatMul(x, w);
    return toy::Add(y, y);
  };
  Tensor sum;
  {
    const InScope here(root / "sum");
    sum = toy::Add(linear(), linear());  // whichever is written first, the caller's scope is back
    EXPECT_EQ(NameOf(toy::Add(x, sum)), "sum/add_n");
    EXPECT_EQ(NameOf(toy::Add(x, sum)), "sum/add_n_2");
  }
  EXPECT_EQ(NameOf(sum), "sum");
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.name);
  EXPECT_THAT(names,
              ElementsAre("x", "h0/down/weight", "h0/down", "h0/down/add_n", "h0/down/matmul",
                          "h0/down/add_n_2", "sum", "sum/add_n", "sum/add_n_2"));
  EXPECT_EQ(NameOf(toy::Add(x, x)), "add_n");  // in no scope
  EXPECT_EQ(NameOf(toy::Add(x, x)), "add_n_2");
  {
    const InScope taken(down / "weight");  // the name of a variable
    EXPECT_EQ(NameOf(toy::Add(x, x)), "h0/down/weight/add_n");
  }
  graph.Output("sum", sum);
  EXPECT_TRUE(graph.Finish().ok()) << graph.status();
  EXPECT_EQ(graph.tensor(w.id()).annotation.ToString(), "model:S1");
  EXPECT_TRUE(graph.IsVariable(w.id()));
  EXPECT_FALSE(graph.IsVariable(sum.id()));
}

TEST(Graph, VariablesAreMadeOnceAndMustAgree) {
  Graph graph;
  const Tensor a = graph.Variable("w", DType::kF32, {2, 2}, {}, "data:S0");
  const Tensor b = graph.Variable("w", DType::kF32, {2, 2}, {}, "model:S1");
  EXPECT_EQ(a.id(), b.id());
  EXPECT_EQ(graph.FindVariable("w").id(), a.id());
  EXPECT_FALSE(graph.FindVariable("v"));
  EXPECT_EQ(graph.tensor(a.id()).annotation.ToString(), "data:S0 model:S1");
  EXPECT_EQ(graph.variables().size(), 1u);
  EXPECT_FALSE(graph.Variable("w", DType::kF32, {2, 3}, {}, ""));
  EXPECT_THAT(ErrorOf(graph), HasSubstr("variable \"w\": is f32[2,2] already, got f32[2,3]"));
}

TEST(Graph, TheFirstErrorSticksAndNamesTheScope) {
  Graph graph;
  const Scope scope = Scope(&graph) / "h3" / "attn";
  const Tensor x = graph.Input("x", DType::kF32, {4, 8}, "");
  const InScope here(scope);
  const Tensor bad = toy::MatMul(x, scope.Param("weight", {9, 8}));
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.shape(), Shape());
  const std::string first = ErrorOf(graph);
  EXPECT_THAT(first, HasSubstr("h3/attn/matmul"));
  EXPECT_THAT(first, HasSubstr("inputs f32[4,8], f32[9,8]"));
  EXPECT_THAT(first, HasSubstr("expected [m,k] and [k,n]"));
  const size_t nodes = graph.nodes().size();
  EXPECT_FALSE(toy::Add(bad, x));
  EXPECT_FALSE(toy::Add(x, x));
  EXPECT_FALSE(graph.Input("y", DType::kF32, {1}, ""));
  EXPECT_FALSE(scope.Param("other", {1}));
  EXPECT_FALSE(bad.With("data:S0"));
  graph.Output("y", bad);
  EXPECT_EQ(graph.nodes().size(), nodes);
  EXPECT_EQ(ErrorOf(graph), first);
  EXPECT_EQ(graph.Finish().message(), first);
}

TEST(Graph, EveryWrongCallIsRefusedWithItsReason) {
  const auto error_of = [](void (*build)(Graph*, Tensor x)) {
    Graph graph;
    build(&graph, graph.Input("x", DType::kF32, {4, 8}, ""));
    return ErrorOf(graph);
  };
  EXPECT_THAT(error_of([](Graph* g, Tensor x) {
                toy::Add(x, Tensor());
                (void)g;
              }),
              HasSubstr("add_n: input 1 (terms): expected a tensor of this graph, got an empty"));
  EXPECT_THAT(error_of([](Graph* g, Tensor x) {
                g->Add(toy::SignsOp(), NoAttributes{}, {x, x});
              }),
              HasSubstr("signs: expected 1 inputs, got 2"));
  EXPECT_THAT(error_of([](Graph* g, Tensor x) {
                Graph other;
                g->Add(toy::SignsOp(), NoAttributes{}, {other.Input("y", DType::kF32, {1}, "")});
                (void)x;
              }),
              HasSubstr("got one of another graph"));
  EXPECT_THAT(error_of([](Graph*, Tensor x) { toy::Descend(x, x, 1); }),
              HasSubstr("input 0 (variable): expected a variable, for it is updated in place, got "
                        "the output of x"));
  EXPECT_THAT(error_of([](Graph* g, Tensor) { g->Input("x", DType::kF32, {1}, ""); }),
              HasSubstr("input \"x\": expected a name that nothing else has"));
  EXPECT_THAT(error_of([](Graph* g, Tensor) { g->Variable("x", DType::kF32, {1}, {}, ""); }),
              HasSubstr("variable \"x\": expected a name that nothing else has"));
  EXPECT_THAT(error_of([](Graph* g, Tensor) { g->Input("y", DType::kF32, {1}, "data:S1"); }),
              HasSubstr("input \"y\": \"data:S1\": expected a dimension below 1"));
  EXPECT_THAT(error_of([](Graph* g, Tensor) {
                g->Variable("w", DType::kF32, {1}, {"norml", 1}, "");
              }),
              HasSubstr("got \"norml\"; did you mean \"normal\"?"));
  EXPECT_THAT(error_of([](Graph*, Tensor x) { x.With("model:S2"); }),
              HasSubstr("x: SBP annotation: \"model:S2\": expected a dimension below 2"));
  EXPECT_THAT(error_of([](Graph*, Tensor x) { x.With("model:S1").With("model:S0"); }),
              HasSubstr("axis model is bound to S1 already, got S0"));
  EXPECT_THAT(error_of([](Graph*, Tensor x) { x.With("model"); }),
              HasSubstr("x: SBP annotation: "));
  EXPECT_THAT(error_of([](Graph* g, Tensor x) { g->Output("y", x), g->Output("y", x); }),
              HasSubstr("output \"y\": expected a name that no other output has"));
  EXPECT_THAT(error_of([](Graph* g, Tensor) { g->Output("y", Tensor()); }),
              HasSubstr("output \"y\": expected a tensor of this graph"));
}

TEST(Graph, AnnotationsStandOnAnyTensorAndRepeatHarmlessly) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {4, 8}, "data:S0");
  const Tensor y = toy::Add(x, x).With("model:S1").With("data:S0 model:S1");
  EXPECT_EQ(graph.tensor(y.id()).annotation.ToString(), "model:S1 data:S0");
  EXPECT_TRUE(graph.Finish().ok());
}

TEST(Graph, AParameterSaysHowItIsReadStoredAndItsStateStored) {
  Graph graph;
  const Scope block = Scope(&graph) / "h0";
  const Tensor w = block.Param("w", {8, 8}, {.read = "model:S1", .stored = "data:S0"});
  EXPECT_EQ(graph.tensor(w.id()).annotation.ToString(), "model:S1");
  EXPECT_EQ(graph.tensor(w.id()).storage.ToString(), "data:S0");
  EXPECT_EQ(graph.tensor(w.id()).state.ToString(), "");
  block.Param("w", {8, 8}, {.state = "data:S1"});  // more of the same one
  EXPECT_EQ(graph.tensor(w.id()).state.ToString(), "data:S1");
  const Tensor plain = block.Param("b", {8}, "model:S0");
  EXPECT_EQ(graph.tensor(plain.id()).annotation.ToString(), "model:S0");
  EXPECT_TRUE(graph.tensor(plain.id()).storage.empty());
  EXPECT_TRUE(graph.Finish().ok()) << graph.status();

  const auto error_of = [](const ParamLayout& layout) {
    Graph broken;
    const Scope scope = Scope(&broken) / "h0";
    scope.Param("w", {8, 8}, {"model:S1", "data:S0", "data:S1"});
    EXPECT_FALSE(scope.Param("w", {8, 8}, layout));
    return ErrorOf(broken);
  };
  EXPECT_THAT(error_of({.read = "model:S3"}),
              HasSubstr("variable \"h0/w\": how it is read: \"model:S3\": expected a dimension "
                        "below 2 of a tensor [8,8], got S3"));
  EXPECT_THAT(error_of({.stored = "data"}), HasSubstr("variable \"h0/w\": how it is stored: "));
  EXPECT_THAT(error_of({.stored = "data:P(sum)"}),
              HasSubstr("variable \"h0/w\": how it is stored: axis data: expected B or a split"));
  EXPECT_THAT(error_of({.state = "data:P(sum)"}),
              HasSubstr("variable \"h0/w\": how its state is stored: axis data: expected B or"));
  EXPECT_THAT(error_of({.state = "data:S0"}),
              HasSubstr("variable \"h0/w\": how its state is stored: axis data is bound to S1 "
                        "already, got S0"));
}

TEST(Graph, StagesAreTheLatestInputsAndTheFirstReaders) {
  Graph graph;
  const Scope root(&graph);
  const Tensor x = graph.Input("x", DType::kF32, {4, 4}, "");
  const Tensor late = graph.Input("late", DType::kF32, {4, 4}, "");
  const Tensor table = root.Param("table", {4, 4});  // no stage: its first reader's
  const Tensor y0 = toy::MatMul(toy::MatMul(x, table), root.Stage(0).Param("a", {4, 4}));
  const Tensor y1 = toy::MatMul(y0, root.Stage(1).Param("b", {4, 4}));
  const Tensor prepared = toy::Add(late, late);  // of nothing that has a stage
  const Tensor loss = toy::Add(toy::MatMul(y1, table), prepared);
  const Tensor ones = graph.Add(toy::ConstantOp(), FillAttributes{1, {4, 4}}, {})[0];
  const Tensor end = toy::Add(loss, ones);
  const Tensor unread = root.Param("unread", {4, 4});
  EXPECT_EQ(StageOf(y0), 0);
  EXPECT_EQ(StageOf(y1), 1);
  EXPECT_EQ(StageOf(loss), 1);
  EXPECT_EQ(StageOf(table), -1);

  graph.SettleStages();
  Graph::Context context;
  context.phase = Phase::kBackward;
  context.forward = ProducerOf(y0).id;
  graph.set_context(context);
  const Tensor gradient = toy::MatMul(end, table, true);
  context = {};
  context.phase = Phase::kUpdate;
  graph.set_context(context);
  const Tensor rate = graph.Input("rate", DType::kF32, {4, 4}, "");
  const Tensor state = graph.Variable("table.m", DType::kF32, {4, 4}, {}, "");
  toy::Descend(table, toy::Add(gradient, rate), 0.1);
  toy::Descend(state, gradient, 0.1);
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  for (Tensor tensor : {x, table, y0, gradient, unread, state, rate}) {
    EXPECT_EQ(StageOf(tensor), 0) << NameOf(tensor);
  }
  for (Tensor tensor : {y1, late, prepared, loss, ones, end}) {
    EXPECT_EQ(StageOf(tensor), 1) << NameOf(tensor);
  }
  EXPECT_EQ(ProducerOf(gradient).phase, Phase::kBackward);
  EXPECT_EQ(ProducerOf(state).phase, Phase::kForward);
  EXPECT_EQ(ProducerOf(rate).phase, Phase::kForward);
}

// What a step folds into a variable does not cross stages for it.
TEST(Graph, AVariableThatOnlyItsUpdateReadsStandsWhereItsValueIsMade) {
  Graph graph;
  const Scope root(&graph);
  const Tensor x = graph.Input("x", DType::kF32, {4, 4}, "");
  const Tensor y = toy::MatMul(x, root.Stage(1).Param("w", {4, 4}));
  const Tensor average = root.Param("average", {4, 4});
  SetPhase(&graph, Phase::kUpdate);
  toy::Descend(average, y, 0.5);
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  EXPECT_EQ(graph.nodes().back().stage, 1);
  EXPECT_EQ(StageOf(average), 1);
}

TEST(Graph, RandomOpsGetAKeyByTheirName) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {4}, "");
  const Tensor a = graph.Add(toy::NoiseOp(), DropoutAttributes{0.5, 0}, {x})[0];
  const Tensor b = graph.Add(toy::NoiseOp(), DropoutAttributes{0.5, 0}, {x})[0];
  const Tensor same = graph.Add(toy::NoiseOp(), ProducerOf(a).attributes, {x})[0];
  const auto key = [](Tensor t) {
    return std::get<DropoutAttributes>(ProducerOf(t).attributes).key;
  };
  EXPECT_EQ(key(a), RandomKey("noise"));
  EXPECT_EQ(key(b), RandomKey("noise_2"));
  EXPECT_EQ(key(same), key(a));
}

TEST(Graph, RemoveUnusedKeepsWhatIsAskedForAndRenumbers) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {4}, "");
  const NodeId from = static_cast<NodeId>(graph.nodes().size());
  toy::Add(x, x);                                                      // dropped
  const Tensor a = graph.Add(toy::SignsOp(), NoAttributes{}, {x})[1];  // kept for b
  toy::Add(a, a);                                                      // dropped
  const Tensor b = toy::Add(a, x);                                     // kept
  std::vector<TensorId> keep = {b.id(), x.id(), a.id()};
  graph.RemoveUnused(from, &keep);
  EXPECT_THAT(keep, ElementsAre(3, 0, 2));
  ASSERT_EQ(graph.nodes().size(), 3u);
  EXPECT_EQ(graph.node(2).name, "add_n_3");
  EXPECT_THAT(graph.node(2).inputs, ElementsAre(2, 0));
  EXPECT_EQ(graph.num_tensors(), 4);
  EXPECT_TRUE(graph.Finish().ok()) << graph.status();
  EXPECT_EQ(NameOf(toy::Add(x, x)), "add_n");  // free again
}

TEST(Graph, SignaturesComeFromTheRuleOrTheFunction) {
  const Attributes none = MatMulAttributes{};
  const std::vector<TensorType> in = {{DType::kF32, {4, 6}}, {DType::kF32, {6, 8}}};
  const std::vector<TensorType> out = {{DType::kF32, {4, 8}}};
  const auto signatures = SignaturesOf(toy::MatMulOp(), {none, in, out}, 2);
  ASSERT_TRUE(signatures.ok()) << signatures.status();
  std::vector<std::string> text;
  for (const Signature& signature : *signatures) text.push_back(ToString(signature));
  EXPECT_THAT(text, ElementsAre("B,B->B", "S1,S0->P(sum)", "S0,B->S0", "B,S1->S1",
                                "P(sum),B->P(sum)", "B,P(sum)->P(sum)"));
  const std::vector<TensorType> flat = {{DType::kF32, {4, 1, 3}}};
  const Attributes variable = VariableAttributes{};
  const auto source = SignaturesOf(VariableOp(), {variable, {}, flat}, 2);
  ASSERT_TRUE(source.ok());
  ASSERT_EQ(source->size(), 3u);
  EXPECT_EQ((*source)[1].outputs[0], Sbp::S(0));
  EXPECT_EQ((*source)[2].outputs[0], Sbp::S(2));
}

// ---- the verifier, on graphs broken by hand ----

struct Broken {
  Graph graph;
  Tensor x, w, y, gradient;
  Broken() {
    x = graph.Input("x", DType::kF32, {4, 4}, "");
    w = graph.Variable("w", DType::kF32, {4, 4}, {}, "");
    y = toy::MatMul(x, w);
    graph.Output("y", y);
    SetPhase(&graph, Phase::kBackward);
    gradient = toy::MatMul(x, y);
    SetPhase(&graph, Phase::kUpdate);
    toy::Descend(w, gradient, 0.1);
    graph.SettleStages();
  }
  Node& node(NodeId id) { return graph.mutable_node(id); }
  std::string error() { return std::string(VerifyGraph(graph).message()); }
};

TEST(Verify, AcceptsWhatTheBuilderMakes) {
  Broken sound;
  EXPECT_TRUE(VerifyGraph(sound.graph).ok()) << sound.error();
}

TEST(Verify, FindsEachFault) {
  const auto error_of = [](void (*fault)(Broken*)) {
    Broken broken;
    fault(&broken);
    return broken.error();
  };
  EXPECT_THAT(error_of([](Broken* b) { b->node(2).inputs[0] = b->gradient.id(); }),
              HasSubstr("node matmul: reads %3, which is made by the later node matmul_2"));
  EXPECT_THAT(error_of([](Broken* b) {
                b->graph.mutable_tensor(2).type.shape = {4, 5};
              }),
              HasSubstr("node matmul: expected types f32[4,4] by inference, got f32[4,5]"));
  EXPECT_THAT(error_of([](Broken* b) { b->node(3).name = "x"; }),
              HasSubstr("node x: has the name of an earlier node"));
  EXPECT_THAT(error_of([](Broken* b) { b->node(4).inputs[0] = b->y.id(); }),
              HasSubstr("updates matmul, which is no variable"));
  EXPECT_THAT(error_of([](Broken* b) { b->node(4).phase = Phase::kBackward; }),
              HasSubstr("updates a variable, but is of the backward phase"));
  EXPECT_THAT(error_of([](Broken* b) { b->node(2).phase = Phase::kUpdate; }),
              HasSubstr("node matmul_2: of the backward phase reads matmul of the update phase"));
  EXPECT_THAT(error_of([](Broken* b) { toy::Descend(b->w, b->gradient, 0.1); }),
              HasSubstr("node descend_2: reads w after its update by descend"));
  EXPECT_THAT(error_of([](Broken* b) { b->node(4).inputs[1] = 77; }), HasSubstr("got %77"));
  EXPECT_THAT(error_of([](Broken* b) { b->node(4).inputs.pop_back(); }),
              HasSubstr("expected 2 inputs, got 1"));
  EXPECT_THAT(error_of([](Broken* b) { b->node(2).attributes = NoAttributes{}; }),
              HasSubstr("the attributes of another op"));
  EXPECT_THAT(error_of([](Broken* b) { b->node(3).forward = 3; }),
              HasSubstr("expected an earlier node of the forward phase"));
  EXPECT_THAT(error_of([](Broken* b) { b->node(3).forward = 2, b->node(3).stage = 1; }),
              HasSubstr("expected the stage 0 of matmul, got 1"));
  EXPECT_THAT(error_of([](Broken* b) { b->node(4).forward = 2; }),
              HasSubstr("of the update phase has a forward node"));
  EXPECT_THAT(error_of([](Broken* b) {
                b->graph.mutable_tensor(2).annotation.entries.emplace_back("data", Sbp::S(2));
              }),
              HasSubstr("annotation \"data:S2\": expected a dimension below 2"));
  EXPECT_THAT(error_of([](Broken* b) {
                b->graph.mutable_tensor(2).storage.entries.emplace_back("data", Sbp::S(1));
              }),
              HasSubstr("annotation on storage"));
  EXPECT_THAT(error_of([](Broken* b) {
                b->graph.mutable_tensor(2).state.entries.emplace_back("data", Sbp::S(1));
              }),
              HasSubstr("annotation on its state, which only parameters have"));
  EXPECT_THAT(error_of([](Broken* b) { b->graph.SetRole(3, Role::kGradient, 2); }),
              HasSubstr("%3, a gradient: expected it to be of a parameter, got %2"));
  EXPECT_THAT(error_of([](Broken* b) { b->graph.SetRole(1, Role::kState, 9); }),
              HasSubstr("%1, a state: expected a tensor below %4, got %9"));
  EXPECT_THAT(error_of([](Broken* b) { b->graph.SetRole(2, Role::kParameter, -1); }),
              HasSubstr("%2 is no variable and has the role parameter"));
  EXPECT_THAT(error_of([](Broken* b) {
                b->node(1).attributes = VariableAttributes{"random", 1};
              }),
              HasSubstr("node w: init: expected zeros, ones, constant, normal, uniform, got "
                        "\"random\""));
}

TEST(Verify, LooksAtEveryOutputOfANode) {
  for (TensorId wrong : {1, 2}) {
    Graph graph;
    const Tensor x = graph.Input("x", DType::kF32, {4, 4}, "");
    const std::vector<Tensor> signs = graph.Add(toy::SignsOp(), NoAttributes{}, {x});
    ASSERT_EQ(signs[1].id(), 2);
    graph.SettleStages();
    EXPECT_EQ(VerifyGraph(graph), absl::OkStatus());
    graph.SetRole(wrong, Role::kParameter, -1);
    EXPECT_THAT(std::string(VerifyGraph(graph).message()),
                HasSubstr("%" + std::to_string(wrong) + " is no variable"));
  }
}

}  // namespace
}  // namespace sluice
