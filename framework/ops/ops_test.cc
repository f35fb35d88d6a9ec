// What errors say, and values that the conformance tests cannot know: those that PyTorch gives.
#include "framework/ops/ops.h"

#include <cmath>
#include <limits>
#include <string>

#include "framework/graph/interpreter.h"
#include "framework/ops/op_defs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Array Of(const Shape& shape, std::vector<double> values) {
  Array array(shape);
  array.values = std::move(values);
  return array;
}

std::vector<double> Values(const Graph& graph, const ArrayMap& feeds, ArrayMap* variables,
                           const std::string& output) {
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  const auto outputs = Interpret(graph, feeds, variables, {});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() && !output.empty() ? outputs->at(output).values : std::vector<double>();
}

// The error of building one op on inputs of these shapes.
template <typename F>
std::string ErrorOf(std::vector<Shape> shapes, F&& build) {
  Graph graph;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(graph.Input("x" + std::to_string(i), DType::kF32, shapes[i], ""));
  }
  const Tensor y = build(inputs);
  EXPECT_FALSE(y);
  EXPECT_FALSE(graph.status().ok());
  return std::string(graph.status().message());
}
using In = std::vector<Tensor>;

TEST(OpsTest, ErrorsSayWhatWasExpectedAndGot) {
  EXPECT_THAT(ErrorOf({{2, 3}, {4, 5}}, [](const In& x) { return MatMul(x[0], x[1]); }),
              HasSubstr("matmul: expected ...mk and ...kn, got f32[2,3] and f32[4,5]"));
  EXPECT_THAT(ErrorOf({{2, 3}, {4}}, [](const In& x) { return x[0] + x[1]; }),
              HasSubstr("add: expected extents that are equal or 1, from the right, got f32[2,3]"));
  EXPECT_THAT(ErrorOf({{2, 3}}, [](const In& x) { return Reshape(x[0], {5}); }),
              HasSubstr("reshape: expected 6 elements as in f32[2,3], got [5]"));
  EXPECT_THAT(ErrorOf({{2, 3}},
                      [](const In& x) {
                        return Transpose(x[0], {0, 0});
                      }),
              HasSubstr("transpose: expected a permutation of the dimensions of f32[2,3]"));
  EXPECT_THAT(ErrorOf({{2, 3}}, [](const In& x) { return SliceDim(x[0], 1, 2, 5); }),
              HasSubstr("slice: expected a range within dimension 1 of f32[2,3], got [2,5)"));
  EXPECT_THAT(ErrorOf({{2, 3}}, [](const In& x) { return SliceDim(x[0], 7, 0, 1); }),
              HasSubstr("slice: expected a dimension of [2,3], got 7"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2, 4}}, [](const In& x) { return Concat(x, 0); }),
              HasSubstr("concat: expected f32[2,3] for every part"));
  EXPECT_THAT(ErrorOf({{2, 3}}, [](const In& x) { return Dropout(x[0], 1.5); }),
              HasSubstr("dropout: expected a rate in [0, 1), got 1.5"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2}, {3}}, [](const In& x) { return LayerNorm(x[0], x[1], x[2]); }),
              HasSubstr("layer_norm: expected [3] for gamma and beta, got f32[2]"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2}}, [](const In& x) { return Embedding(x[0], x[1]); }),
              HasSubstr("embedding: expected i32 for ids, got f32[2]"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2}}, [](const In& x) { return SoftmaxCrossEntropy(x[0], x[1]); }),
              HasSubstr("ce_pick: expected i32[2] for labels, got f32[2]"));
  EXPECT_THAT(ErrorOf({{2, 3}}, [](const In& x) { return CausalAttention(x[0], x[0], x[0]); }),
              HasSubstr("attention: expected q of [batch,time,heads,size], got f32[2,3]"));
  EXPECT_THAT(
      ErrorOf({{2, 3, 2, 4}}, [](const In& x) { return CausalAttention(x[0], x[0], x[0], 1); }),
      HasSubstr("attention: expected a rate of dropout in [0, 1), got 1"));
}

