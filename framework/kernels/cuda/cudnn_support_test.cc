// cuDNN supports what testdata/cudnn_support.txt says, in the version that it is of. After a change
// of the cases or of the version that we use:
//   ./bazelw run --config=cuda //framework/kernels/cuda:cudnn_support
// prints the file anew.
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "framework/kernels/cuda/cudnn_cases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::cuda {
namespace {

std::vector<std::string> Golden() {
  std::ifstream file("framework/kernels/cuda/testdata/cudnn_support.txt");
  std::stringstream text;
  text << file.rdbuf();
  return absl::StrSplit(text.str(), '\n');
}

TEST(CudnnSupportTest, IsAsTheTableSays) {
  const auto table = CudnnSupport();
  ASSERT_TRUE(table.ok()) << table.status();
  const std::vector<std::string> found = absl::StrSplit(*table, '\n'), golden = Golden();
  ASSERT_TRUE(absl::StartsWith(golden[0], "version ")) << golden[0];
  if (found[0] != golden[0]) {
    std::cout << "SKIPPED: the table is of " << golden[0] << ", here is " << found[0] << "\n";
    GTEST_SKIP();
  }
  ASSERT_EQ(found.size(), golden.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], golden[i]);
}

constexpr CudnnWindow kOne = {{1, 1}, {0, 0}, {1, 1}};

CudnnGraph::TensorId Image(CudnnGraph& graph, int64_t channels) {
  return graph.Tensor({2, channels, 8, 8}, {64 * channels, 1, 8 * channels, channels},
                      CUDNN_DATA_BFLOAT16);
}

TEST(CudnnGraphTest, NonsenseIsOurErrorInWordsOfCudnn) {
  const auto backend = CudnnBackend::Load();
  ASSERT_TRUE(backend.ok()) << backend.status();
  CudnnGraph graph(**backend);
  // Weights of five input channels for images of four.
  graph.Convolution(ConvolutionPass::kForward, kOne, Image(graph, 4),
                    graph.Tensor({8, 5, 1, 1}, {5, 1, 5, 5}, CUDNN_DATA_BFLOAT16), Image(graph, 8));
  const auto engines = graph.Engines({nullptr, CudnnCards()[0].description}, {});
  EXPECT_EQ(engines.status().code(), absl::StatusCode::kInvalidArgument);
  // The first error, of the operation, not what comes of using it all the same.
  EXPECT_THAT(std::string(engines.status().message()),
              testing::StartsWith("cuDNN: finishing: error 2"));
  EXPECT_THAT(std::string(engines.status().message()), testing::HasSubstr("xDimA[1] % wDimA[1]"));
}

TEST(CudnnGraphTest, EnginesWithANoteAreLeftOut) {
  const auto backend = CudnnBackend::Load();
  ASSERT_TRUE(backend.ok()) << backend.status();
  CudnnGraph graph(**backend);
  graph.Convolution(ConvolutionPass::kForward, kOne, Image(graph, 8),
                    graph.Tensor({8, 8, 1, 1}, {8, 1, 8, 8}, CUDNN_DATA_BFLOAT16), Image(graph, 8));
  const CudnnTarget card = {nullptr, CudnnCards()[0].description};
  const auto all = graph.Engines(card, {});
  ASSERT_TRUE(all.ok()) << all.status();
  const auto some = graph.Engines(card, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE});
  if (some.ok()) {
    EXPECT_LT(some->size(), all->size());
  } else {
    EXPECT_EQ(some.status().code(), absl::StatusCode::kUnimplemented) << some.status();
  }
  EXPECT_THAT(std::string(graph.Engines({nullptr, "{}"}, {}).status().message()),
              testing::StartsWith("the device's description: "));
}

// A plan is built without a GPU, too, if its engine is compiled already. The first engine whose
// workspace fits is taken, as no time is measured.
TEST(CudnnGraphTest, APlanHasTheFirstEngineThatFits) {
  const auto backend = CudnnBackend::Load();
  ASSERT_TRUE(backend.ok()) << backend.status();
  const CudnnTarget card = {nullptr, CudnnCards()[0].description};
  const auto notes = CudnnNotesWithout(CUDNN_DATA_BFLOAT16);
  // Three channels, which most engines pad in their workspace.
  const auto build = [](CudnnGraph* graph) {
    const auto tensor = [&](int64_t n, int64_t channels, int64_t side) {
      return graph->Tensor({n, channels, side, side},
                           {side * side * channels, 1, side * channels, channels},
                           CUDNN_DATA_BFLOAT16);
    };
    graph->Convolution(ConvolutionPass::kForward, {{2, 2}, {3, 3}, {1, 1}}, tensor(32, 3, 224),
                       tensor(64, 3, 7), tensor(32, 64, 112));
  };
  CudnnGraph asked(**backend), large(**backend), small(**backend), none(**backend);
  for (CudnnGraph* graph : {&asked, &large, &small, &none}) build(graph);
  const auto engines = asked.Engines(card, notes);
  ASSERT_TRUE(engines.ok()) << engines.status();
  const auto fast = large.Plan(card, notes, int64_t{1} << 30);
  ASSERT_TRUE(fast.ok()) << fast.status();
  EXPECT_EQ((*fast)->engine().workspace, engines->front().workspace);
  EXPECT_GT((*fast)->engine().workspace, 1 << 20);
  const auto frugal = small.Plan(card, notes, 1 << 20);
  ASSERT_TRUE(frugal.ok()) << frugal.status();
  EXPECT_LE((*frugal)->engine().workspace, 1 << 20);
  EXPECT_EQ(none.Plan(card, notes, -1).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace sluice::cuda
