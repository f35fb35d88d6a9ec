#include "framework/testing/random_graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/passes/optimizer.h"
#include "framework/tensor/random.h"

namespace sluice {
namespace {

constexpr const char* kMeshes[] = {"data=4",        "data=2 model=2", "model=4",
                                   "data=2 pipe=2", "pipe=4",         "model=2 pipe=2"};

class Builder {
 public:
  Builder(uint64_t seed, DType dtype, RandomGraph* out)
      : state_(seed), dtype_(dtype), graph_(out->graph.get()), out_(out) {
    state_ = Next() ^ (seed << 32);  // neighbouring seeds must not give shifted sequences
  }

  absl::Status Build(int steps) {
    ASSIGN_OR_RETURN(out_->mesh, Mesh::Parse(kMeshes[Below(std::size(kMeshes))]));
    out_->micro_batches = 1 + Below(2);
    out_->script_length = Chance(15) ? 1 + Below(3) : 0;
    batch_ = out_->micro_batches * (out_->mesh.AxisSize("data") + Below(3));
    if (out_->mesh.FindAxis("data") < 0) batch_ = out_->micro_batches * (1 + Below(4));
    ops_ = 5 + Below(11);
    x_ = Begin();
    for (done_ = 1; done_ < ops_ && x_; ++done_) Grow();
    RETURN_IF_ERROR(graph_->status());
    RETURN_IF_ERROR(End());
    for (int step = 0; step < steps; ++step) Feed(step);
    return absl::OkStatus();
  }

 private:
  struct Input {
    std::string name;
    DType dtype;
    Shape shape;
    int64_t below;  // of integers; 0: normal deviates
  };
  using Growth = Tensor (Builder::*)(Tensor x);

  uint64_t Next() {  // SplitMix64
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % n); }
  bool Chance(int percent) { return Below(100) < percent; }
  int64_t Width() { return Chance(10) ? 1 : 2 + Below(7); }
  int32_t Stage() const {
    return static_cast<int32_t>(std::min<int64_t>(done_, ops_ - 1) * out_->mesh.num_stages() /
                                ops_);
  }

  // An annotation on some axes of the mesh. `partial`: the tensor may be wanted partial.
  std::string Words(const Shape& shape, int percent, bool partial) {
    if (partial && out_->mesh.axes().size() > 1 && out_->mesh.num_stages() == 1 && Chance(50)) {
      return Chance(50) ? "data:P(sum) model:B" : "data:B model:P(sum)";
    }
    std::string annotation;
    for (const char* axis : {"data", "model"}) {
      if (out_->mesh.FindAxis(axis) < 0 || !Chance(percent)) continue;
      std::string sbp = "B";
      if (partial && Chance(20)) {
        sbp = "P(sum)";
      } else if (shape.rank() > 0 && Chance(75)) {
        const int64_t dim = Below(shape.rank());
        if (shape[dim] > 1 || Chance(1)) sbp = absl::StrCat("S", dim);  // 1 is refused by most ops
      }
      absl::StrAppend(&annotation, annotation.empty() ? "" : " ", axis, ":", sbp);
    }
    return annotation;
  }
  // Of every third variable the state lies apart, without a draw: it would change every graph.
  std::string StateWords(const Shape& shape) const {
    const char* const axis = out_->mesh.FindAxis("data") >= 0 ? "data" : "model";
    if (variables_ % 3 != 0 || out_->mesh.FindAxis(axis) < 0) return "";
    for (int i = 0; i < shape.rank(); ++i) {
      const int dim = variables_ % 2 == 0 ? i : shape.rank() - 1 - i;
      if (shape[dim] > 2) return absl::StrCat(axis, ":S", dim);
    }
    return "";
  }
  Tensor Variable(const Shape& shape) { return Variable(shape, Words(shape, 45, false)); }
  Tensor Variable(const Shape& shape, const std::string& annotation, const char* init = "normal") {
    VariableAttributes attributes;
    attributes.init = init;
    attributes.stddev = 0.5;
    const std::string storage = Chance(15) ? Words(shape, 60, false) : "";
    return graph_->Variable(absl::StrCat("v", variables_++), dtype_, shape, attributes,
                            {annotation, storage, StateWords(shape)}, Stage());
  }
  // Of a batch, unless `words` are given.
  Tensor NewInput(DType dtype, const Shape& shape, int64_t below,
                  std::string annotation = "data:S0") {
    const std::string name = absl::StrCat("x", inputs_.size());
    inputs_.push_back({name, dtype, shape, below});
    if (annotation == "data:S0") {
      if (out_->micro_batches == 1 && Chance(20)) return graph_->Input(name, dtype, shape, "");
      if (shape.rank() > 1 && shape[1] > 1 && Chance(15)) annotation += " model:S1";
    }
    return graph_->Input(name, dtype, shape, annotation);
  }
  static int64_t Last(Tensor x) { return x.shape()[x.shape().rank() - 1]; }
  static bool IsMatrixLike(Tensor x) { return x.shape().rank() >= 2; }
  Tensor Apply1(const OpDef& op, Attributes attributes, std::vector<Tensor> inputs) {
    std::vector<Tensor> outputs = graph_->Add(op, std::move(attributes), std::move(inputs));
    return outputs.empty() ? Tensor() : outputs[0];
  }