TEST(OpsTest, ErrorsOfImagesSayWhatWasExpectedAndGot) {
  const auto convolved = [](const ConvolutionAttributes& a) {
    return ErrorOf({{2, 5, 5, 4}, {3, 3, 4, 6}},
                   [&](const In& x) { return Conv2d(x[0], x[1], a); });
  };
  EXPECT_THAT(convolved({.groups = 2}),
              HasSubstr("conv2d: expected weights of [height,width,input channels / groups,output "
                        "channels], got x [2,5,5,4], w [3,3,4,6], y [2,3,3,6] in 2 groups"));
  EXPECT_THAT(
      convolved({.stride = {0, 1}}),
      HasSubstr("conv2d: expected a stride of [height,width] from 1 to 1048576, got [0,1]"));
  EXPECT_THAT(convolved({.padding = {1, 1, 1}}),
              HasSubstr("conv2d: expected a padding of [height,width] or [top,bottom,left,right] "
                        "from 0 to 1048576, got [1,1,1]"));
  EXPECT_THAT(convolved({.dilation = {3, 1}}),
              HasSubstr("conv2d: expected a kernel of at most the padded image, got w [3,3,4,6] on "
                        "x [2,5,5,4]"));
  EXPECT_THAT(ErrorOf({{2, 5, 5}, {3, 3, 4, 6}}, [](const In& x) { return Conv2d(x[0], x[1]); }),
              HasSubstr("conv2d: expected x and w of four dimensions, got f32[2,5,5] and "));
  EXPECT_THAT(
      ErrorOf({{2, 5, 5, 4}},
              [](const In& x) {
                return MaxPool(x[0], {.window = {2, 2}, .padding = {2, 0}});
              }),
      HasSubstr("max_pool: expected a padding of less than the window of [2,2], got [2,0]"));
  EXPECT_THAT(ErrorOf({{2, 5, 5, 4}},
                      [](const In& x) {
                        return AveragePool(x[0], {.window = {6, 1}});
                      }),
              HasSubstr("average_pool: expected a window of at most the padded image, got [6,1] on "
                        "f32[2,5,5,4]"));
}

TEST(OpsTest, ErrorsAreSticky) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {2, 3}, "");
  const Tensor y = Gelu(MatMul(x, x)) + Mean(ReduceSum(Softmax(MatMul(x, x)), {0}));
  EXPECT_FALSE(SliceDim(CausalAttention(y, y, y), 0, 0, 1));
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("matmul"));
}

TEST(OpsTest, IndicesOutOfRangeAreRefused) {
  Graph graph;
  const Tensor logits = graph.Input("logits", DType::kF32, {2, 3}, "");
  const Tensor labels = graph.Input("labels", DType::kI32, {2}, "");
  graph.Output("loss", SoftmaxCrossEntropy(logits, labels));
  for (double label : {-1.0, 3.0}) {
    const ArrayMap feeds = {{"logits", Array({2, 3})}, {"labels", Of({2}, {0, label})}};
    ArrayMap none;
    const auto outputs = Interpret(graph, feeds, &none, {});
    EXPECT_EQ(outputs.status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(outputs.status().message()),
                HasSubstr("ce_pick: expected labels in [0, 3), got " +
                          std::to_string(static_cast<int>(label))));
  }
}

TEST(OpsTest, CrossEntropyGeluAndSilu) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {1, 3}, "");
  graph.Output("loss", SoftmaxCrossEntropy(x, graph.Input("y", DType::kI32, {1}, "")));
  graph.Output("gelu", Gelu(x));
  graph.Output("silu", Silu(x));
  const ArrayMap feeds = {{"x", Of({1, 3}, {1, 2, -1000})}, {"y", Of({1}, {0})}};
  ArrayMap none;
  EXPECT_THAT(Values(graph, feeds, &none, "loss"), ElementsAre(DoubleNear(1.3132616875, 1e-9)));
  // torch.nn.functional.gelu(x, approximate="tanh")
  EXPECT_THAT(Values(graph, feeds, &none, "gelu"),
              ElementsAre(DoubleNear(0.8411919906, 1e-9), DoubleNear(1.9545976940, 1e-9), 0));
  // torch.nn.functional.silu(x)
  EXPECT_THAT(Values(graph, feeds, &none, "silu"),
              ElementsAre(DoubleNear(0.7310585786, 1e-9), DoubleNear(1.7615941560, 1e-9), 0));
}

