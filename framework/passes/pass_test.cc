#include "framework/passes/pass.h"

#include "framework/graph/rewriter.h"
#include "framework/graph/text.h"
#include "framework/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

void Build(Graph* graph) {
  graph->Output("y", Gelu(graph->Input("x", DType::kF32, {4}, "")));
  ASSERT_TRUE(graph->Finish().ok());
}

GraphPass Twice() {
  return {"twice", [](const Graph& from) {
            return RewriteGraph(from, [](const Node& node, GraphRewriter* rewriter) {
              rewriter->Copy(node);
              if (node.inputs.empty()) return;
              const Tensor y = rewriter->Map(node.outputs[0]);
              rewriter->Enter(node, "twice");
              rewriter->Replace(node.outputs[0], y + y);
            });
          }};
}

TEST(RunPasses, RunsOneAfterTheOtherAndLeavesTheOldGraph) {
  Graph graph;
  Build(&graph);
  const std::string before = PrintGraph(graph);
  const auto none = RunPasses(graph, {});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(PrintGraph(**none), before);
  const auto made = RunPasses(graph, {Twice(), Twice()});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->nodes().size(), 5u);  // gelu is doubled twice, its double once
  EXPECT_EQ(PrintGraph(graph), before);
}

TEST(RunPasses, ErrorsNameThePass) {
  Graph graph;
  Build(&graph);
  const GraphPass refuses = {"refuses", [](const Graph&) -> absl::StatusOr<std::unique_ptr<Graph>> {
                               return absl::InvalidArgumentError("why not");
                             }};
  EXPECT_EQ(RunPasses(graph, {Twice(), refuses}).status().message(), "pass refuses: why not");
  const GraphPass breaks = {"breaks", [](const Graph& from) {
                              auto made = RunPasses(from, {});
                              (*made)->mutable_node(1).name = "x";
                              return made;
                            }};
  EXPECT_THAT(std::string(RunPasses(graph, {breaks}).status().message()),
              HasSubstr("pass breaks: node x: has the name of an earlier node"));
}

}  // namespace
}  // namespace sluice
