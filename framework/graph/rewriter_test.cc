#include "framework/graph/rewriter.h"

#include "framework/graph/text.h"
#include "framework/graph/toy_ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// A forward op of a block and a region, a random one, a gradient, a state and an update.
void Build(Graph* graph) {
  const Scope root(graph), block = root.Block("h0").Recompute();
  const Tensor x = graph->Input("x", DType::kF32, {4, 8}, "data:S0");
  const Tensor w = block.Param("w", {8, 8}, {.read = "model:S1", .state = "data:S0"});
  Tensor y, noise;
  {
    const InScope here(block);
    y = toy::MatMul(x, w).With("model:S1");
    noise = graph->Add(toy::NoiseOp(), DropoutAttributes{0.1, 0}, {y})[0];
  }
  graph->Output("noise", noise);
  graph->SettleStages();
  Graph::Context context;
  context.phase = Phase::kBackward;
  context.forward = graph->tensor(y.id()).producer;
  context.scope = "h0/backward";
  graph->set_context(context);
  const Tensor ones = graph->Add(toy::ConstantOp(), FillAttributes{1, {8, 8}}, {})[0];
  graph->SetRole(ones.id(), Role::kGradient, w.id());
  context = {};
  context.phase = Phase::kUpdate;
  context.scope = "h0/w";
  graph->set_context(context);
  const Tensor m =
      graph->Variable("h0/w.m", DType::kF32, {8, 8}, {"ones"}, {.stored = "data:S0"}, 0);
  graph->SetRole(m.id(), Role::kState, w.id());
  toy::Descend(w, toy::Add(ones, m), 0.01);
  graph->set_context({});
  ASSERT_TRUE(graph->Finish().ok()) << graph->status();
}

TEST(Rewriter, ACopyIsTheSameGraph) {
  Graph graph;
  Build(&graph);
  const auto copy =
      RewriteGraph(graph, [](const Node& node, GraphRewriter* rewriter) { rewriter->Copy(node); });
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(PrintGraph(**copy), PrintGraph(graph));
  EXPECT_THAT(PrintGraph(**copy), HasSubstr("block=0 region=0"));
  EXPECT_THAT(PrintGraph(**copy), HasSubstr("annotation=\"model:S1\" state=\"data:S0\""));
  // It can be built on: variables are found, blocks are counted on.
  EXPECT_TRUE((*copy)->FindVariable("h0/w"));
  EXPECT_EQ(Scope(copy->get()).Block("h1").block(), 1);
  EXPECT_EQ(Scope(copy->get()).Recompute().region(), 1);
}

// As the graph itself would be: the next node of a scope is called alike.
TEST(Rewriter, AWholeCopyCanBeBuiltOn) {
  Graph graph;
  Build(&graph);
  Graph::Context elsewhere;
  elsewhere.scope = "elsewhere";
  graph.set_context(elsewhere);
  const std::unique_ptr<Graph> copy = graph.Copy();
  graph.set_context({});
  EXPECT_EQ(PrintGraph(*copy), PrintGraph(graph));
  for (Graph* each : {&graph, copy.get()}) {
    const Tensor w = each->FindVariable("h0/w");
    EXPECT_EQ(w.graph(), each);
    toy::MatMul(w, w);
    toy::MatMul(w, w);
    EXPECT_EQ(Scope(each).Block("h1").block(), 1);
  }
  EXPECT_EQ(PrintGraph(*copy), PrintGraph(graph));
  EXPECT_EQ(copy->nodes().back().name, "matmul_2");
}

TEST(Rewriter, ReplacedTensorsKeepAnnotationRoleAndReaders) {
  Graph graph;
  Build(&graph);
  const auto made = RewriteGraph(graph, [](const Node& node, GraphRewriter* rewriter) {
    if (node.op == &toy::NoiseOp()) {  // an op beside the copied one, in its scope
      rewriter->Copy(node);
      rewriter->Enter(node, "twice");
      const Tensor noise = rewriter->Map(node.outputs[0]);
      return rewriter->Replace(node.outputs[0], toy::Add(noise, noise));
    }
    if (node.name == "h0/backward") {
      rewriter->Enter(node, "one");
      const Tensor ones = rewriter->to()->Add(toy::ConstantOp(), node.attributes, {})[0];
      return rewriter->Replace(node.outputs[0], toy::Add(ones, ones));
    }
    rewriter->Copy(node);
  });
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string text = PrintGraph(**made);
  EXPECT_THAT(text, HasSubstr("name=\"h0/noise/twice\" stage=0 block=0 region=0"));
  EXPECT_THAT(text, HasSubstr("name=\"h0/backward/one/add_n\" stage=0 phase=backward "
                              "forward=\"h0\" -> f32[8,8] gradient_of=%1"));
  const auto roles = (*made)->TensorsOf(Role::kGradient);
  ASSERT_EQ(roles.size(), 1u);
  const Node& update = (*made)->nodes().back();
  EXPECT_EQ((*made)->node((*made)->tensor(update.inputs[1]).producer).inputs[0], roles[0].first);
  EXPECT_EQ((*made)->outputs()[0].second,
            (*made)->nodes()[4].outputs[0]);  // the output is what stands for the old one
}

TEST(Rewriter, AReaderOfWhatIsGoneIsNamed) {
  Graph graph;
  Build(&graph);
  const auto made = RewriteGraph(graph, [](const Node& node, GraphRewriter* rewriter) {
    if (node.name != "h0") rewriter->Copy(node);
  });
  EXPECT_THAT(std::string(made.status().message()),
              HasSubstr("h0/noise: input 0 (x): expected a tensor of this graph, got an empty"));
}

}  // namespace
}  // namespace sluice