TEST(OpsTest, ASmoothedTargetIsPartOfEveryClass) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {2, 3}, "");
  graph.Output("loss", SoftmaxCrossEntropy(x, graph.Input("y", DType::kI32, {2}, ""), 0.3));
  const ArrayMap feeds = {{"x", Of({2, 3}, {1, 2, 4, 0, 0, 0})}, {"y", Of({2}, {1, 0})}};
  ArrayMap none;
  // (1 - 0.3) of the label and 0.1 of each class, of log(e + e^2 + e^4) less each logit.
  const double sum = std::log(std::exp(1) + std::exp(2) + std::exp(4));
  const double smooth = 0.7 * (sum - 2) + 0.1 * (3 * sum - 7);
  EXPECT_THAT(Values(graph, feeds, &none, "loss"),
              ElementsAre(DoubleNear(smooth, 1e-6), DoubleNear(std::log(3), 1e-6)));
  EXPECT_THAT(ErrorOf({{2, 3}},
                      [](const In& x) {
                        const Tensor y = x[0].graph()->Input("y", DType::kI32, {2}, "");
                        return SoftmaxCrossEntropy(x[0], y, 1.5);
                      }),
              HasSubstr("cross_entropy: expected 0 <= smoothing <= 1, got 1.5"));
}

TEST(OpsTest, PreluAndL2Normalize) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {2, 2}, "");
  graph.Output("prelu", Prelu(x, graph.Input("slope", DType::kF32, {2}, "")));
  graph.Output("unit", L2Normalize(x, 2));
  const ArrayMap feeds = {{"x", Of({2, 2}, {-3, -4, 1, 0})}, {"slope", Of({2}, {0.25, -2})}};
  ArrayMap none;
  EXPECT_THAT(Values(graph, feeds, &none, "prelu"), ElementsAre(-0.75, 8, 1, 0));
  // A row shorter than epsilon is divided by that.
  EXPECT_THAT(Values(graph, feeds, &none, "unit"),
              ElementsAre(DoubleNear(-0.6, 1e-6), DoubleNear(-0.8, 1e-6), 0.5, 0));
}

// torchvision's ToTensor and Normalize.
TEST(OpsTest, NormalizeImages) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kU8, {2, 2}, "");
  graph.Output("y", NormalizeImages(x, {0.485, 0.406}, {0.229, 0.225}));
  ArrayMap none;
  EXPECT_THAT(Values(graph, {{"x", Of({2, 2}, {0, 255, 124, 103})}}, &none, "y"),
              ElementsAre(DoubleNear(-2.1179, 1e-4), DoubleNear(2.64, 1e-4),
                          DoubleNear(0.005566, 1e-5), DoubleNear(-0.009237, 1e-5)));
  EXPECT_THAT(ErrorOf({{2, 3}}, [](const In& x) { return NormalizeImages(x[0], {0}, {1}); }),
              HasSubstr("normalize_images: expected x of u8 [.., channels], got f32[2,3]"));
  const auto error = [](std::vector<double> mean, std::vector<double> stddev) {
    Graph graph;
    EXPECT_FALSE(NormalizeImages(graph.Input("x", DType::kU8, {4, 2}, ""), mean, stddev));
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error({0}, {1, 1}), HasSubstr("expected a mean for each of 2 channels, got 1"));
  EXPECT_THAT(error({0, 0}, {1, 1, 1}),
              HasSubstr("expected a standard deviation for each of 2 channels, got 3"));
  EXPECT_THAT(error({0, 0}, {1, 0}),
              HasSubstr("expected a finite mean and a standard deviation above 0, got 0 and 0 of "
                        "channel 1"));
}

