#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/ops/ops.h"
#include "framework/testing/random_graph_builder.h"

namespace sluice {

namespace {

// Of two values that are normalized both have one magnitude, and lie on the kinks of what follows.
constexpr int64_t kFewestRows = 3;

}  // namespace

const std::vector<RandomGraphBuilder::Pattern>& RandomGraphBuilder::Patterns() {
  using B = RandomGraphBuilder;
  static const auto* patterns = new std::vector<Pattern>{
      {"linear", 16, &B::GrowLinear},
      {"bias", 2, &B::GrowBias},
      {"gated", 3, &B::GrowGated},
      {"residual", 8, &B::GrowResidual},
      {"embedding", 6, &B::GrowEmbedding},
      {"tied", 8, &B::GrowTied},
      {"attention", 5, &B::GrowAttention},
      {"cached_attention", 4, &B::GrowCached},
      {"gather", 4, &B::GrowGather},
      {"scores", 4, &B::GrowScores},
      {"transposed", 5, &B::GrowTransposed},
      {"pieces", 7, &B::GrowPieces},
      {"reshape", 7, &B::GrowReshape},
      {"reduced", 4, &B::GrowReduced},
      {"pad", 3, &B::GrowPad},
      {"regularizer", 2, &B::GrowRegularizer},
      {"cast", 6, &B::GrowCast},
      {"batch_norm", 8, &B::GrowBatchNorm},
      {"top_k", 3, &B::GrowTopK},
      {"images", 3, &B::GrowImages},
      {"sampled", 8, &B::GrowSampled},
  };
  return *patterns;
}

Tensor RandomGraphBuilder::GrowLinear(Tensor x) {
  if (!IsMatrixLike(x)) return Tensor();
  const int64_t in = Last(x), out = Width();
  const bool two_axes = out_->mesh.AxisSize("data") > 1 && out_->mesh.AxisSize("model") > 1;
  if (two_axes && in > 1 && Chance(15)) {  // what one axis owes, the other shall owe
    return MatMul(x, Variable({in, out}, "model:S0")).With("data:P(sum) model:B");
  }
  const bool transposed = Chance(25);
  return MatMul(x, Variable(transposed ? Shape{out, in} : Shape{in, out}), false, transposed);
}

// A parameter of x's shape that another op reads first: made once a step, and read by every
// micro-batch.
Tensor RandomGraphBuilder::GrowBias(Tensor x) { return x + Gelu(Variable(x.shape())); }

Tensor RandomGraphBuilder::GrowGated(Tensor x) { return MayMultiply() ? x * Silu(x) : Tensor(); }

Tensor RandomGraphBuilder::GrowResidual(Tensor x) {
  std::vector<Tensor> terms = {x};
  for (auto past = past_.rbegin(); past != past_.rend() && terms.size() < 4; ++past) {
    if (past->shape() == x.shape() && past->dtype() == dtype_) terms.push_back(*past);
  }
  if (terms.size() < 2) return Tensor();
  if (Chance(40)) terms.resize(2);
  return terms.size() == 2 ? Add(terms[0], terms[1]) : AddN(terms);
}

// Rows picked by ids are added; sometimes a table serves twice, so that rows join.
Tensor RandomGraphBuilder::GrowEmbedding(Tensor x) {
  if (!IsMatrixLike(x) || x.shape()[0] != batch_) return Tensor();
  Tensor table;
  for (const Tensor& t : tables_) {
    if (t.shape()[1] == Last(x) && Chance(60)) table = t;
  }
  if (!table && Chance(30)) {  // one that is computed, and may come partial
    const int64_t inner = 2 + Below(4), rows = 2 + Below(6);
    const char* axis = Chance(50) ? "data" : "model";
    table = Chance(70) ? MatMul(Variable({rows, inner}, absl::StrCat(axis, ":S1")),
                                Variable({inner, Last(x)}, absl::StrCat(axis, ":S0")))
                       : MatMul(Variable({rows, inner}), Variable({inner, Last(x)}));
  } else if (!table) {
    table = Variable({2 + Below(6), Last(x)});
    tables_.push_back(table);
  }
  return x + Embedding(table,
                       NewInput(DType::kI32, Leading(x.shape()), table.shape()[0], Ids(x.shape())));
}

// A table that is read by ids and multiplied: its gradient is rows and dense.
Tensor RandomGraphBuilder::GrowTied(Tensor x) {
  if (!IsMatrixLike(x)) return Tensor();
  for (const Tensor& t : tables_) {
    if (t.shape()[1] == Last(x) && Chance(70)) return MatMul(x, t, false, true);
  }
  if (x.shape()[0] != batch_) return Tensor();
  const int64_t rows = 2 + Below(6);
  tables_.push_back(Variable({rows, Last(x)}, Chance(50) ? "" : Words({rows, Last(x)}, 45, false)));
  const Tensor ids = NewInput(DType::kI32, Leading(x.shape()), rows, Ids(x.shape()));
  return MatMul(x + Embedding(tables_.back(), ids), tables_.back(), false, true);
}

Tensor RandomGraphBuilder::GrowAttention(Tensor x) {
  if (x.shape().rank() != 3) return Tensor();
  const int64_t heads = 1 + Below(4), size = 1 + Below(3);
  const Shape split = {x.shape()[0], x.shape()[1], heads, size};
  Tensor qkv[3];
  const std::string annotation = out_->mesh.FindAxis("model") >= 0 && Chance(50) ? "model:S1" : "";
  for (Tensor& t : qkv)
    t = Reshape(MatMul(x, Variable({Last(x), heads * size}, annotation)), split);
  const bool padded = x.shape()[0] == batch_ && Chance(50);
  const Tensor y =
      padded ? PaddedAttention(qkv[0], qkv[1], qkv[2],
                               NewInput(DType::kI32, {batch_}, x.shape()[1] + 1, "data:S0"))
             : CausalAttention(qkv[0], qkv[1], qkv[2]);
  return Reshape(y, {x.shape()[0], x.shape()[1], heads * size});
}

// Attention over rows of earlier steps, beside x. What a step leaves in the cache is compared as
// every variable is.
Tensor RandomGraphBuilder::GrowCached(Tensor x) {
  if (x.shape().rank() != 3 || x.shape()[0] != batch_) return Tensor();
  const int64_t heads = 1 + Below(4), size = 1 + Below(3), rows = 1 + Below(2);
  const Shape split = {batch_, rows, heads, size};
  Tensor qkv[3];
  const bool by_head = heads > 1 && out_->mesh.FindAxis("model") >= 0 && Chance(50);
  for (Tensor& t : qkv) t = NewInput(dtype_, split, 0, by_head ? "data:S0 model:S2" : "data:S0");
  const int64_t time = rows + 1 + Below(4);
  const Shape kept = {batch_, time, heads, size};
  const auto cache = [&](const std::string& words) {
    const Tensor made =
        graph_->Variable(absl::StrCat("v", variables_++), dtype_, kept, {"normal"}, words, Stage());
    if (made) graph_->SetRole(made.id(), Role::kStatistic, -1);
    return made;
  };
  const Tensor keys = cache(Words(kept, 45, false)), values = cache(Words(kept, 45, false));
  const Tensor position = NewInput(DType::kI32, {batch_}, time - rows + 1, "data:S0");
  const Tensor y = CachedAttention(qkv[0], qkv[1], qkv[2], keys, values, position);
  WriteRows(keys, qkv[1], position);
  WriteRows(values, qkv[2], position);
  // One that nobody reads may be split otherwise than by heads.
  if (size > 1 && !by_head && out_->mesh.FindAxis("model") >= 0) {
    WriteRows(cache("model:S3"), qkv[0], position);
  }
  graph_->Output(absl::StrCat("side", sides_++), y);
  return Scale(x, 0.5);
}

// Some rows of each sample, which may be named twice: a table of groups that is computed.
Tensor RandomGraphBuilder::GrowGather(Tensor x) {
  if (x.shape().rank() != 3 || x.shape()[0] != batch_) return Tensor();
  return Embedding(
      x, NewInput(DType::kI32, {batch_, kFewestRows + Below(3)}, x.shape()[1], "data:S0"));
}

// Products of two activations.
Tensor RandomGraphBuilder::GrowScores(Tensor x) {
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

Tensor RandomGraphBuilder::GrowTransposed(Tensor x) {
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

Tensor RandomGraphBuilder::GrowPieces(Tensor x) {
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

Tensor RandomGraphBuilder::GrowReshape(Tensor x) {
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

Tensor RandomGraphBuilder::GrowReduced(Tensor x) {
  if (x.shape().rank() != 3) return Tensor();
  const int dim = 1 + static_cast<int>(Below(2));
  const Tensor y = Chance(50) ? ReduceSum(x, {dim}) : ReduceMean(x, {dim});
  if (Chance(40)) return y;
  Shape ones = x.shape();
  ones[dim] = 1;
  const Tensor wide = BroadcastTo(Reshape(y, ones), x.shape());
  return Chance(50) ? wide : x - wide;
}

Tensor RandomGraphBuilder::GrowPad(Tensor x) {
  const int dim = x.shape().rank() - 1;
  if (Last(x) > 7) return Tensor();
  return PadDim(x, dim, Below(2), Last(x) + 1 + Below(2));
}

// The regularizer of a parameter, a scalar of the loss, also beside a whole tensor.
Tensor RandomGraphBuilder::GrowRegularizer(Tensor x) {
  const Tensor v = Variable({Width(), Width()});
  extra_.push_back(Scale(SumSquares(v), 0.01));
  return x + extra_.back();
}

// Groups are whole micro-batches, or lie in one: what waits for all micro-batches and is then read
// by each of them would stand in one script.
Tensor RandomGraphBuilder::GrowBatchNorm(Tensor x) {
  if (!IsMatrixLike(x) || x.shape()[0] != batch_ || !MayMultiply()) return Tensor();
  const int64_t groups = out_->micro_batches * (1 + Below(2));
  if (batch_ % groups != 0) return Tensor();
  const int64_t rows = x.shape().NumElements() / Last(x) / groups;
  if (rows < kFewestRows) return Tensor();
  const Shape channels = {Last(x)};
  const BatchNormResult made = BatchNorm(x, Variable(channels), Variable(channels), groups, 1e-2);
  for (const Tensor& statistic : {made.mean, made.variance}) {
    const Tensor average = graph_->Variable(absl::StrCat("v", variables_++), dtype_, channels,
                                            {"ones"}, Words(channels, 45, false), Stage());
    if (average) graph_->SetRole(average.id(), Role::kStatistic, -1);
    MovingAverage(average, ReduceMean(statistic, {0}), 0.25);
  }
  // What compiler/fuse.h makes one op of. Addends are read twice, so that gradients are sums.
  const Tensor y = Chance(60) ? made.y + x : made.y;
  return Chance(60) ? Relu(y) : y;
}

// A metric beside x. Of logits that are whole numbers, whose order no rounding changes.
Tensor RandomGraphBuilder::GrowTopK(Tensor x) {
  if (x.shape()[0] != batch_) return Tensor();
  const int64_t inner = 2 + Below(2), classes = 2 + Below(5);
  const Tensor features = NewInput(dtype_, {batch_, inner}, 3);
  const char* annotation = Chance(70) ? "model:S1" : "";
  const Tensor logits = MatMul(features, Cast(Fill(graph_, 1, {inner, classes}), dtype_));
  const Tensor scores = (logits + NewInput(dtype_, {batch_, classes}, 3)).With(annotation);
  const Tensor labels = NewInput(DType::kI32, {batch_}, classes);
  graph_->Output(absl::StrCat("side", sides_++), Mean(TopKHits(scores, labels, 1 + Below(2))));
  return Scale(x, 0.5);
}

// What is fed as bytes joins x: pictures are averaged, rows stay. Any dimension may be split. With
// a deviation of one byte's step, bytes stay whole numbers, which are exact in every float.
Tensor RandomGraphBuilder::GrowImages(Tensor x) {
  if (!IsMatrixLike(x) || x.shape()[0] != batch_) return Tensor();
  const int64_t channels = 2 + Below(3);
  Shape shape = {batch_, 2 + Below(2), 2 + Below(2), channels};
  if (x.shape().rank() > 2) shape = x.shape();
  const int last = shape.rank() - 1;
  shape[last] = channels;
  const std::vector<double> mean(channels, 0), stddev(channels, 1.0 / 255);
  const std::string split = Chance(60) ? absl::StrCat(" model:S", 1 + Below(last)) : "";
  Tensor pixels = NormalizeImages(NewInput(DType::kU8, shape, 3, "data:S0" + split), mean, stddev);
  if (!split.empty()) pixels = pixels.With(split.substr(1));
  pixels = Cast(pixels, dtype_);
  if (x.shape().rank() == 2) pixels = ReduceMean(pixels, {1, 2});
  return x + MatMul(pixels, Variable({channels, Last(x)}));
}

// Rows of a table of groups, those that labels name and others; where the labels' stand is added.
Tensor RandomGraphBuilder::GrowSampled(Tensor x) {
  if (!IsMatrixLike(x) || x.shape()[0] != batch_ || !MayMultiply()) return Tensor();
  const int64_t groups = 3 + Below(2), classes = batch_ + 2, count = batch_ + Below(3);
  const Shape shape = {groups, classes, Last(x)};
  const bool by_group = out_->mesh.FindAxis("model") >= 0 && Chance(60);
  const Tensor table = Variable(shape, by_group ? "model:S0" : Words(shape, 45, false));
  const Tensor labels = NewInput(DType::kI32, {batch_}, groups * classes);
  const ClassSample sample = SampleClasses(labels, classes, groups, count);
  const Tensor ids = by_group ? sample.classes.With("model:S0") : sample.classes;
  const Tensor rows = Reshape(Embedding(table, ids), {groups * count, Last(x)});
  Shape ones(std::vector<int64_t>(x.shape().rank(), 1));
  ones[0] = batch_;
  const Tensor places = Cast(Reshape(sample.positions, ones), dtype_);
  return Scale(MatMul(x, rows, false, true), 0.25) + Scale(places, 1.0 / 64);
}

// Small integers are exact in every float.
Tensor RandomGraphBuilder::GrowCast(Tensor x) {
  if (x.shape()[0] != batch_) return Tensor();
  if (Chance(50)) {
    Shape ids = x.shape();
    ids[ids.rank() - 1] = 1;
    return x + Cast(NewInput(DType::kI32, ids, 3), dtype_);
  }
  int64_t inner = 2 + Below(4);
  // Words on what is fed split it over time too, though this is no batch.
  std::string annotation = Chance(60) ? "model:S0" : "model:S1";
  const int64_t pieces = out_->micro_batches * out_->mesh.AxisSize("model");
  if (out_->micro_batches > 1) inner = 4;
  const int64_t extent = annotation == "model:S0" ? inner : Last(x);
  if (extent < pieces || extent % out_->micro_batches != 0) annotation = "";
  Shape shape = x.shape();
  shape[shape.rank() - 1] = inner;
  const Tensor a = NewInput(DType::kF32, shape, 3);
  const Tensor b = NewInput(DType::kF32, {inner, Last(x)}, 3, annotation);
  return x + Cast(Relu(MatMul(a, b)), dtype_) + Cast(MatMul(a, b), dtype_);
}

}  // namespace sluice
