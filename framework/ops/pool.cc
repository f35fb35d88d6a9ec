// Maximum and mean over windows of images [n, height, width, channels]; height and width are never
// split. Every window has a pixel: padding is less than the window.
#include <cmath>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/window.h"

namespace sluice {
namespace {

const PoolAttributes& Get(const Attributes& attributes) {
  return std::get<PoolAttributes>(attributes);
}

absl::StatusOr<Window> WindowOfPool(absl::string_view op, const PoolAttributes& a) {
  ASSIGN_OR_RETURN(const Window window,
                   WindowOf(op, a.window, a.stride_or_window(), a.padding, {1, 1}));
  for (const WindowAxis& axis : {window.height, window.width}) {
    if (axis.before >= axis.size || axis.after >= axis.size) {
      return Mismatch(op, "expected a padding of less than the window of ", a.window.ToString(),
                      ", got ", a.padding.ToString());
    }
  }
  return window;
}

absl::Status CheckImages(absl::string_view op, absl::string_view port, const TensorType& type) {
  RETURN_IF_ERROR(CheckFloat(op, port, type));
  if (type.shape.rank() == 4) return absl::OkStatus();
  return Mismatch(op, "expected ", port, " of [images,height,width,channels], got ",
                  TypeText(type));
}

// What pooling such images gives.
absl::StatusOr<TensorType> Pooled(absl::string_view op, const PoolAttributes& a,
                                  const TensorType& x) {
  RETURN_IF_ERROR(CheckImages(op, "x", x));
  ASSIGN_OR_RETURN(const Window window, WindowOfPool(op, a));
  const int64_t height = window.height.Places(x.shape[1]), width = window.width.Places(x.shape[2]);
  if (height < 1 || width < 1) {
    return Mismatch(op, "expected a window of at most the padded image, got ", a.window.ToString(),
                    " on ", TypeText(x));
  }
  return TensorType{x.dtype, {x.shape[0], height, width, x.shape[3]}};
}

absl::StatusOr<Types> InferForward(absl::string_view op, const OpCall& call) {
  RETURN_IF_ERROR(CheckCount(op, call, 1));
  ASSIGN_OR_RETURN(TensorType y, Pooled(op, Get(call.attributes), call.inputs[0]));
  return Types{std::move(y)};
}

absl::StatusOr<Types> InferMaxGradient(const OpCall& call) {
  constexpr char kOp[] = "max_pool_gradient";
  RETURN_IF_ERROR(CheckCount(kOp, call, 2));
  ASSIGN_OR_RETURN(const TensorType y, Pooled(kOp, Get(call.attributes), call.inputs[0]));
  RETURN_IF_ERROR(CheckType(kOp, "dy", y, call.inputs[1]));
  return Types{call.inputs[0]};
}

absl::StatusOr<Types> InferAverageGradient(const OpCall& call) {
  constexpr char kOp[] = "average_pool_gradient";
  RETURN_IF_ERROR(CheckCount(kOp, call, 1));
  const TensorType& dy = call.inputs[0];
  RETURN_IF_ERROR(CheckImages(kOp, "dy", dy));
  const Shape& extent = Get(call.attributes).extent;
  if (extent.rank() != 2) {
    return Mismatch(kOp, "expected an extent of [height,width], got ", extent.ToString());
  }
  const TensorType x = {dy.dtype, {dy.shape[0], extent[0], extent[1], dy.shape[3]}};
  ASSIGN_OR_RETURN(const TensorType y, Pooled(kOp, Get(call.attributes), x));
  RETURN_IF_ERROR(CheckType(kOp, "dy", y, dy));
  return Types{x};
}

// Of as many places of the window as y has.
Cost CostOf(const OpCall& call, const TensorType& y) {
  const PoolAttributes& a = Get(call.attributes);
  const int64_t taps = CountOf({y.shape.NumElements(), a.window[0], a.window[1]});
  // The rows of places that at most sixteen workers have in hand, 64 channels wide.
  const int64_t scratch = CountOf({16, 256, a.window[0], y.shape[2] + 1});
  return {taps, BytesOf(call.inputs) + BytesOf(call.outputs), scratch, Shape{taps},
          /*cuda_scratch=*/0};
}

// Of one image and channel: fn(pixel, place) for every tap, flat in the arrays of x and y.
template <typename F>
void ForEachTapOfChannels(const Window& window, const Shape& x, const Shape& y, F&& fn) {
  for (int64_t n = 0; n < x[0]; ++n) {
    ForEachTap(window, x[1], x[2],
               [&](int64_t row, int64_t column, int64_t, int64_t, int64_t p, int64_t q) {
                 for (int64_t c = 0; c < x[3]; ++c) {
                   fn(((n * x[1] + row) * x[2] + column) * x[3] + c,
                      ((n * y[1] + p) * y[2] + q) * y[3] + c);
                 }
               });
  }
}

// The pixel whose value each place takes: the first of the largest, or the first that is NaN.
absl::StatusOr<std::vector<int64_t>> Largest(const PoolAttributes& a, const Array& x,
                                             const Shape& y) {
  ASSIGN_OR_RETURN(const Window window, WindowOfPool("max_pool", a));
  std::vector<int64_t> largest(y.NumElements(), -1);
  ForEachTapOfChannels(window, x.shape, y, [&](int64_t pixel, int64_t place) {
    int64_t& best = largest[place];
    const double value = x.values[pixel];
    if (best < 0 || (!std::isnan(x.values[best]) && !(value <= x.values[best]))) best = pixel;
  });
  return largest;
}

absl::Status ReferenceMax(const ReferenceCall& call) {
  const Array& x = call.inputs[0].array;
  Array& y = call.outputs[0].array;
  ASSIGN_OR_RETURN(const std::vector<int64_t> largest, Largest(Get(call.attributes), x, y.shape));
  for (size_t i = 0; i < largest.size(); ++i) y.values[i] = x.values[largest[i]];
  return absl::OkStatus();
}

absl::Status ReferenceMaxGradient(const ReferenceCall& call) {
  const Array &x = call.inputs[0].array, &dy = call.inputs[1].array;
  ASSIGN_OR_RETURN(const std::vector<int64_t> largest, Largest(Get(call.attributes), x, dy.shape));
  for (size_t i = 0; i < largest.size(); ++i) {
    call.outputs[0].array.values[largest[i]] += dy.values[i];
  }
  return absl::OkStatus();
}

// What the mean of each place divides by.
std::vector<double> Divisors(const PoolAttributes& a, const Window& window, const Shape& x,
                             const Shape& y) {
  std::vector<double> divisors(y.NumElements());
  ForEachTapOfChannels(window, x, y, [&](int64_t, int64_t place) { divisors[place] += 1; });
  if (a.count_padding) {
    const int64_t whole = window.height.size * window.width.size;
    std::fill(divisors.begin(), divisors.end(), static_cast<double>(whole));
  }
  return divisors;
}

absl::Status ReferenceAverage(const ReferenceCall& call) {
  const Array& x = call.inputs[0].array;
  Array& y = call.outputs[0].array;
  const PoolAttributes& a = Get(call.attributes);
  ASSIGN_OR_RETURN(const Window window, WindowOfPool("average_pool", a));
  const std::vector<double> divisors = Divisors(a, window, x.shape, y.shape);
  ForEachTapOfChannels(window, x.shape, y.shape, [&](int64_t pixel, int64_t place) {
    y.values[place] += x.values[pixel] / divisors[place];
  });
  return absl::OkStatus();
}

absl::Status ReferenceAverageGradient(const ReferenceCall& call) {
  const Array& dy = call.inputs[0].array;
  Array& dx = call.outputs[0].array;
  const PoolAttributes& a = Get(call.attributes);
  ASSIGN_OR_RETURN(const Window window, WindowOfPool("average_pool_gradient", a));
  const std::vector<double> divisors = Divisors(a, window, dx.shape, dy.shape);
  ForEachTapOfChannels(window, dx.shape, dy.shape, [&](int64_t pixel, int64_t place) {
    dx.values[pixel] += dy.values[place] / divisors[place];
  });
  return absl::OkStatus();
}

OpDef MakeOp(const char* name, std::vector<Port> inputs, const char* output) {
  OpDef op;
  op.name = name;
  op.inputs = std::move(inputs);
  op.outputs = {{output}};
  op.computes_in = ComputesIn::kEither;
  op.attributes = PoolAttributes();
  return op;
}

// A pool by its images, of which each op's cases take what they need.
struct Example {
  const char* name;
  PoolAttributes attributes;
  Shape x;
  Shape y() const { return Pooled("", attributes, F32(x)).value().shape; }
};
OpCase ForwardCase(const Example& e) { return {e.name, e.attributes, {F32(e.x)}}; }
OpCase MaxGradientCase(const Example& e) { return {e.name, e.attributes, {F32(e.x), F32(e.y())}}; }
OpCase AverageGradientCase(const Example& e) {
  OpCase made = {e.name, e.attributes, {F32(e.y())}};
  std::get<PoolAttributes>(made.attributes).extent = {e.x[1], e.x[2]};
  return made;
}
void AddCases(OpDef* op, OpCase (*of)(const Example&)) {
  const Example small[] = {
      {"halves", {.window = {2, 2}}, {3, 4, 6, 3}},
      {"overlapping", {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, {2, 5, 5, 4}},
      {"sides",
       {.window = {3, 2}, .stride = {1, 3}, .padding = {0, 2, 1, 0}, .count_padding = false},
       {2, 4, 6, 5}},
  };
  for (const Example& example : small) op->cases.push_back(of(example));
  const Example large[] = {
      {"", {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, {5, 33, 30, 67}},
      {"", {.window = {2, 2}, .stride = {2, 2}}, {3, 25, 24, 136}},
      {"",
       {.window = {5, 4}, .stride = {1, 1}, .padding = {2, 2, 1, 2}, .count_padding = false},
       {4, 14, 19, 35}},
      {"", {.window = {1, 2}, .stride = {3, 3}}, {7, 31, 32, 20}},
      {"", {.window = {7, 7}, .stride = {1, 1}}, {9, 7, 7, 300}},
      // More elements than a byte numbers.
      {"", {.window = {17, 16}, .stride = {3, 4}}, {2, 23, 25, 8}},
  };
  for (const Example& example : large) op->large_cases.push_back(of(example));
}

// By elements of windows, of 3x3 that overlap, on images of 32x32.
constexpr int64_t kTapsOfImage = 16 * 16 * 64 * 9;
Axes Taps() { return {{kTapsOfImage, 8 * kTapsOfImage, 64 * kTapsOfImage}}; }
Example TimedAt(At at) {
  return {"",
          {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
          {at[0] / kTapsOfImage, 32, 32, 64}};
}

}  // namespace

const OpDef& MaxPoolOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("max_pool", {{"x"}}, "y");
    op.infer = [](const OpCall& call) { return InferForward("max_pool", call); };
    op.rule = [](const OpCall&) { return IndexRule::Parse("nHWc->nPQc"); };
    op.gradient = [](const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(ApplyOne(MaxPoolGradientOp(), node.attributes, {inputs[0], dy[0]}));
    };
    op.cost = [](const OpCall& call) { return CostOf(call, call.outputs[0]); };
    op.reference = ReferenceMax;
    AddCases(&op, ForwardCase);
    op.timing = {Taps(), [](At at) { return ForwardCase(TimedAt(at)); }};
    return op;
  }();
  return op;
}

const OpDef& MaxPoolGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("max_pool_gradient", {{"x"}, {"dy"}}, "dx");
    op.infer = InferMaxGradient;
    op.rule = [](const OpCall&) { return IndexRule::Parse("nHWc,nPQc->nHWc", {{1}}); };
    op.cost = [](const OpCall& call) {
      Cost cost = CostOf(call, call.inputs[1]);
      // Where in its window each maximum is, in bytes while they suffice.
      const Shape& window = Get(call.attributes).window;
      const int64_t of_one = CountOf({window[0], window[1]}) <= 256 ? 1 : 4;
      cost.cuda_scratch = CountOf({call.inputs[1].shape.NumElements(), of_one});
      return cost;
    };
    op.reference = ReferenceMaxGradient;
    AddCases(&op, MaxGradientCase);
    op.timing = {Taps(), [](At at) { return MaxGradientCase(TimedAt(at)); }};
    return op;
  }();
  return op;
}