// Of the equal ones the first is the larger; a row of NaN is no hit.
TEST(OpsTest, TopKHits) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {4, 3}, "");
  const Tensor labels = graph.Input("y", DType::kI32, {4}, "");
  for (const int64_t k : {1, 2, 3}) {
    graph.Output("top" + std::to_string(k), TopKHits(x, labels, k));
  }
  const double nan = std::nan("");
  const ArrayMap feeds = {{"x", Of({4, 3}, {1, 3, 2, 5, 5, 5, 5, 5, 5, nan, nan, nan})},
                          {"y", Of({4}, {2, 0, 1, 1})}};
  ArrayMap none;
  EXPECT_THAT(Values(graph, feeds, &none, "top1"), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(Values(graph, feeds, &none, "top2"), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(Values(graph, feeds, &none, "top3"), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(ErrorOf({{2, 3}}, [](const In& x) { return TopKHits(x[0], x[0], 0); }),
              HasSubstr("top_k: expected k from 1 on, got 0"));
}

// torch.nn.functional.conv2d, max_pool2d, avg_pool2d and their gradients of one channel.
TEST(OpsTest, ConvolutionsAndPools) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {1, 3, 3, 1}, "");
  const Tensor w = graph.Input("w", DType::kF32, {2, 2, 1, 1}, "");
  graph.Output("plain", Conv2d(x, w));
  graph.Output("strided", Conv2d(x, w, {.stride = {2, 2}, .padding = {1, 1}}));
  graph.Output("dilated", Conv2d(x, w, {.dilation = {2, 2}}));
  graph.Output("sides", Conv2d(x, w, {.stride = {2, 2}, .padding = {0, 1, 0, 1}}));
  const PoolAttributes overlapping = {.window = {2, 2}, .stride = {2, 2}, .padding = {1, 1}};
  PoolAttributes on_image = overlapping;
  on_image.count_padding = false;
  graph.Output("max", MaxPool(x, overlapping));
  graph.Output("whole_windows", MaxPool(x, {.window = {2, 2}}));
  graph.Output("mean", AveragePool(x, overlapping));
  graph.Output("mean_on_image", AveragePool(x, on_image));
  const ArrayMap feeds = {{"x", Of({1, 3, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9})},
                          {"w", Of({2, 2, 1, 1}, {1, 2, 3, 4})}};
  const auto values = [&](const char* name) {
    ArrayMap none;
    return Values(graph, feeds, &none, name);
  };
  EXPECT_THAT(values("plain"), ElementsAre(37, 47, 67, 77));  // correlated, not convolved
  EXPECT_THAT(values("strided"), ElementsAre(4, 18, 36, 77));
  EXPECT_THAT(values("dilated"), ElementsAre(64));
  EXPECT_THAT(values("sides"), ElementsAre(37, 21, 23, 9));
  EXPECT_THAT(values("max"), ElementsAre(1, 3, 7, 9));
  EXPECT_THAT(values("whole_windows"), ElementsAre(5));
  EXPECT_THAT(values("mean"), ElementsAre(0.25, 1.25, 2.75, 7));
  EXPECT_THAT(values("mean_on_image"), ElementsAre(1, 2.5, 5.5, 7));
}

// Groups: output channel o sees the input channels of its own group alone.
TEST(OpsTest, ConvolutionsInGroups) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {1, 1, 1, 4}, "");
  const Tensor w = graph.Input("w", DType::kF32, {1, 1, 2, 4}, "");
  graph.Output("y", Conv2d(x, w, {.groups = 2}));
  ArrayMap none;
  EXPECT_THAT(Values(graph,
                     {{"x", Of({1, 1, 1, 4}, {1, 2, 3, 4})},
                      {"w", Of({1, 1, 2, 4}, {1, 10, 100, 1000, 2, 20, 200, 2000})}},
                     &none, "y"),
              ElementsAre(5, 50, 1100, 11000));
}

