#include "framework/testing/random_graph.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ops/all_ops.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/passes/optimizer.h"
#include "framework/tensor/random.h"
#include "framework/testing/random_graph_builder.h"

namespace sluice {
namespace {

constexpr const char* kMeshes[] = {"data=4",        "data=2 model=2", "model=4",
                                   "data=2 pipe=2", "pipe=4",         "model=2 pipe=2"};
constexpr int kOpWeight = 4;  // that of patterns is beside each

}  // namespace

void RandomGraphBuilder::Reseed(absl::string_view what, int64_t place) {
  const auto words = Philox(seed_, RandomKey(what), place, 0);
  state_ = (static_cast<uint64_t>(words[0]) << 32) | words[1];
}

uint64_t RandomGraphBuilder::Next() {  // SplitMix64
  uint64_t z = (state_ += 0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

absl::Status RandomGraphBuilder::Build(int steps) {
  Reseed("shape", 0);
  ASSIGN_OR_RETURN(out_->mesh, Mesh::Parse(kMeshes[Below(std::size(kMeshes))]));
  out_->micro_batches = 1 + Below(2);
  out_->script_length = Chance(15) ? 1 + Below(3) : 0;
  batch_ = out_->micro_batches * (out_->mesh.AxisSize("data") + Below(3));
  if (out_->mesh.FindAxis("data") < 0) batch_ = out_->micro_batches * (1 + Below(4));
  ops_ = 5 + Below(11);
  Reseed("begin", 0);
  x_ = Begin();
  for (done_ = 1; done_ < ops_ && x_; ++done_) Grow();
  RETURN_IF_ERROR(graph_->status());
  Reseed("end", 0);
  RETURN_IF_ERROR(End());
  Reseed("feed", 0);
  for (int step = 0; step < (forgets_ ? std::min(steps, 1) : steps); ++step) Feed(step);
  return absl::OkStatus();
}

int32_t RandomGraphBuilder::Stage() const {
  return static_cast<int32_t>(std::min<int64_t>(done_, ops_ - 1) * out_->mesh.num_stages() / ops_);
}

std::string RandomGraphBuilder::Words(const Shape& shape, int percent, bool partial) {
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

Tensor RandomGraphBuilder::Variable(const Shape& shape, const std::string& annotation,
                                    const char* init) {
  VariableAttributes attributes;
  attributes.init = init;
  attributes.stddev = 0.5;
  const std::string storage = Chance(15) ? Words(shape, 60, false) : "";
  const ParamLayout layout = {annotation, storage, StateWords(shape)};
  return graph_->Variable(absl::StrCat("v", variables_++), dtype_, shape, attributes, layout,
                          Stage());
}

std::string RandomGraphBuilder::StateWords(const Shape& shape) const {
  const char* const axis = out_->mesh.FindAxis("data") >= 0 ? "data" : "model";
  if (variables_ % 3 != 0 || out_->mesh.FindAxis(axis) < 0) return "";
  for (int i = 0; i < shape.rank(); ++i) {
    const int dim = variables_ % 2 == 0 ? i : shape.rank() - 1 - i;
    if (shape[dim] > 2) return absl::StrCat(axis, ":S", dim);
  }
  return "";
}

Tensor RandomGraphBuilder::NewInput(DType dtype, const Shape& shape, int64_t below,
                                    std::string annotation) {
  const std::string name = absl::StrCat("x", inputs_.size());
  inputs_.push_back({name, dtype, shape, below});
  if (annotation == "data:S0") {
    if (out_->micro_batches == 1 && Chance(20)) return graph_->Input(name, dtype, shape, "");
    if (shape.rank() > 1 && shape[1] > 1 && Chance(15)) annotation += " model:S1";
  }
  return graph_->Input(name, dtype, shape, annotation);
}

Tensor RandomGraphBuilder::Begin() {
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

void RandomGraphBuilder::Grow() {
  struct Candidate {
    double bid;
    std::string name;
    const Pattern* pattern;
    const OpDef* op;
  };
  std::vector<Candidate> candidates;
  // The least of exponential deviates is each one's with a chance in proportion to its weight.
  const auto bid = [&](const std::string& name, int weight, const Pattern* pattern,
                       const OpDef* op) {
    const double unit = (RandomWord(seed_, RandomKey(name), done_, 0) + 1.0) / 4294967297.0;
    candidates.push_back({-std::log(unit) / weight, name, pattern, op});
  };
  for (const Pattern& pattern : Patterns()) {
    bid(absl::StrCat("pattern ", pattern.name), pattern.weight, &pattern, nullptr);
  }
  for (const OpDef* op : AllOps()) {
    if (op->gradient != nullptr) bid(op->name, kOpWeight, nullptr, op);
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.bid, a.name) < std::tie(b.bid, b.name);
  });
  for (const Candidate& candidate : candidates) {
    Reseed(candidate.name, done_);
    const Tensor y =
        candidate.op != nullptr ? GrowOp(*candidate.op, x_) : (this->*candidate.pattern->grow)(x_);
    if (!graph_->status().ok()) return;
    if (!y) continue;  // does not suit this tensor
    past_.push_back(x_);
    x_ = y;
    break;
  }
  Reseed("after", done_);
  if (Chance(35) && IsUnannotated(x_)) x_ = x_.With(Words(x_.shape(), 60, true));
  if (Chance(8)) SideOutput(x_);
}

// What is fetched and has no gradient.
void RandomGraphBuilder::SideOutput(Tensor x) {
  const std::string name = absl::StrCat("side", sides_++);
  if (!IsMatrixLike(x)) return;
  switch (Below(6)) {
    case 0:
      graph_->Output(name, ReduceMax(x, {x.shape().rank() - 1}));
      return;
    case 1:
      graph_->Output(name, ReduceMax(x, {0}));
      return;
    case 2:
      graph_->Output(name, SumSquares(x));
      return;
    case 3:
    case 4: {
      if (x.shape()[0] != batch_) return;
      // Of values that are partial, now and then.
      const Tensor values = Chance(40) && out_->mesh.num_stages() == 1
                                ? Scale(x, 0.5).With(Chance(50) ? "data:P(sum)" : "model:P(sum)")
                                : x;
      const Tensor ids = NewInput(DType::kI32, Leading(x.shape()), 5, Ids(x.shape()));
      graph_->Output(name, graph_->Add(EmbeddingGradientOp(), RowsAttributes{5}, {ids, values})[0]);
      return;
    }
    default:
      graph_->Output(name, x);
  }
}

absl::Status RandomGraphBuilder::End() {
  Tensor loss;
  if (x_.shape()[0] == batch_ && IsMatrixLike(x_) && Chance(60)) {
    if (Last(x_) < 2) x_ = MatMul(x_, Variable({Last(x_), 2 + Below(7)}));
    // Small ones, for a loss near zero is all rounding, which AdamW would make large.
    x_ = Scale(x_, 0.25);
    if (Chance(40)) x_ = MatMul(x_, Variable({Last(x_), 2 + Below(7)}));
    // Logits that are partial, and of them the picked ones as well.
    const bool partial = Chance(40) && IsUnannotated(x_) && out_->mesh.num_stages() == 1;
    const char* annotation = Chance(50) ? "data:P(sum)" : "model:P(sum)";
    if (partial) x_ = x_.With(annotation);
    const Tensor losses =
        SoftmaxCrossEntropy(x_, NewInput(DType::kI32, Leading(x_.shape()), Last(x_)));
    const Node& combine = graph_->node(graph_->tensor(losses.id()).producer);
    if (partial) Tensor(graph_, combine.inputs[2]).With(annotation);
    loss = Mean(losses);
  } else {
    loss = Mean(Gelu(x_));
  }
  for (const Tensor& term : extra_) loss = loss + term;
  OptimizerOptions options;
  if (Chance(40)) {
    options.kind = OptimizerOptions::kSgd;
    options.momentum = Chance(50) ? 0.5 : 0;
  } else if (Chance(25)) {
    options.kind = Chance(60) ? OptimizerOptions::kLars : OptimizerOptions::kLamb;
    options.momentum = 0.5;
    options.trust_coefficient = 0.25;
  } else if (Chance(50)) {
    forgets_ = Chance(50);
    options.kind = forgets_ ? OptimizerOptions::kFtrl : OptimizerOptions::kAdagrad;
  }
  options.epsilon = 1e-3;  // keeps AdamW and AdaGrad from amplifying rounding
  // LARS and LAMB make steps of one size of any gradient, and of one that is zero but for rounding
  // any step: what decays outweighs that.
  const bool decays = Chance(50) || HasTrustRatio(options.kind);
  options.weight_decay = decays ? 0.125 : 0;
  options.clip = Chance(60) ? 0.25 : 0;
  RETURN_IF_ERROR(AddTraining(graph_, loss, options));
  return graph_->Finish();
}

void RandomGraphBuilder::Feed(int step) {
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

absl::StatusOr<RandomGraph> MakeRandomGraph(uint64_t seed, int steps, DType dtype) {
  RandomGraph result;
  result.graph = std::make_unique<Graph>();
  RETURN_IF_ERROR(AddContext(RandomGraphBuilder(seed, dtype, &result).Build(steps),
                             absl::StrCat("random graph ", seed)));
  return result;
}

}  // namespace sluice
