// Convolutions of images [n, height, width, channels] with weights [height, width, input channels
// of a group, output channels]. Factors mean the same in the convolution and its gradients: n, c
// (input channels), o (output channels); height and width are never split. Where there are several
// groups, no channel is: a group's channels lie side by side, and a cut that does not fall between
// groups would leave a shard parts of some, which no attribute of the op could say.
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/window.h"

namespace sluice {
namespace {

const ConvolutionAttributes& Get(const OpCall& call) {
  return std::get<ConvolutionAttributes>(call.attributes);
}

// The three operands of a convolution, whichever of them an op makes.
struct Operands {
  Shape x, w, y;
};

absl::StatusOr<Window> WindowOfWeights(absl::string_view op, const ConvolutionAttributes& a,
                                       const Shape& w) {
  return WindowOf(op, {w[0], w[1]}, a.stride, a.padding, a.dilation);
}

// Of which factors an operand is made, in the equation of a rule.
struct Words {
  const char *x, *w, *y;
};
Words WordsOf(const ConvolutionAttributes& a) {
  return a.groups == 1 ? Words{"nHWc", "KLco", "nPQo"} : Words{"nHWC", "KLDO", "nPQO"};
}
absl::StatusOr<IndexRule> RuleOf(absl::string_view left, absl::string_view right,
                                 absl::string_view out) {
  return IndexRule::Parse(absl::StrCat(left, ",", right, "->", out), {{0}, {1}});
}

absl::Status CheckOperands(absl::string_view op, const OpCall& call, absl::string_view left,
                           absl::string_view right) {
  RETURN_IF_ERROR(CheckCount(op, call, 2));
  const TensorType &a = call.inputs[0], &b = call.inputs[1];
  RETURN_IF_ERROR(CheckFloat(op, left, a));
  if (a.dtype != b.dtype) {
    return Mismatch(op, "expected one dtype, got ", TypeText(a), " and ", TypeText(b));
  }
  if (a.shape.rank() != 4 || b.shape.rank() != 4) {
    return Mismatch(op, "expected ", left, " and ", right, " of four dimensions, got ", TypeText(a),
                    " and ", TypeText(b));
  }
  return absl::OkStatus();
}

// Whether channels of x, w and y go together, and the places of the window are those of y.
absl::Status CheckShapes(absl::string_view op, const ConvolutionAttributes& a,
                         const Operands& shapes) {
  const Shape &x = shapes.x, &w = shapes.w, &y = shapes.y;
  if (a.groups < 1) return Mismatch(op, "expected groups of at least 1, got ", a.groups);
  if (x[3] % a.groups != 0 || w[2] != x[3] / a.groups || w[3] % a.groups != 0 || y[3] != w[3]) {
    return Mismatch(op, "expected weights of [height,width,input channels / groups,output ",
                    "channels], got x ", x.ToString(), ", w ", w.ToString(), ", y ", y.ToString(),
                    " in ", a.groups, " groups");
  }
  ASSIGN_OR_RETURN(const Window window, WindowOfWeights(op, a, w));
  const int64_t height = window.height.Places(x[1]), width = window.width.Places(x[2]);
  if (height < 1 || width < 1) {
    return Mismatch(op, "expected a kernel of at most the padded image, got w ", w.ToString(),
                    " on x ", x.ToString());
  }
  if (x[0] == y[0] && y[1] == height && y[2] == width) return absl::OkStatus();
  return Mismatch(op, "expected y of ", x[0], "x", height, "x", width, " places, got ",
                  y.ToString(), " of x ", x.ToString(), " and w ", w.ToString());
}

absl::Status CheckExtent(absl::string_view op, const Shape& extent) {
  if (extent.rank() == 2) return absl::OkStatus();
  return Mismatch(op, "expected an extent of [height,width], got ", extent.ToString());
}

absl::StatusOr<Types> InferForward(const OpCall& call) {
  constexpr char kOp[] = "conv2d";
  RETURN_IF_ERROR(CheckOperands(kOp, call, "x", "w"));
  const Shape &x = call.inputs[0].shape, &w = call.inputs[1].shape;
  ASSIGN_OR_RETURN(const Window window, WindowOfWeights(kOp, Get(call), w));
  const Shape y = {x[0], window.height.Places(x[1]), window.width.Places(x[2]), w[3]};
  RETURN_IF_ERROR(CheckShapes(kOp, Get(call), {x, w, y}));
  return Types{{call.inputs[0].dtype, y}};
}

absl::StatusOr<Types> InferInputGradient(const OpCall& call) {
  constexpr char kOp[] = "conv2d_input_gradient";
  RETURN_IF_ERROR(CheckOperands(kOp, call, "dy", "w"));
  const Shape &y = call.inputs[0].shape, &w = call.inputs[1].shape;
  const ConvolutionAttributes& a = Get(call);
  RETURN_IF_ERROR(CheckExtent(kOp, a.extent));
  const Shape x = {y[0], a.extent[0], a.extent[1], CountOf({w[2], a.groups})};
  RETURN_IF_ERROR(CheckShapes(kOp, a, {x, w, y}));
  return Types{{call.inputs[0].dtype, x}};
}

// f32 of bf16 operands too: gradients of parameters are added up once more, over micro-batches and
// devices.
absl::StatusOr<Types> InferWeightGradient(const OpCall& call) {
  constexpr char kOp[] = "conv2d_weight_gradient";
  RETURN_IF_ERROR(CheckOperands(kOp, call, "x", "dy"));
  const Shape &x = call.inputs[0].shape, &y = call.inputs[1].shape;
  const ConvolutionAttributes& a = Get(call);
  RETURN_IF_ERROR(CheckExtent(kOp, a.extent));
  if (a.groups < 1) return Mismatch(kOp, "expected groups of at least 1, got ", a.groups);
  const Shape w = {a.extent[0], a.extent[1], x[3] / a.groups, y[3]};
  RETURN_IF_ERROR(CheckShapes(kOp, a, {x, w, y}));
  return Types{{StatisticsType(call.inputs[0].dtype), w}};
}

int64_t RoundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// What a kernel may keep beside its operands: weights and channels of images rounded up to what the
// library likes, f32 copies where a processor lacks bf16, gradients of several parts of the batch,
// and for each of at most sixteen workers what the library wants for an image.
int64_t ScratchOf(const Operands& shapes, int64_t groups) {
  const Shape &x = shapes.x, &w = shapes.w, &y = shapes.y;
  const int64_t group = w[3] / groups, padded = groups == 1 ? 64 : 16;
  const int64_t weights = CountOf(
      {4, w[0], w[1], groups, RoundUp(w[2], padded), RoundUp(std::max<int64_t>(group, 1), padded)});
  const int64_t image_x = CountOf({x[1] + 2, x[2] + 2, RoundUp(x[3], 32) + 16 * groups});
  const int64_t image_y = CountOf({y[1] + 2, y[2] + 2, RoundUp(y[3], 32) + 16 * groups});
  const int64_t workers = std::min<int64_t>(16, x[0]);
  const int64_t copies = 4 * (x.NumElements() + 2 * y.NumElements());
  return copies + CountOf({12, weights}) +
         CountOf({workers, CountOf({32, image_x + image_y}) + 2 * weights + (1 << 20)});
}

// What a card's kernel may keep. The fastest engines of cuDNN want copies of all operands in
// another layout, with channels in whole eights (conformance/cuda_scratch_test.cc asks for all of
// our models' shapes), behind weights that are turned for it. The other way, by patches, wants a
// block of those and workspace for its products.
int64_t CudaScratchOf(const Operands& shapes, DType dtype) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const Shape &x = shapes.x, &w = shapes.w, &y = shapes.y;
  const auto images = [&](const Shape& of) {
    return CountOf({SizeOf(dtype), of[0], of[1], of[2], RoundUp(of[3], 8)});
  };
  const auto image = [](const Shape& of) {
    return CountOf({of[1] + 2, of[2] + 2, std::max<int64_t>(of[3], 32)});
  };
  const int64_t patches = CountOf({32, std::min<int64_t>(16, x[0]), image(x) + image(y)});
  return images(x) + images(y) + CountOf({12, w.NumElements()}) + std::min(patches, 48 * kMiB) +
         4 * kMiB;
}

Cost CostOf(const OpCall& call, const Operands& shapes) {
  const Shape &w = shapes.w, &y = shapes.y;
  const int64_t places = CountOf({y[0], y[1], y[2]}), depth = CountOf({w[0], w[1], w[2]});
  return {CountOf({2, places, y[3], depth}), BytesOf(call.inputs) + BytesOf(call.outputs),
          ScratchOf(shapes, Get(call).groups), Shape{places, y[3], depth},
          CudaScratchOf(shapes, call.inputs[0].dtype)};
}

// fn(element of x, of w, of y) for every product of a convolution.
template <typename F>
absl::Status ForEachProduct(absl::string_view op, const ConvolutionAttributes& a,
                            const Operands& shapes, F&& fn) {
  RETURN_IF_ERROR(CheckShapes(op, a, shapes));
  const Shape &x = shapes.x, &w = shapes.w, &y = shapes.y;
  ASSIGN_OR_RETURN(const Window window, WindowOfWeights(op, a, w));
  const int64_t of_group = w[3] / a.groups;
  for (int64_t n = 0; n < x[0]; ++n) {
    ForEachTap(window, x[1], x[2],
               [&](int64_t row, int64_t column, int64_t k, int64_t l, int64_t p, int64_t q) {
                 const int64_t from = ((n * x[1] + row) * x[2] + column) * x[3];
                 const int64_t weight = (k * w[1] + l) * w[2] * w[3];
                 const int64_t to = ((n * y[1] + p) * y[2] + q) * y[3];
                 for (int64_t g = 0; g < a.groups; ++g) {
                   for (int64_t c = 0; c < w[2]; ++c) {
                     for (int64_t o = g * of_group; o < (g + 1) * of_group; ++o) {
                       fn(from + g * w[2] + c, weight + c * w[3] + o, to + o);
                     }
                   }
                 }
               });
  }
  return absl::OkStatus();
}

absl::Status ReferenceForward(const ReferenceCall& call) {
  const Array &x = call.inputs[0].array, &w = call.inputs[1].array;
  Array& y = call.outputs[0].array;
  return ForEachProduct(
      "conv2d", std::get<ConvolutionAttributes>(call.attributes), {x.shape, w.shape, y.shape},
      [&](int64_t i, int64_t j, int64_t k) { y.values[k] += x.values[i] * w.values[j]; });
}
absl::Status ReferenceInputGradient(const ReferenceCall& call) {
  const Array &dy = call.inputs[0].array, &w = call.inputs[1].array;
  Array& dx = call.outputs[0].array;
  return ForEachProduct("conv2d_input_gradient", std::get<ConvolutionAttributes>(call.attributes),
                        {dx.shape, w.shape, dy.shape}, [&](int64_t i, int64_t j, int64_t k) {
                          dx.values[i] += dy.values[k] * w.values[j];
                        });
}
absl::Status ReferenceWeightGradient(const ReferenceCall& call) {
  const Array &x = call.inputs[0].array, &dy = call.inputs[1].array;
  Array& dw = call.outputs[0].array;
  return ForEachProduct("conv2d_weight_gradient", std::get<ConvolutionAttributes>(call.attributes),
                        {x.shape, dw.shape, dy.shape}, [&](int64_t i, int64_t j, int64_t k) {
                          dw.values[j] += x.values[i] * dy.values[k];
                        });
}

void ConvolutionGradient(const Node& node, absl::Span<const Tensor> inputs,
                         absl::Span<const Tensor>, absl::Span<const Tensor> dy,
                         std::vector<Gradient>* dx) {
  ConvolutionAttributes attributes = std::get<ConvolutionAttributes>(node.attributes);
  const Shape x = inputs[0].shape(), w = inputs[1].shape();
  attributes.extent = {x[1], x[2]};
  (*dx)[0] = Dense(ApplyOne(Conv2dInputGradientOp(), attributes, {dy[0], inputs[1]}));
  attributes.extent = {w[0], w[1]};
  (*dx)[1] = Dense(ApplyOne(Conv2dWeightGradientOp(), attributes, {inputs[0], dy[0]}));
}

OpDef MakeOp(const char* name, std::vector<Port> inputs, const char* output) {
  OpDef op;
  op.name = name;
  op.inputs = std::move(inputs);
  op.outputs = {{output}};
  op.computes_in = ComputesIn::kLow;
  op.attributes = ConvolutionAttributes();
  return op;
}

// A convolution by its operands, of which each op's cases take two.
struct Example {
  const char* name;
  ConvolutionAttributes attributes;
  Shape x, w;
  Shape y() const {
    return InferForward({attributes, std::vector<TensorType>{F32(x), F32(w)}, {}}).value()[0].shape;
  }
};
OpCase ForwardCase(const Example& e) { return {e.name, e.attributes, {F32(e.x), F32(e.w)}}; }
OpCase InputGradientCase(const Example& e) {
  OpCase made = {e.name, e.attributes, {F32(e.y()), F32(e.w)}};
  std::get<ConvolutionAttributes>(made.attributes).extent = {e.x[1], e.x[2]};
  return made;
}
OpCase WeightGradientCase(const Example& e) {
  OpCase made = {e.name, e.attributes, {F32(e.x), F32(e.y())}};
  std::get<ConvolutionAttributes>(made.attributes).extent = {e.w[0], e.w[1]};
  return made;
}
void AddCases(OpDef* op, OpCase (*of)(const Example&)) {
  const Example small[] = {
      {"same", {.padding = {1, 1}}, {3, 5, 4, 3}, {3, 3, 3, 4}},
      {"strided", {.stride = {2, 2}}, {2, 5, 5, 4}, {1, 1, 4, 3}},
      {"sides", {.stride = {2, 1}, .padding = {0, 1, 2, 0}}, {2, 6, 5, 2}, {3, 2, 2, 5}},
      {"dilated", {.padding = {2, 1}, .dilation = {2, 1}}, {2, 5, 4, 2}, {3, 3, 2, 3}},
      {"groups", {.padding = {1, 1}, .groups = 2}, {2, 4, 4, 4}, {3, 3, 2, 6}},
      {"by_channel",
       {.stride = {2, 2}, .padding = {1, 1}, .groups = 3},
       {3, 5, 5, 3},
       {3, 3, 1, 3}},
  };
  for (const Example& example : small) op->cases.push_back(of(example));
  const Example large[] = {
      {"", {.padding = {1, 1}}, {5, 14, 13, 35}, {3, 3, 35, 67}},
      {"", {.stride = {2, 2}, .padding = {3, 3}}, {3, 41, 40, 3}, {7, 7, 3, 64}},
      {"", {}, {9, 7, 7, 130}, {1, 1, 130, 193}},
      {"", {.stride = {2, 2}}, {3, 15, 16, 96}, {1, 1, 96, 130}},
      {"", {.padding = {1, 1}}, {6, 7, 7, 96}, {3, 3, 96, 160}},
      {"", {.padding = {2, 2}, .dilation = {2, 2}}, {3, 19, 17, 32}, {3, 3, 32, 48}},
      {"", {.padding = {1, 1}, .groups = 50}, {5, 23, 21, 50}, {3, 3, 1, 50}},
      {"",
       {.stride = {2, 2}, .padding = {0, 1, 0, 1}, .groups = 4},
       {5, 16, 16, 64},
       {3, 3, 16, 64}},
      {"",
       {.stride = {3, 3}, .padding = {2, 2}, .dilation = {2, 2}, .groups = 5},
       {3, 24, 25, 10},
       {2, 3, 2, 20}},
      {"", {.stride = {2, 2}, .padding = {1, 1}}, {6, 14, 13, 64}, {3, 3, 64, 272}},
      {"", {.stride = {2, 1}, .padding = {1, 1}}, {9, 11, 10, 32}, {3, 3, 32, 48}},
      {"", {.padding = {0, 1, 2, 3}}, {4, 11, 12, 24}, {2, 4, 24, 40}},
      // What the windows read of so many images is more than scratch holds at a time.
      {"", {.padding = {2, 2}}, {70, 8, 8, 24}, {5, 5, 24, 40}},
  };
  for (const Example& example : large) op->large_cases.push_back(of(example));
}

// By places of the window, output channels, and what a place sums up, with a kernel of 3x3 on
// images of 16x16.
Axes Convolutions() { return {{256, 1024}, {32, 128, 512}, {144, 576, 2304}}; }
Example TimedAt(At at) {
  return {"", {.padding = {1, 1}}, {at[0] / 256, 16, 16, at[2] / 9}, {3, 3, at[2] / 9, at[1]}};
}

}  // namespace