TEST(OpsTest, TheFirstMaximumOrNanHasTheGradient) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {1, 1, 4, 1}, "");
  const Tensor dy = graph.Input("dy", DType::kF32, {1, 1, 2, 1}, "");
  graph.Output("dx", graph.Add(MaxPoolGradientOp(), PoolAttributes{.window = {1, 2}}, {x, dy})[0]);
  const double nan = std::nan("");
  ArrayMap none;
  const auto gradient = [&](std::vector<double> values) {
    return Values(graph,
                  {{"x", Of({1, 1, 4, 1}, std::move(values))}, {"dy", Of({1, 1, 2, 1}, {5, 7})}},
                  &none, "dx");
  };
  EXPECT_THAT(gradient({2, 2, 1, 3}), ElementsAre(5, 0, 0, 7));
  EXPECT_THAT(gradient({nan, 9, 4, nan}), ElementsAre(5, 0, 0, 7));
  EXPECT_THAT(gradient({nan, nan, 4, 3}), ElementsAre(5, 0, 7, 0));
}

// Of queries of zero all weights of a row are alike, and of values that are the identity a row of y
// is the row of weights.
TEST(OpsTest, AttentionDropsWhatDropoutDropsOfItsWeights) {
  constexpr int64_t kBatch = 2, kTime = 5, kHeads = 3;
  constexpr double kRate = 0.3;
  Graph graph;
  const Shape shape = {kBatch, kTime, kHeads, kTime};
  const Tensor q = graph.Input("q", DType::kF32, shape, "");
  const Tensor v = graph.Input("v", DType::kF32, shape, "");
  const Tensor ones = graph.Input("ones", DType::kF32, {kBatch, kHeads, kTime, kTime}, "");
  const Tensor lengths = graph.Input("lengths", DType::kI32, {kBatch}, "");
  const Tensor y = CausalAttention(q, q, v, kRate),
               padded = PaddedAttention(q, q, v, lengths, kRate);
  const auto mask = [&](Tensor of) {
    const Attributes& attributes = graph.node(graph.tensor(of.id()).producer).attributes;
    const int64_t key = std::get<AttentionAttributes>(attributes).key;
    return graph.Add(DropoutOp(), DropoutAttributes{kRate, key}, {ones})[0];
  };
  graph.Output("y", y);
  graph.Output("padded", padded);
  graph.Output("mask", mask(y));
  graph.Output("padded_mask", mask(padded));
  Array identity(shape, 0);
  const auto at = [&](int64_t b, int64_t t, int64_t h, int64_t d) {
    return static_cast<size_t>(((b * kTime + t) * kHeads + h) * kTime + d);
  };
  for (int64_t i = 0; i < kBatch * kTime * kHeads; ++i) {
    identity.values[static_cast<size_t>(i * kTime + i / kHeads % kTime)] = 1;
  }
  ArrayMap variables;
  const auto made = Interpret(graph,
                              {{"q", Array(shape, 0)},
                               {"v", identity},
                               {"ones", Array({kBatch, kHeads, kTime, kTime}, 1)},
                               {"lengths", Of({kBatch}, {5, 4})}},
                              &variables, {});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_NE(made->at("mask").values, made->at("padded_mask").values);
  size_t next = 0;
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t t = 0; t < kTime; ++t) {
        for (int64_t s = 0; s < kTime; ++s, ++next) {
          const double length = b == 0 ? 5 : 4;
          EXPECT_NEAR(made->at("y").values[at(b, t, h, s)],
                      s <= t ? made->at("mask").values[next] / static_cast<double>(t + 1) : 0,
                      1e-6);
          EXPECT_NEAR(made->at("padded").values[at(b, t, h, s)],
                      t < length && s < length ? made->at("padded_mask").values[next] / length : 0,
                      1e-6);
        }
      }
    }
  }
}

TEST(OpsTest, DropoutKeepsTheMeanAndDrawsByName) {
  Graph graph;
  const Tensor x = Fill(&graph, 1, {100, 100});
  graph.Output("a", Dropout(x, 0.25));
  graph.Output("b", Dropout(x, 0.25));
  EXPECT_EQ(Dropout(x, 0).id(), x.id());
  ArrayMap none;
  const std::vector<double> a = Values(graph, {}, &none, "a"), b = Values(graph, {}, &none, "b");
  double sum = 0, dropped_in_both = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i] == 0 || a[i] == 1 / 0.75);
    sum += a[i];
    dropped_in_both += a[i] == 0 && b[i] == 0;
  }
  EXPECT_NEAR(sum / 1e4, 1, 0.02);
  EXPECT_NEAR(dropped_in_both / 1e4, 0.0625, 0.01);
}

