#include "framework/graph/text.h"

#include "framework/graph/toy_ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Two layers on two stages, with all that a graph may carry.
void Build(Graph* graph) {
  const Scope root(graph);
  const Tensor x = graph->Input("x", DType::kF32, {4, 8}, "data:S0");
  Tensor y;
  std::vector<Tensor> signs;
  {
    const InScope l0(root / "l0");
    y = toy::MatMul(x, (root / "l0").Stage(0).Param("w", {8, 6}, "model:S1", {"normal", 0.1}));
    signs = graph->Add(toy::SignsOp(), NoAttributes{}, {y});
    y = graph->Add(toy::NoiseOp(), DropoutAttributes{0.1, 0}, {signs[1]})[0].With("model:S1");
  }
  const Tensor w = graph->Variable("l1/w", DType::kF32, {3, 6}, {},
                                   {.stored = "data:S0", .state = "data:S1"}, 1);
  {
    const InScope l1(root / "l1");
    y = toy::MatMul(y, w, /*transpose_b=*/true);
  }
  graph->Output("y", y);
  graph->Output("a \"name\"", signs[0]);
  graph->SettleStages();
  Graph::Context context;
  context.phase = Phase::kBackward;
  context.forward = graph->tensor(y.id()).producer;
  context.scope = "l1/backward";
  graph->set_context(context);
  const Tensor one = graph->Add(toy::ConstantOp(), FillAttributes{1.0 / 3, {3, 6}}, {})[0];
  graph->SetRole(one.id(), Role::kGradient, w.id());
  context = {};
  context.phase = Phase::kUpdate;
  context.scope = "l1/w";
  graph->set_context(context);
  const Tensor m = graph->Variable("l1/w.m", DType::kF32, {3, 6}, {"ones"}, "");
  graph->SetRole(m.id(), Role::kState, w.id());
  toy::Descend(w, toy::Add(one, m), 0.01);
  const Tensor mean = graph->Variable("l1/mean", DType::kF32, {3}, {}, "", 1);
  graph->SetRole(mean.id(), Role::kStatistic, -1);
  const Tensor kept = graph->Variable("l1/kept", DType::kF32, {3}, {}, "", 1);
  graph->SetRole(kept.id(), Role::kCache, -1);
  graph->set_context({});
}

constexpr char kText[] = R"(%0 = input() name="x" stage=0 -> f32[4,8] annotation="data:S0"
%1 = variable() {init=normal stddev=0.1} name="l0/w" stage=0 -> f32[8,6] annotation="model:S1"
%2 = matmul(%0, %1) name="l0" stage=0 -> f32[4,6]
%3, %4 = signs(%2) name="l0/signs" stage=0 -> f32[4,6], f32[4,6]
%5 = noise(%4) {rate=0.1 key=KEY} name="l0/noise" stage=0 -> f32[4,6] annotation="model:S1"
%6 = variable() name="l1/w" stage=1 -> f32[3,6] storage="data:S0" state="data:S1"
%7 = matmul(%5, %6) {transpose_b=true} name="l1" stage=1 -> f32[4,3]
%8 = constant() {value=0.3333333333333333 shape=[3,6]} name="l1/backward" stage=1 phase=backward forward="l1" -> f32[3,6] gradient_of=%6
%9 = variable() {init=ones} name="l1/w.m" stage=1 -> f32[3,6] state_of=%6
%10 = add_n(%8, %9) name="l1/w/add_n" stage=1 phase=update -> f32[3,6]
descend(%6, %10) {factor=0.01} name="l1/w/descend" stage=1 phase=update
%11 = variable() name="l1/mean" stage=1 -> f32[3] statistic
%12 = variable() name="l1/kept" stage=1 -> f32[3] cache
output "y" = %7
output "a \"name\"" = %3
)";

std::string Expected(const Graph& graph) {
  std::string text = kText;
  const Attributes& attributes = graph.node(4).attributes;
  text.replace(text.find("KEY"), 3, std::to_string(std::get<DropoutAttributes>(attributes).key));
  return text;
}

void ExpectEqual(const Graph& a, const Graph& b) {
  ASSERT_EQ(a.nodes().size(), b.nodes().size());
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    const Node &m = a.nodes()[i], &n = b.nodes()[i];
    EXPECT_EQ(m.id, n.id);
    EXPECT_EQ(m.op, n.op);
    EXPECT_EQ(m.name, n.name);
    EXPECT_EQ(m.inputs, n.inputs);
    EXPECT_EQ(m.outputs, n.outputs);
    EXPECT_EQ(m.stage, n.stage);
    EXPECT_EQ(m.phase, n.phase);
    EXPECT_EQ(m.forward, n.forward);
    EXPECT_EQ(m.attributes.index(), n.attributes.index());
    EXPECT_EQ(PrintAttributes(m.attributes), PrintAttributes(n.attributes));
  }
  ASSERT_EQ(a.num_tensors(), b.num_tensors());
  for (TensorId id = 0; id < a.num_tensors(); ++id) {
    const TensorInfo &m = a.tensor(id), &n = b.tensor(id);
    EXPECT_TRUE(m.type == n.type);
    EXPECT_EQ(m.producer, n.producer);
    EXPECT_EQ(m.output, n.output);
    EXPECT_EQ(m.annotation.entries, n.annotation.entries);
    EXPECT_EQ(m.storage.entries, n.storage.entries);
    EXPECT_EQ(m.state.entries, n.state.entries);
    EXPECT_EQ(m.role, n.role);
    EXPECT_EQ(m.of, n.of);
  }
  EXPECT_EQ(a.variables(), b.variables());
  EXPECT_EQ(a.inputs(), b.inputs());
  EXPECT_EQ(a.outputs(), b.outputs());
}

