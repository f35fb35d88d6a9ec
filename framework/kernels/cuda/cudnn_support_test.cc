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

CudnnGraph::TensorId Image(CudnnGraph& graph, int64_t channels) {
  return graph.Tensor({2, channels, 8, 8}, {64 * channels, 1, 8 * channels, channels},
                      CUDNN_DATA_BFLOAT16);
}

TEST(CudnnGraphTest, NonsenseIsOurErrorInWordsOfCudnn) {
  const auto backend = CudnnBackend::Load();
  ASSERT_TRUE(backend.ok()) << backend.status();
  CudnnGraph graph(**backend);
  // Weights of five input channels for images of four.
  graph.Convolution(ConvolutionPass::kForward, 1, 0, Image(graph, 4),
                    graph.Tensor({8, 5, 1, 1}, {5, 1, 5, 5}, CUDNN_DATA_BFLOAT16), Image(graph, 8));
  const auto engines = graph.Engines(CudnnCards()[0].description, {});
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
  graph.Convolution(ConvolutionPass::kForward, 1, 0, Image(graph, 8),
                    graph.Tensor({8, 8, 1, 1}, {8, 1, 8, 8}, CUDNN_DATA_BFLOAT16), Image(graph, 8));
  const std::string card = CudnnCards()[0].description;
  const auto all = graph.Engines(card, {});
  ASSERT_TRUE(all.ok()) << all.status();
  const auto some = graph.Engines(card, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE});
  if (some.ok()) {
    EXPECT_LT(some->size(), all->size());
  } else {
    EXPECT_EQ(some.status().code(), absl::StatusCode::kUnimplemented) << some.status();
  }
  EXPECT_THAT(std::string(graph.Engines("{}", {}).status().message()),
              testing::StartsWith("the device's description: "));
}

}  // namespace
}  // namespace sluice::cuda