TEST(OpsTest, ClipFactor) {
  Graph graph;
  graph.Output("y", ClipFactor(graph.Input("x", DType::kF32, {}, ""), 5));
  ArrayMap none;
  const auto factor = [&](double sum_squares) {
    return Values(graph, {{"x", Of({}, {sum_squares})}}, &none, "y")[0];
  };
  EXPECT_EQ(factor(4), 1);
  EXPECT_DOUBLE_EQ(factor(25), 5 / (5 + 1e-6));  // it multiplies always, so at the bound too
  EXPECT_DOUBLE_EQ(factor(100), 5 / (10 + 1e-6));
  EXPECT_EQ(factor(std::numeric_limits<double>::infinity()), 0);
  EXPECT_TRUE(std::isnan(factor(std::nan(""))));
}

struct Update {
  Graph graph;
  Tensor w = graph.Variable("w", DType::kF32, {3, 2}, {}, "");
  Tensor a = graph.Variable("a", DType::kF32, {3, 2}, {}, "");
  Tensor b = graph.Variable("b", DType::kF32, {3, 2}, {}, "");
  Tensor rate = graph.Input("rate", DType::kF32, {}, "");
  Tensor step = graph.Input("step", DType::kI32, {}, "");
  ArrayMap variables = {
      {"w", Of({3, 2}, {1, 2, 3, 4, 5, 6})}, {"a", Array({3, 2})}, {"b", Array({3, 2})}};
  ArrayMap feeds = {{"rate", Of({}, {0.1})}, {"step", Of({}, {1})}};

  Gradient Dense() {
    feeds["g"] = Of({3, 2}, {1, -1, 0, 0, 2, 0.5});
    return {Gradient::kDense, {graph.Input("g", DType::kF32, {3, 2}, "")}};
  }
  Gradient Rows() {
    feeds["ids"] = Of({3}, {2, 0, 2});
    feeds["values"] = Of({3, 2}, {1.5, 0.25, 1, -1, 0.5, 0.25});  // the same, row 2 in two
    const Tensor ids = graph.Input("ids", DType::kI32, {3}, "");
    const Tensor sorted = graph.Add(SortIdsOp(), NoAttributes(), {ids})[0];
    return {Gradient::kSparse, {sorted, graph.Input("values", DType::kF32, {3, 2}, "")}};
  }
  void Step() {
    Values(graph, feeds, &variables, "");
    feeds["step"].values[0] += 1;
  }
};

// Twice torch.optim.SGD(lr=0.1, momentum=0.9, weight_decay=0.1) with the gradient halved.
TEST(OpsTest, SgdWithMomentum) {
  Update u;
  SgdUpdate(u.w, u.a, u.Dense(), Fill(&u.graph, 0.5, {}), u.rate, u.step, SgdAttributes{0.9, 0.1});
  u.Step();
  EXPECT_DOUBLE_EQ(u.variables["w"].values[0], 1 - 0.1 * (0.5 + 0.1));
  u.Step();
  const double buffer = 0.9 * 0.6 + 0.5 + 0.1 * 0.94;
  EXPECT_DOUBLE_EQ(u.variables["a"].values[0], buffer);
  EXPECT_DOUBLE_EQ(u.variables["w"].values[0], 0.94 - 0.1 * buffer);
}

TEST(OpsTest, RowsTouchOnlyTheirRows) {
  Update dense, rows;
  SgdUpdate(dense.w, dense.a, dense.Dense(), Tensor(), dense.rate, dense.step,
            SgdAttributes{0.9, 0.1});
  SgdUpdate(rows.w, rows.a, rows.Rows(), Tensor(), rows.rate, rows.step, SgdAttributes{0.9, 0.1});
  dense.Step();
  rows.Step();
  for (int i : {0, 1, 4, 5}) {
    EXPECT_DOUBLE_EQ(rows.variables["w"].values[i], dense.variables["w"].values[i]);
  }
  EXPECT_EQ(rows.variables["w"].values[2], 3);  // no decay, no momentum
  EXPECT_LT(dense.variables["w"].values[2], 3);
}