const OpDef& AveragePoolOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("average_pool", {{"x"}}, "y");
    op.infer = [](const OpCall& call) { return InferForward("average_pool", call); };
    op.rule = [](const OpCall&) { return IndexRule::Parse("nHWc->nPQc", {{0}}); };
    op.gradient = [](const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      PoolAttributes attributes = Get(node.attributes);
      const Shape x = inputs[0].shape();
      attributes.extent = {x[1], x[2]};
      (*dx)[0] = Dense(ApplyOne(AveragePoolGradientOp(), attributes, {dy[0]}));
    };
    op.cost = [](const OpCall& call) { return CostOf(call, call.outputs[0]); };
    op.reference = ReferenceAverage;
    AddCases(&op, ForwardCase);
    op.timing = {Taps(), [](At at) { return ForwardCase(TimedAt(at)); }};
    return op;
  }();
  return op;
}

const OpDef& AveragePoolGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("average_pool_gradient", {{"dy"}}, "dx");
    op.infer = InferAverageGradient;
    op.rule = [](const OpCall&) { return IndexRule::Parse("nPQc->nHWc", {{0}}); };
    op.cost = [](const OpCall& call) { return CostOf(call, call.inputs[0]); };
    op.reference = ReferenceAverageGradient;
    AddCases(&op, AverageGradientCase);
    op.timing = {Taps(), [](At at) { return AverageGradientCase(TimedAt(at)); }};
    return op;
  }();
  return op;
}

Tensor MaxPool(Tensor x, const PoolAttributes& attributes) {
  return ApplyOne(MaxPoolOp(), attributes, {x});
}

Tensor AveragePool(Tensor x, const PoolAttributes& attributes) {
  return ApplyOne(AveragePoolOp(), attributes, {x});
}

}  // namespace sluice