  // Products of activations grow fast from op to op, and faster from step to step.
  bool MayMultiply() { return products_++ < 1; }

  Tensor Begin();
  void Grow();
  absl::Status End();
  void Feed(int step);
  void SideOutput(Tensor x);

  Tensor GrowLinear(Tensor x);
  Tensor GrowColumns(Tensor x);
  Tensor GrowActivation(Tensor x);
  Tensor GrowNorm(Tensor x);
  Tensor GrowResidual(Tensor x);
  Tensor GrowEmbedding(Tensor x);
  Tensor GrowTied(Tensor x);
  Tensor GrowAttention(Tensor x);
  Tensor GrowScores(Tensor x);
  Tensor GrowTransposed(Tensor x);
  Tensor GrowPieces(Tensor x);
  Tensor GrowReshape(Tensor x);
  Tensor GrowReduced(Tensor x);
  Tensor GrowPad(Tensor x);
  Tensor GrowRoot(Tensor x);
  Tensor GrowScaled(Tensor x);
  Tensor GrowCast(Tensor x);

  uint64_t state_;
  const DType dtype_;
  Graph* const graph_;
  RandomGraph* const out_;
  std::vector<Input> inputs_;
  int64_t batch_ = 1, ops_ = 0, done_ = 0;
  int variables_ = 0, sides_ = 0, products_ = 0;
  Tensor x_;
  std::vector<Tensor> past_;    // what a residual may join
  std::vector<Tensor> tables_;  // of embeddings
  std::vector<Tensor> extra_;   // scalars of the loss
};

Tensor Builder::Begin() {
  const Shape shape = Chance(50) ? Shape{batch_, 1 + Below(4), Width()} : Shape{batch_, Width()};
  if (Chance(35)) {
    Shape ids = shape;
    ids[ids.rank() - 1] = 1 + Below(3);
    const int64_t rows = 2 + Below(6);
    tables_.push_back(Variable({rows, Width()}));
    return Embedding(tables_.back(), NewInput(DType::kI32, ids, rows));
  }
  return GrowLinear(NewInput(dtype_, shape, 0));
}

void Builder::Grow() {
  static const std::pair<int, Growth> kGrowths[] = {
      {20, &Builder::GrowLinear},    {10, &Builder::GrowColumns},  {18, &Builder::GrowActivation},
      {7, &Builder::GrowNorm},       {10, &Builder::GrowResidual}, {6, &Builder::GrowEmbedding},
      {6, &Builder::GrowTied},       {6, &Builder::GrowAttention}, {5, &Builder::GrowScores},
      {5, &Builder::GrowTransposed}, {6, &Builder::GrowPieces},    {7, &Builder::GrowReshape},
      {5, &Builder::GrowReduced},    {3, &Builder::GrowPad},       {3, &Builder::GrowRoot},
      {5, &Builder::GrowScaled},     {6, &Builder::GrowCast},
  };
  int total = 0;
  for (const auto& growth : kGrowths) total += growth.first;
  while (graph_->status().ok()) {
    int64_t pick = Below(total);
    size_t i = 0;
    while (pick >= kGrowths[i].first) pick -= kGrowths[i++].first;
    const Growth growth = kGrowths[i].second;
    const Tensor y = (this->*growth)(x_);
    if (!y) continue;  // does not suit this tensor
    past_.push_back(x_);
    x_ = y;
    const bool unannotated = graph_->tensor(x_.id()).annotation.empty();
    if (Chance(22) && unannotated) x_ = x_.With(Words(x_.shape(), 60, true));
    if (Chance(6)) SideOutput(x_);
    return;
  }
}

Tensor Builder::GrowLinear(Tensor x) {
  if (!IsMatrixLike(x)) return Tensor();
  const int64_t in = Last(x), out = Width();
  const bool two_axes = out_->mesh.AxisSize("data") > 1 && out_->mesh.AxisSize("model") > 1;
  if (two_axes && in > 1 && Chance(15)) {  // what one axis owes, the other shall owe
    return MatMul(x, Variable({in, out}, "model:S0")).With("data:P(sum) model:B");
  }
  const bool transposed = Chance(25);
  return MatMul(x, Variable(transposed ? Shape{out, in} : Shape{in, out}), false, transposed);
}

// Arithmetic with a parameter of the last dimensions.
Tensor Builder::GrowColumns(Tensor x) {
  Shape shape = {Last(x)};
  if (x.shape().rank() > 2 && Chance(40))
    shape = {Chance(50) ? 1 : x.shape()[x.shape().rank() - 2], Last(x)};
  switch (Below(5)) {
    case 0:
      return x + Gelu(Variable(x.shape()));  // made once a step, read by every micro-batch
    case 1:
      return x + Variable(shape);
    case 2:
      return Variable(shape) - x;
    case 3:
      return x * Variable(shape);
    default:
      return x / Variable(shape, Words(shape, 45, false), "ones");
  }
}

Tensor Builder::GrowActivation(Tensor x) {
  switch (Below(5)) {
    case 0:  // without a draw, which would change every graph after it
      return done_ % 2 == 0 ? Gelu(x) : Silu(x);
    case 1:
      return Relu(x);
    case 2:
      return Softmax(x);
    case 3:
      return Dropout(x, 0.25);
    default:
      return MayMultiply() ? x * Silu(x) : Tensor();
  }
}

Tensor Builder::GrowNorm(Tensor x) {
  if (Last(x) < 3) return Tensor();  // few values have equal magnitudes once normalized
  return LayerNorm(x, Variable({Last(x)}, "", "ones"), Variable({Last(x)}, ""), 0.1);
}

Tensor Builder::GrowResidual(Tensor x) {
  std::vector<Tensor> terms = {x};
  for (auto past = past_.rbegin(); past != past_.rend() && terms.size() < 4; ++past) {
    if (past->shape() == x.shape() && past->dtype() == dtype_) terms.push_back(*past);
  }
  if (terms.size() < 2) return Tensor();
  if (Chance(40)) terms.resize(2);
  return terms.size() == 2 ? Add(terms[0], terms[1]) : AddN(terms);
}

// Rows picked by ids are added; sometimes a table serves twice, so that rows join.
Tensor Builder::GrowEmbedding(Tensor x) {
  if (!IsMatrixLike(x) || x.shape()[0] != batch_) return Tensor();
  Tensor table;
  for (const Tensor& t : tables_) {
    if (t.shape()[1] == Last(x) && Chance(60)) table = t;
  }
  if (!table && Chance(20)) {  // one that is computed, and may come partial
    const int64_t inner = 2 + Below(4);
    table = MatMul(Variable({2 + Below(6), inner}), Variable({inner, Last(x)}));
  } else if (!table) {
    table = Variable({2 + Below(6), Last(x)});
    tables_.push_back(table);
  }
  Shape ids;
  for (int d = 0; d + 1 < x.shape().rank(); ++d) ids.Append(x.shape()[d]);
  return x + Embedding(table, NewInput(DType::kI32, ids, table.shape()[0]));
}

// A table that is read by ids and multiplied: its gradient is rows and dense.
Tensor Builder::GrowTied(Tensor x) {
  if (!IsMatrixLike(x)) return Tensor();
  for (const Tensor& t : tables_) {
    if (t.shape()[1] == Last(x)) return MatMul(x, t, false, true);
  }
  return Tensor();
}

Tensor Builder::GrowAttention(Tensor x) {
  if (x.shape().rank() != 3) return Tensor();
  const int64_t heads = 1 + Below(4), size = 1 + Below(3);
  const Shape split = {x.shape()[0], x.shape()[1], heads, size};
  Tensor qkv[3];
  const std::string annotation = out_->mesh.FindAxis("model") >= 0 && Chance(50) ? "model:S1" : "";
  for (Tensor& t : qkv)
    t = Reshape(MatMul(x, Variable({Last(x), heads * size}, annotation)), split);
  const Tensor y = CausalAttention(qkv[0], qkv[1], qkv[2]);
  return Reshape(y, {x.shape()[0], x.shape()[1], heads * size});
}

// Products of two activations.
Tensor Builder::GrowScores(Tensor x) {
  if (x.shape().rank() != 3 || !MayMultiply()) return Tensor();
  const Tensor y = Chance(50) ? x : Relu(x);
  switch (Below(3)) {
    case 0:
      return Scale(MatMul(x, y, false, true), 0.25);
    case 1:
      return Scale(MatMul(x, y, true, false), 0.25);
    default:
      return MatMul(Softmax(MatMul(x, y, false, true)), x);
  }
}

Tensor Builder::GrowTransposed(Tensor x) {
  if (x.shape().rank() == 4)
    return Transpose(x, Chance(50) ? Shape{0, 2, 1, 3} : Shape{0, 1, 3, 2});
  if (x.shape().rank() == 3 && Chance(30)) {  // the way there and back may be partial
    const int64_t width = 2 + Below(3);
    const Tensor y = Transpose(MatMul(x, Variable({Last(x), width}, "model:S0")), {0, 2, 1});
    return MatMul(y, Variable({x.shape()[1], Width()}, "model:S1"));
  }
  if (x.shape().rank() == 3) return Transpose(x, {0, 2, 1});
  if (x.shape().rank() != 2) return Tensor();
  // Weights laid the other way round, by hand.
  return MatMul(x, Transpose(Variable({Width(), Last(x)}), {1, 0}));
}

Tensor Builder::GrowPieces(Tensor x) {
  if (IsMatrixLike(x) && Chance(25)) {  // two products side by side, often partial
    const std::string annotation = Last(x) > 1 && Chance(70) ? "model:S0" : "";
    return Concat({MatMul(x, Variable({Last(x), Width()}, annotation)),
                   MatMul(x, Variable({Last(x), Width()}, annotation))},
                  x.shape().rank() - 1);
  }
  const int dim = x.shape().rank() - 1 - (x.shape().rank() > 2 ? Below(2) : 0);
  const int64_t extent = x.shape()[dim];
  if (extent < 2) return Chance(30) ? Concat({x, Gelu(x)}, dim) : Tensor();
  const int64_t cut = 1 + Below(extent - 1);
  const Tensor a = SliceDim(x, dim, 0, cut), b = SliceDim(x, dim, cut, extent);
  return Chance(25) ? a : Concat({b, Gelu(a)}, dim);
}

Tensor Builder::GrowReshape(Tensor x) {
  const Shape& s = x.shape();
  if (s.rank() == 3) {
    return Chance(50) ? Reshape(x, {s[0], s[1] * s[2]}) : Reshape(x, {s[0] * s[1], s[2]});
  }
  if (s.rank() != 2) return Tensor();
  if (s[0] != batch_ && s[0] % batch_ == 0) return Reshape(x, {batch_, s[0] / batch_, s[1]});
  for (int64_t f : {2, 3}) {
    if (s[1] % f == 0) return Reshape(x, {s[0], f, s[1] / f});
  }
  return Reshape(x, {s[0], 1, s[1]});
}

Tensor Builder::GrowReduced(Tensor x) {
  if (x.shape().rank() != 3) return Tensor();
  const int dim = 1 + static_cast<int>(Below(2));
  const Tensor y = Chance(50) ? ReduceSum(x, {dim}) : ReduceMean(x, {dim});
  if (Chance(40)) return y;
  Shape ones = x.shape();
  ones[dim] = 1;
  const Tensor wide = BroadcastTo(Reshape(y, ones), x.shape());
  return Chance(50) ? wide : x - wide;
}

Tensor Builder::GrowPad(Tensor x) {
  const int dim = x.shape().rank() - 1;
  if (Last(x) > 7) return Tensor();
  return PadDim(x, dim, Below(2), Last(x) + 1 + Below(2));
}

Tensor Builder::GrowRoot(Tensor x) {
  return Sqrt(x * x + Fill(graph_, 1, Chance(50) ? Shape{} : Shape{Last(x)}, dtype_));
}

Tensor Builder::GrowScaled(Tensor x) {
  if (Chance(70)) return Scale(x, 0.75);
  // A scalar beside a whole tensor; the regularizer of a parameter.
  const Tensor v = Variable({Width(), Width()});
  extra_.push_back(Scale(SumSquares(v), 0.01));
  return x + extra_.back();
}

// Small integers are exact in every float.
Tensor Builder::GrowCast(Tensor x) {
  if (x.shape()[0] != batch_) return Tensor();
  if (Chance(50)) {
    Shape ids = x.shape();
    ids[ids.rank() - 1] = 1;
    return x + Cast(NewInput(DType::kI32, ids, 3), dtype_);
  }
  int64_t inner = 2 + Below(4);
  // Words on what is fed split it over time too, though this is no batch.
  std::string annotation = Chance(60) ? "model:S0" : "model:S1";
  if (out_->micro_batches > 1) {
    inner = 4;
    const int64_t model = out_->mesh.AxisSize("model");
    if (annotation == "model:S1" && (Last(x) % 2 != 0 || Last(x) < 2 * model)) annotation = "";
    if (annotation == "model:S0" && inner < 2 * model) annotation = "";
  }
  Shape shape = x.shape();
  shape[shape.rank() - 1] = inner;
  const Tensor a = NewInput(DType::kF32, shape, 3);
  const Tensor b = NewInput(DType::kF32, {inner, Last(x)}, 3, annotation);
  return x + Cast(Relu(MatMul(a, b)), dtype_) + Cast(MatMul(a, b), dtype_);
}

// What is fetched and has no gradient.
void Builder::SideOutput(Tensor x) {
  const std::string name = absl::StrCat("side", sides_++);
  if (!IsMatrixLike(x)) return;
  switch (Below(5)) {
    case 0:
      graph_->Output(name, ReduceMax(x, {x.shape().rank() - 1}));
      return;
    case 1:
      graph_->Output(name, ReduceMax(x, {0}));
      return;
    case 2:
      graph_->Output(name, SumSquares(x));
      return;
    case 3: {
      if (x.shape()[0] != batch_) return;
      Shape ids;
      for (int d = 0; d + 1 < x.shape().rank(); ++d) ids.Append(x.shape()[d]);
      graph_->Output(name, Apply1(EmbeddingGradientOp(), RowsAttributes{5},
                                  {NewInput(DType::kI32, ids, 5), x}));
      return;
    }
    default:
      graph_->Output(name, x);
  }
}

absl::Status Builder::End() {
  Tensor loss;
  if (x_.shape()[0] == batch_ && IsMatrixLike(x_) && Chance(60)) {
    if (Last(x_) < 2) x_ = MatMul(x_, Variable({Last(x_), 2 + Below(7)}));
    Shape labels;
    for (int d = 0; d + 1 < x_.shape().rank(); ++d) labels.Append(x_.shape()[d]);
    loss = Mean(SoftmaxCrossEntropy(x_, NewInput(DType::kI32, labels, Last(x_))));
  } else {
    loss = Mean(Gelu(x_));
  }
  for (const Tensor& term : extra_) loss = loss + term;
  OptimizerOptions options;
  if (Chance(50)) {
    options.kind = OptimizerOptions::kSgd;
    options.momentum = Chance(50) ? 0.5 : 0;
  }
  options.epsilon = 1e-3;  // keeps AdamW from amplifying rounding
  options.weight_decay = Chance(50) ? 0.125 : 0;
  options.clip = Chance(60) ? 0.25 : 0;
  RETURN_IF_ERROR(AddTraining(graph_, loss, options));
  return graph_->Finish();
}

void Builder::Feed(int step) {
  HostTensorMap feeds;
  int64_t key = 0;
  for (const Input& input : inputs_) {
    Array values(input.shape);
    ++key;
    for (size_t i = 0; i < values.values.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i);
      values.values[i] = input.below > 0
                             ? static_cast<double>(RandomWord(state_, key, step, at) % input.below)
                             : RandomNormal(state_ + step, key, at);
    }
    feeds[input.name] = FromArray(values, input.dtype);
  }
  feeds["learning_rate"] = FromArray(Array({}, 0.0625), DType::kF32);
  feeds["step"] = FromArray(Array({}, step + 1), DType::kI32);
  out_->feeds.push_back(std::move(feeds));
}

}  // namespace

absl::StatusOr<RandomGraph> MakeRandomGraph(uint64_t seed, int steps, DType dtype) {
  RandomGraph result;
  result.graph = std::make_unique<Graph>();
  RETURN_IF_ERROR(
      AddContext(Builder(seed, dtype, &result).Build(steps), absl::StrCat("random graph ", seed)));
  return result;
}

}  // namespace sluice