// torch.optim.AdamW(lr=0.1, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1): a first step is
// lr * sign(g) after the decay, whatever the gradient's size.
TEST(OpsTest, AdamW) {
  const AdamWAttributes attributes{0.9, 0.95, 1e-8, 0.1};
  Update dense, rows;
  AdamWUpdate(dense.w, dense.a, dense.b, dense.Dense(), Tensor(), dense.rate, dense.step,
              attributes);
  AdamWUpdate(rows.w, rows.a, rows.b, rows.Rows(), Tensor(), rows.rate, rows.step, attributes);
  dense.Step();
  rows.Step();
  EXPECT_NEAR(dense.variables["w"].values[0], 0.99 - 0.1, 1e-8);
  EXPECT_NEAR(dense.variables["w"].values[1], 2 * 0.99 + 0.1, 1e-8);
  EXPECT_DOUBLE_EQ(dense.variables["w"].values[2], 3 * 0.99);
  EXPECT_DOUBLE_EQ(dense.variables["a"].values[4], 0.1 * 2);
  EXPECT_DOUBLE_EQ(dense.variables["b"].values[4], (1 - 0.95) * 4);
  for (int i : {0, 1, 4, 5}) {
    EXPECT_DOUBLE_EQ(rows.variables["w"].values[i], dense.variables["w"].values[i]);
  }
  EXPECT_EQ(rows.variables["w"].values[3], 4);
  dense.Step();  // the same gradient again: both corrected moments stay, so the step does too
  EXPECT_NEAR(dense.variables["w"].values[0], 0.89 * 0.99 - 0.1, 1e-8);
}

// The form that gives the value leaves the variable, changes the state, and gives for each row
// named what the other form makes of it.
TEST(OpsTest, AnUpdateThatGivesTheValueIsTheOneInPlace) {
  const AdamWAttributes adamw{0.9, 0.95, 1e-8, 0.1};
  const SgdAttributes sgd{0.9, 0.1};
  for (const bool sparse : {false, true}) {
    for (const bool with_sgd : {false, true}) {
      Update in_place, apart, given;
      Tensor values[2];
      for (Update* u : {&in_place, &apart, &given}) {
        const Gradient gradient = sparse ? u->Rows() : u->Dense();
        const Tensor none;
        if (u == &in_place && with_sgd) {
          SgdUpdate(u->w, u->a, gradient, none, u->rate, u->step, sgd);
        } else if (u == &in_place) {
          AdamWUpdate(u->w, u->a, u->b, gradient, none, u->rate, u->step, adamw);
        } else {
          Tensor& value = values[u == &apart ? 0 : 1];
          value = with_sgd ? SgdValue(u->w, u->a, gradient, none, u->rate, u->step, sgd)
                           : AdamWValue(u->w, u->a, u->b, gradient, none, u->rate, u->step, adamw);
          if (u == &apart) {
            Assign(u->w, gradient, value);
          } else {
            u->graph.Output("value", value);
          }
        }
      }
      in_place.Step();
      apart.Step();
      const std::vector<double> before = given.variables["w"].values;
      const std::vector<double> value = Values(given.graph, given.feeds, &given.variables, "value");
      EXPECT_EQ(given.variables["w"].values, before);
      for (const char* name : {"w", "a", "b"}) {
        EXPECT_EQ(apart.variables[name].values, in_place.variables[name].values) << name;
      }
      EXPECT_EQ(given.variables["a"].values, in_place.variables["a"].values);
      const std::vector<double>& w = in_place.variables["w"].values;
      if (sparse) {  // of ids 2, 0, 2
        EXPECT_THAT(value, ElementsAre(w[4], w[5], w[0], w[1], w[4], w[5]));
      } else {
        EXPECT_EQ(value, w);
      }
    }
  }
  Update u;
  EXPECT_FALSE(SgdValue(u.w, Tensor(), u.Dense(), Tensor(), u.rate, u.step, SgdAttributes{}));
  EXPECT_THAT(std::string(u.graph.status().message()),
              HasSubstr("sgd_value: expected 6 inputs, got 5"));
}