TEST(GraphText, GoesThereAndBack) {
  Graph graph;
  Build(&graph);
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  const std::string text = PrintGraph(graph);
  EXPECT_EQ(text, Expected(graph));
  const auto parsed = ParseGraph(text, toy::AllOps());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ExpectEqual(graph, **parsed);
  EXPECT_EQ(PrintGraph(**parsed), text);
  // A parsed graph can be built on: names stay unique, variables are found.
  EXPECT_EQ((*parsed)->FindVariable("l1/w").id(), 6);
  const Tensor more =
      toy::Add((*parsed)->FindVariable("l1/w.m"), (*parsed)->FindVariable("l1/w.m"));
  EXPECT_EQ((*parsed)->node((*parsed)->tensor(more.id()).producer).name, "add_n");
}

TEST(GraphText, AnUnfinishedGraphHasNoStages) {
  Graph graph;
  toy::Add(graph.Input("x", DType::kI32, {}, ""), graph.FindVariable("none"));
  EXPECT_FALSE(graph.status().ok());
  EXPECT_EQ(PrintGraph(graph), "%0 = input() name=\"x\" -> i32[]\n");
  EXPECT_TRUE(ParseGraph(PrintGraph(graph), {}).ok());
}

TEST(GraphText, CommentsAndBlanksAreSkipped) {
  const auto parsed =
      ParseGraph("# a graph\n\n  %0 = input( ) name=\"x\"\n    -> f32[ 2 , 3 ]\n", {});
  EXPECT_TRUE(parsed.ok()) << parsed.status();  // a node may go on in the next line
  const auto one = ParseGraph("# a graph\n\n  %0 = input( ) name=\"x\" -> f32[ 2 , 3 ]  # x\n", {});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ((*one)->tensor(0).type.shape, (Shape{2, 3}));
}

TEST(GraphText, ErrorsSayWhereAndWhatWasExpected) {
  Graph graph;
  Build(&graph);
  ASSERT_TRUE(graph.Finish().ok());
  const std::string text = PrintGraph(graph);
  // The text with the first `from` changed to `to`.
  const auto error_of = [&text](absl::string_view from, absl::string_view to) {
    std::string changed = text;
    const size_t at = changed.find(std::string(from));
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), std::string(to));
    const auto parsed = ParseGraph(changed, toy::AllOps());
    EXPECT_FALSE(parsed.ok()) << from << " -> " << to;
    return std::string(parsed.status().message());
  };
  EXPECT_THAT(error_of("matmul(", "matmull("),
              HasSubstr("graph:3:6: there is no op \"matmull\"; did you mean \"matmul\"?"));
  EXPECT_THAT(error_of("%2 =", "%9 ="),
              HasSubstr("3:2: tensors are numbered in order: expected %2"));
  EXPECT_THAT(error_of("(%0, %1)", "(%0, %5)"), HasSubstr("made before, below %2, got %5"));
  EXPECT_THAT(error_of("(%0, %1)", "(%0 %1)"), HasSubstr("3:16: expected \",\", got \"%\""));
  EXPECT_THAT(error_of("(%0, %1)", "(%0)"), HasSubstr("node l0: expected 2 inputs, got 1"));
  EXPECT_THAT(error_of("name=\"l0/w\"", "nam=\"l0/w\""), HasSubstr("2:42: expected \"name\""));
  EXPECT_THAT(error_of("stddev", "stdev"),
              HasSubstr("2:17: attributes:1:13: there is no attribute"));
  EXPECT_THAT(error_of("0.01}", "0.01"), HasSubstr("11:18: expected \"}\""));
  EXPECT_THAT(error_of("f32[4,8]", "f33[4,8]"), HasSubstr("1:34: element type"));
  EXPECT_THAT(error_of("f32[4,8]", "f32[4,-8]"), HasSubstr("an extent"));
  EXPECT_THAT(error_of("annotation=\"data:S0\"", "annotation=\"data:S5\""), HasSubstr("below 2"));
  EXPECT_THAT(error_of("f32[4,6]", "f32[4,7]"), HasSubstr("expected types f32[4,6] by inference"));
  EXPECT_THAT(error_of("phase=backward", "phase=back"), HasSubstr("expected \"forward\""));
  EXPECT_THAT(error_of("forward=\"l1\"", "forward=\"l2\""), HasSubstr("no node \"l2\" above"));
  EXPECT_THAT(error_of("name=\"l1\"", "name=\"l0\""), HasSubstr("a second node called"));
  EXPECT_THAT(error_of("output \"a", "outputs \"a"), HasSubstr("got \"outputs\""));
  EXPECT_THAT(error_of("\"a \\\"name\\\"\"", "\"y\""),
              HasSubstr("15:8: output \"y\": expected a name"));
  EXPECT_THAT(error_of("gradient_of=%6", "gradient_of=%7"),
              HasSubstr("%8, a gradient: expected it to be of a parameter, got %7"));
  EXPECT_THAT(error_of("state_of=%6", "state_off=%6"),
              HasSubstr("9:63: expected the end of the line"));
  EXPECT_THAT(error_of("stage=1 -> f32[4,3]", "stage=-1 -> f32[4,3]"), HasSubstr("stage"));
  EXPECT_THAT(error_of("stage=0 -> f32[4,6]\n", "stage=0 -> f32[4,6] f32[2]\n"),
              HasSubstr("3:51: expected the end of the line"));
}

}  // namespace
}  // namespace sluice