const OpDef& Conv2dOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("conv2d", {{"x"}, {"w"}}, "y");
    op.infer = InferForward;
    op.rule = [](const OpCall& call) {
      const Words words = WordsOf(Get(call));
      return RuleOf(words.x, words.w, words.y);
    };
    op.gradient = ConvolutionGradient;
    op.cost = [](const OpCall& call) {
      return CostOf(call, {call.inputs[0].shape, call.inputs[1].shape, call.outputs[0].shape});
    };
    op.reference = ReferenceForward;
    AddCases(&op, ForwardCase);
    op.timing = {Convolutions(), [](At at) { return ForwardCase(TimedAt(at)); }};
    return op;
  }();
  return op;
}

const OpDef& Conv2dInputGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("conv2d_input_gradient", {{"dy"}, {"w"}}, "dx");
    op.infer = InferInputGradient;
    op.rule = [](const OpCall& call) {
      const Words words = WordsOf(Get(call));
      return RuleOf(words.y, words.w, words.x);
    };
    op.cost = [](const OpCall& call) {
      return CostOf(call, {call.outputs[0].shape, call.inputs[1].shape, call.inputs[0].shape});
    };
    op.reference = ReferenceInputGradient;
    AddCases(&op, InputGradientCase);
    op.timing = {Convolutions(), [](At at) { return InputGradientCase(TimedAt(at)); }};
    return op;
  }();
  return op;
}

const OpDef& Conv2dWeightGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("conv2d_weight_gradient", {{"x"}, {"dy"}}, "dw");
    op.infer = InferWeightGradient;
    op.rule = [](const OpCall& call) {
      const Words words = WordsOf(Get(call));
      return RuleOf(words.x, words.y, words.w);
    };
    op.cost = [](const OpCall& call) {
      return CostOf(call, {call.inputs[0].shape, call.outputs[0].shape, call.inputs[1].shape});
    };
    op.reference = ReferenceWeightGradient;
    AddCases(&op, WeightGradientCase);
    op.timing = {Convolutions(), [](At at) { return WeightGradientCase(TimedAt(at)); }};
    return op;
  }();
  return op;
}

Tensor Conv2d(Tensor x, Tensor w, const ConvolutionAttributes& attributes) {
  return ApplyOne(Conv2dOp(), attributes, {x, w});
}

}  // namespace sluice