TEST(OpsTest, AssignRefusesAnotherShapeAndRowsOutsideOfTheTable) {
  Update u;
  Assign(u.w, u.Dense(), u.graph.Input("other", DType::kF32, {2, 3}, ""));
  EXPECT_THAT(std::string(u.graph.status().message()),
              HasSubstr("assign: expected f32[3,2] for value, got f32[2,3]"));
  Update rows;
  const Gradient gradient = rows.Rows();
  Assign(rows.w, gradient, gradient.tensors[1]);
  rows.feeds["ids"].values[1] = 3;
  EXPECT_THAT(
      std::string(Interpret(rows.graph, rows.feeds, &rows.variables, {}).status().message()),
      HasSubstr("assign_sparse: expected ids in [0, 3), got 3"));
}

TEST(OpsTest, SumSquaresOfRowsAddsRepeatedIdsFirst) {
  Update u;
  const Gradient dense = u.Dense(), rows = u.Rows();
  u.graph.Output("dense", SumSquares(u.w, dense));
  u.graph.Output("rows", SumSquares(u.w, rows));
  EXPECT_THAT(Values(u.graph, u.feeds, &u.variables, "dense"), ElementsAre(6.25));
  EXPECT_THAT(Values(u.graph, u.feeds, &u.variables, "rows"), ElementsAre(6.25));
}

TEST(OpsTest, CostOfAMatMul) {
  const std::vector<TensorType> in = {{DType::kF32, {2, 5, 3}}, {DType::kF32, {3, 4}}};
  const std::vector<TensorType> out = {{DType::kF32, {2, 5, 4}}};
  const Cost cost = MatMulOp().cost({MatMulAttributes(), in, out});
  EXPECT_EQ(cost.flops, 2 * 2 * 5 * 3 * 4);
  EXPECT_EQ(cost.bytes, 4 * (30 + 12 + 40));
  const std::vector<TensorType> dw = {{DType::kF32, {3, 4}}};
  const std::vector<TensorType> x_dy = {in[0], out[0]};
  EXPECT_EQ(MatMulWeightGradientOp().cost({MatMulAttributes(), x_dy, dw}).flops, cost.flops);
}

// A backward op must know its forward op's factors: selection binds the one to the other.
TEST(OpsTest, FactorsOfGradientsAreThoseOfTheForwardOp) {
  const std::vector<TensorType> in = {{DType::kF32, {2, 5, 3}}, {DType::kF32, {4, 3}}};
  const std::vector<TensorType> y = {{DType::kF32, {2, 5, 4}}};
  const MatMulAttributes attributes{false, true};
  const auto find = [&](const OpDef& op, std::vector<TensorType> inputs,
                        std::vector<TensorType> outputs, const std::string& factor) {
    const auto signatures = SignaturesOf(op, {attributes, inputs, outputs}, 2);
    for (const Signature& signature : *signatures) {
      if (signature.factor == factor) return ToString(signature);
    }
    return std::string("none");
  };
  EXPECT_EQ(find(MatMulOp(), in, y, "k"), "S2,S1->P(sum)");
  EXPECT_EQ(find(MatMulInputGradientOp(), {y[0], in[1]}, {in[0]}, "k"), "B,S1->S2");
  EXPECT_EQ(find(MatMulWeightGradientOp(), {in[0], y[0]}, {in[1]}, "k"), "S2,B->S1");
  EXPECT_EQ(find(MatMulOp(), in, y, "n"), "B,S0->S2");
  EXPECT_EQ(find(MatMulInputGradientOp(), {y[0], in[1]}, {in[0]}, "n"), "S2,S0->P(sum)");
  EXPECT_EQ(find(MatMulWeightGradientOp(), {in[0], y[0]}, {in[1]}, "n"), "B,S2->S0");
  EXPECT_EQ(find(MatMulWeightGradientOp(), {in[0], y[0]}, {in[1]}, "0"), "S0,S0->P(sum)");
  EXPECT_EQ(find(MatMulWeightGradientOp(), {in[0], y[0]}, {in[1]}, "m"), "S1,S1->P(sum)");
}

}  // namespace
}  // namespace sluice
