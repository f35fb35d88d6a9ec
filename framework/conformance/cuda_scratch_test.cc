// The fastest engine that cuDNN has for a convolution is one that the op's bound on scratch lets
// in: the plan has no more, and a kernel then takes another engine without a word.
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "framework/graph/op_def.h"
#include "framework/ops/all_ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

struct Line {
  std::string card, model, pass, type;
  int64_t batch, channels, size, out, window, stride, groups, first_engine_workspace;
  std::string text;
};

// "h100 resnet50 conv2d forward f32 n=32 c=3 ...: ways 3, first engine 28 workspace 0, ..."
std::vector<Line> Convolutions() {
  const std::regex form(
      R"((\w+) (\w+) conv2d (\w+) (\w+) n=(\d+) c=(\d+) size=(\d+) out=(\d+) window=(\d+) )"
      R"(stride=(\d+) groups=(\d+): ways \d+, first engine \d+ workspace (\d+), .*)");
  std::ifstream file("framework/kernels/cuda/testdata/cudnn_support.txt");
  std::vector<Line> lines;
  std::string text;
  while (std::getline(file, text)) {
    std::smatch m;
    if (!std::regex_match(text, m, form)) continue;
    const auto number = [&](size_t group) { return std::stoll(m[group].str()); };
    lines.push_back({m[1], m[2], m[3], m[4], number(5), number(6), number(7), number(8), number(9),
                     number(10), number(11), number(12), text});
  }
  return lines;
}

int64_t Bound(const Line& line) {
  const int64_t padding = line.window == line.size ? 0 : line.window / 2;
  const int64_t side = (line.size + 2 * padding - line.window) / line.stride + 1;
  const DType type = line.type == "bf16" ? DType::kBF16 : DType::kF32;
  const TensorType x = {type, {line.batch, line.size, line.size, line.channels}};
  const TensorType w = {type, {line.window, line.window, line.channels / line.groups, line.out}};
  const TensorType y = {type, {line.batch, side, side, line.out}};
  ConvolutionAttributes attributes;
  attributes.stride = {line.stride, line.stride};
  attributes.padding = {padding, padding};
  attributes.groups = line.groups;
  const bool forward = line.pass == "forward", of_images = line.pass == "input_gradient";
  if (of_images) attributes.extent = {line.size, line.size};
  if (!forward && !of_images) attributes.extent = {line.window, line.window};
  const OpDef* op = FindOp(forward ? "conv2d" : "conv2d_" + line.pass);
  const std::vector<TensorType> inputs = forward     ? std::vector<TensorType>{x, w}
                                         : of_images ? std::vector<TensorType>{y, w}
                                                     : std::vector<TensorType>{x, y};
  const Attributes given = attributes;
  const auto outputs = op->infer({given, inputs, {}});
  EXPECT_TRUE(outputs.ok()) << outputs.status() << line.text;
  if (!outputs.ok()) return 0;
  const int64_t turned = w.shape.NumElements() * SizeOf(type) + 256;
  return op->cost({given, inputs, *outputs}).ScratchOn(DeviceKind::kCuda) - turned;
}

TEST(CudaScratchTest, LetsInTheFastestEngineOfConvolutions) {
  const std::vector<Line> lines = Convolutions();
  ASSERT_GT(lines.size(), 200u);
  std::vector<std::string> shut_out;
  int64_t most = 0;
  for (const Line& line : lines) {
    const int64_t bound = Bound(line);
    if (bound >= line.first_engine_workspace) continue;
    most = std::max(most, line.first_engine_workspace);
    shut_out.push_back(line.card + " " + line.model + " " + line.pass + " " + line.type);
  }
  // Its window is the whole image: 51 MB for images of 3.
  EXPECT_THAT(shut_out, testing::ElementsAre("h100 mobilefacenet weight_gradient bf16"));
  EXPECT_LT(most, 52 << 20);
}

// Of the gradient of attention as many heads at a time as fill a card, or all.
TEST(CudaScratchTest, LetsInTheGradientOfAttentionSomeHeadsAtATime) {
  const std::regex form(
      R"(\w+ \w+ attention backward bf16 causal dropout=(\w+) batch=(\d+) heads=(\d+) )"
      R"(time=(\d+) size=(\d+): ways \d+, first engine \d+ workspace (\d+), .*)");
  std::ifstream file("framework/kernels/cuda/testdata/cudnn_support.txt");
  std::string text;
  int lines = 0;
  while (std::getline(file, text)) {
    std::smatch m;
    if (!std::regex_match(text, m, form)) continue;
    const auto number = [&](size_t group) { return std::stoll(m[group].str()); };
    const bool none = m[1].str() == "none", draws = m[1].str() == "draws";
    const int64_t batch = number(2), heads = number(3), time = number(4), size = number(5);
    const TensorType q = {DType::kBF16, {batch, time, heads, size}};
    const TensorType rows = {DType::kF32, {batch, time, heads}};
    const std::vector<TensorType> inputs = {q, q, q, q, rows, q}, outputs = {q, q, q};
    const Attributes attributes = AttentionAttributes{0.125, none ? 0 : 0.1, 7, draws};
    const int64_t bound = FindOp("attention_gradient")
                              ->cost({attributes, inputs, outputs})
                              .ScratchOn(DeviceKind::kCuda);
    // Besides, two numbers a row, and beside a mask four and the elements of one operand.
    const bool masked = !none && !draws;
    const int64_t own = masked ? 16 * batch * time * heads + 2 * q.shape.NumElements() + 1024
                               : 8 * batch * time * heads + 1024;
    const int64_t of_all = number(6), of_head = (of_all - 256) / (batch * heads);
    const int64_t workspace = std::min(of_all, 32 * of_head + 256);
    // A mask has two bytes a score, as the workspace.
    EXPECT_GE(bound - own, masked ? 2 * workspace : workspace) << text;
    ++lines;
  }
  EXPECT_GE(lines, 12);
}

// What is planned for a card is memory that activations cannot have.
TEST(CudaScratchTest, IsNotWhatAProcessorKeepsForItsThreads) {
  const TensorType x = {DType::kF32, {64, 56, 56, 64}}, w = {DType::kF32, {3, 3, 64, 64}};
  const Attributes attributes = ConvolutionAttributes{.padding = {1, 1}};
  const std::vector<TensorType> inputs = {x, w}, outputs = {x};
  const Cost cost = FindOp("conv2d")->cost({attributes, inputs, outputs});
  EXPECT_LT(cost.ScratchOn(DeviceKind::kCuda), cost.ScratchOn(DeviceKind::kCpu));
  EXPECT_LT(cost.ScratchOn(DeviceKind::kCuda), 2 * x.shape.NumElements() * 4 + (64 << 20));
}

}  // namespace
}  // namespace sluice
