#include "models/bert/bert.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/nn/layers.h"
#include "framework/nn/model_size.h"
#include "framework/ops/ops.h"

namespace sluice {
namespace {

// Megatron's two layouts, as in models/gpt: on a mesh without an axis "model" the words say
// nothing.
constexpr char kColumns[] = "model:S1", kRows[] = "model:S0", kSplitBias[] = "model:S0";
constexpr char kByData[] = "data:S0";
constexpr double kEpsilon = 1e-12;  // of every norm

Tensor Drop(const Scope& s, const BertConfig& c, Tensor x) {
  const InScope here(s / "dropout");
  return Dropout(x, c.dropout);
}

Tensor Activation(const BertConfig& c, Tensor x) { return c.tanh_gelu ? Gelu(x) : GeluErf(x); }

Tensor Attention(const Scope& s, const BertConfig& c, Tensor x, Tensor lengths) {
  const int64_t batch = x.shape()[0], length = x.shape()[1];
  const auto heads = [&](absl::string_view name) {
    const InScope here(s / name);
    return Reshape(Linear(s / name, x, c.hidden, kColumns, kSplitBias),
                   {batch, length, c.heads, c.hidden / c.heads});
  };
  const Tensor q = heads("q"), k = heads("k"), v = heads("v");
  const InScope here(s);
  const Tensor y =
      Reshape(PaddedAttention(q, k, v, lengths, c.attention_dropout), {batch, length, c.hidden});
  return Drop(s, c, Linear(s / "out", y, c.hidden, kRows));
}

Tensor Mlp(const Scope& s, const BertConfig& c, Tensor x) {
  Tensor y = Linear(s / "up", x, 4 * c.hidden, kColumns, kSplitBias);
  {
    const InScope here(s / "gelu");
    y = Activation(c, y);
  }
  return Drop(s, c, Linear(s / "down", y, c.hidden, kRows));
}

Tensor Block(const Scope& s, const BertConfig& c, Tensor x, Tensor lengths) {
  x = Norm(s / "norm1", Residual(s / "residual1", x, Attention(s / "attn", c, x, lengths)),
           kEpsilon);
  return Norm(s / "norm2", Residual(s / "residual2", x, Mlp(s / "mlp", c, x)), kEpsilon);
}

// Of a model that has seen longer texts the first rows.
Tensor Positions(const Scope& s, const BertConfig& c) {
  const int64_t positions = c.positions > 0 ? c.positions : c.sequence_length;
  const Tensor table = Table(s, positions, c.hidden);
  const InScope here(s);
  return positions == c.sequence_length ? table : SliceDim(table, 0, 0, c.sequence_length);
}

struct Encoded {
  Tensor table;   // of the vocabulary, split over it
  Tensor hidden;  // [batch, length, hidden]
};

Encoded Encode(const Scope& s, const BertConfig& c, Graph* graph) {
  const Shape shape = {c.batch, c.sequence_length};
  const Tensor tokens = graph->Input("tokens", DType::kI32, shape, kByData);
  const Tensor segments = graph->Input("segments", DType::kI32, shape, kByData);
  const Tensor lengths = graph->Input("length", DType::kI32, {c.batch}, kByData);
  const Scope embedding = s / "embedding";
  const auto rows = [](const Scope& scope, Tensor table, Tensor ids) {
    const InScope here(scope);
    return Embedding(table, ids);
  };
  const Tensor table = Table(embedding, c.vocabulary, c.hidden, kRows);
  Tensor x = rows(embedding, table, tokens);
  const Scope of_positions = embedding / "positions", of_segments = embedding / "segments";
  x = Residual(of_positions, x, Positions(of_positions, c));
  x = Residual(of_segments, x, rows(of_segments, Table(of_segments, 2, c.hidden), segments));
  x = Drop(embedding, c, Norm(embedding / "norm", x, kEpsilon));
  for (int64_t i = 0; i < c.layers; ++i) {
    if (!x) return {};
    x = Block(s.Block(absl::StrCat("h", i)), c, x, lengths);
  }
  return {table, x};
}

// Of the first token, [batch, hidden].
Tensor Pooled(const Scope& s, const BertConfig& c, Tensor hidden) {
  if (!hidden) return {};
  Tensor first;
  {
    const InScope here(s);
    first = Reshape(SliceDim(hidden, 1, 0, 1), {c.batch, c.hidden});
  }
  const Tensor y = Linear(s, first, c.hidden);
  const InScope here(s);
  return Tanh(y);
}

// [batch, predictions, vocabulary], of the words at the input `positions`.
Tensor MaskedLogits(const Scope& s, const BertConfig& c, const Encoded& encoded, Graph* graph) {
  const Tensor positions =
      graph->Input("positions", DType::kI32, {c.batch, c.predictions}, kByData);
  if (!encoded.hidden) return {};
  Tensor x;
  {
    const InScope here(s);
    x = Embedding(encoded.hidden, positions);  // of each sample its own rows
  }
  x = Linear(s / "transform", x, c.hidden);
  {
    const InScope here(s / "gelu");
    x = Activation(c, x);
  }
  x = Norm(s / "norm", x, kEpsilon);
  const InScope here(s);
  return MatMul(x, encoded.table, false, true) + s.Param("bias", {c.vocabulary}, kSplitBias);
}

// Of each masked word, [batch, predictions]; 0 for what fills the rows.
Tensor MaskedLosses(const Scope& s, const BertConfig& c, Tensor logits, Graph* graph) {
  const Shape shape = {c.batch, c.predictions};
  const Tensor labels = graph->Input("labels", DType::kI32, shape, kByData);
  const Tensor weights = graph->Input("weights", DType::kF32, shape, kByData);
  if (!logits) return {};
  const InScope here(s);
  return SoftmaxCrossEntropy(logits, labels) * weights;
}

// How many masked words each sample has. For training the annotation is empty: every device is fed
// the counts of the whole batch, once a step. Their sum, which divides the loss of each
// micro-batch, is then there before the first of them ends. As a sum of what the micro-batches are
// fed it would be known after the last one only, and no gradient could be computed before.
Tensor MaskedWords(const BertConfig& c, absl::string_view annotation, Graph* graph) {
  return graph->Input("masked_words", DType::kF32, {c.batch}, annotation);
}

struct PretrainingLogits {
  Tensor masked, next;
};

PretrainingLogits PretrainingHeads(const Scope& s, const BertConfig& c, Graph* graph) {
  const Encoded encoded = Encode(s, c, graph);
  const Tensor masked = MaskedLogits(s / "masked", c, encoded, graph);
  return {masked, Linear(s / "next_sentence", Pooled(s / "pooler", c, encoded.hidden), 2)};
}

Tensor ClassLogits(const Scope& s, const BertConfig& c, Graph* graph) {
  const Tensor pooled = Pooled(s / "pooler", c, Encode(s, c, graph).hidden);
  if (!pooled) return {};
  return Linear(s / "classifier", Drop(s / "classifier", c, pooled), c.classes);
}

void PretrainingLoss(const BertConfig& c, Graph* graph) {
  const Scope s(graph);
  const auto [masked_logits, logits] = PretrainingHeads(s, c, graph);
  const Tensor losses = MaskedLosses(s / "masked", c, masked_logits, graph);
  const Tensor words = MaskedWords(c, "", graph);
  const Tensor next = graph->Input("next", DType::kI32, {c.batch}, kByData);
  const Tensor next_loss = CrossEntropyLoss(s / "next_sentence" / "loss", logits, next);
  if (!losses || !next_loss) return;
  Tensor masked;
  {
    const InScope here(s / "masked" / "loss");
    masked = ReduceSum(losses, {0, 1}) / ReduceSum(words, {0});
  }
  const InScope here(s / "loss");
  graph->Output("loss", masked + next_loss);
}

void ClassificationLoss(const BertConfig& c, Graph* graph) {
  const Scope s(graph);
  const Tensor logits = ClassLogits(s, c, graph);
  const Tensor label = graph->Input("label", DType::kI32, {c.batch}, kByData);
  graph->Output("loss", CrossEntropyLoss(s / "loss", logits, label));
}

void PretrainingMetrics(const BertConfig& c, Graph* graph) {
  const Scope s(graph);
  const auto [masked_logits, logits] = PretrainingHeads(s, c, graph);
  const Tensor losses = MaskedLosses(s / "masked", c, masked_logits, graph);
  const Tensor words = MaskedWords(c, kByData, graph);
  const Tensor next = graph->Input("next", DType::kI32, {c.batch}, kByData);
  {
    const InScope here(s / "masked" / "loss");
    graph->Output("masked_loss", ReduceSum(losses, {1}));
  }
  graph->Output("masked_words", words);
  {
    const InScope here(s / "next_sentence" / "loss");
    graph->Output("next_loss", SoftmaxCrossEntropy(logits, next));
  }
  const InScope here(s / "next_sentence" / "accuracy");
  graph->Output("next_accuracy", TopKHits(logits, next, 1));
}

void ClassificationMetrics(const BertConfig& c, Graph* graph) {
  const Scope s(graph);
  const Tensor logits = ClassLogits(s, c, graph);
  const Tensor label = graph->Input("label", DType::kI32, {c.batch}, kByData);
  {
    const InScope here(s / "loss");
    graph->Output("loss", SoftmaxCrossEntropy(logits, label));
  }
  const InScope here(s / "accuracy");
  graph->Output("accuracy", TopKHits(logits, label, 1));
}

BertConfig WithoutDropout(BertConfig config) {
  config.dropout = config.attention_dropout = 0;
  return config;
}

}  // namespace

absl::Status BuildBertLoss(const BertConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckBert(config, 1));
  if (config.classes > 0) {
    ClassificationLoss(config, graph);
  } else {
    PretrainingLoss(config, graph);
  }
  return FinishIn(config.precision, graph);
}

absl::Status BuildBertTrain(const BertConfig& config, const OptimizerOptions& options,
                            Graph* graph) {
  Graph loss;
  RETURN_IF_ERROR(BuildBertLoss(config, &loss));
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> train, RunPasses(loss, {Train(options)}));
  *graph = std::move(*train);
  return absl::OkStatus();
}

absl::Status BuildBertEval(const BertConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckBert(config, 1));
  if (config.classes > 0) {
    ClassificationMetrics(WithoutDropout(config), graph);
  } else {
    PretrainingMetrics(WithoutDropout(config), graph);
  }
  return FinishIn(config.precision, graph);
}

absl::Status BuildBertEncoder(const BertConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckBert(config, 1));
  const BertConfig still = WithoutDropout(config);
  graph->Output("hidden", Encode(Scope(graph), still, graph).hidden);
  return FinishIn(config.precision, graph);
}

absl::Status BuildBertLogits(const BertConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckBert(config, 1));
  const BertConfig still = WithoutDropout(config);
  const Scope s(graph);
  if (still.classes > 0) {
    graph->Output("classes", ClassLogits(s, still, graph));
  } else {
    const PretrainingLogits logits = PretrainingHeads(s, still, graph);
    graph->Output("masked", logits.masked);
    graph->Output("next", logits.next);
  }
  return FinishIn(config.precision, graph);
}

absl::Status CheckBert(const BertConfig& c, int64_t stages) {
  RETURN_IF_ERROR(CheckSize<int64_t>("layers", c.layers, 1, 1000));
  RETURN_IF_ERROR(CheckSize<int64_t>("hidden", c.hidden, 1, 65536));
  RETURN_IF_ERROR(CheckSize<int64_t>("heads", c.heads, 1, c.hidden));
  RETURN_IF_ERROR(CheckSize<int64_t>("sequence_length", c.sequence_length, 4, 65536));
  if (c.positions != 0) {
    RETURN_IF_ERROR(CheckSize<int64_t>("positions", c.positions, c.sequence_length, 65536));
  }
  RETURN_IF_ERROR(CheckSize<int64_t>("predictions", c.predictions, 1, c.sequence_length));
  RETURN_IF_ERROR(CheckSize<int64_t>("classes", c.classes, 0, 1 << 20));
  RETURN_IF_ERROR(CheckSize<int64_t>("batch", c.batch, 1, 1 << 20));
  RETURN_IF_ERROR(CheckSize<int64_t>("vocabulary", c.vocabulary, 5, 1 << 24));
  RETURN_IF_ERROR(CheckSize<double>("dropout", c.dropout, 0.0, 0.99));
  RETURN_IF_ERROR(CheckSize<double>("attention_dropout", c.attention_dropout, 0.0, 0.99));
  if (c.hidden % c.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("heads: expected a divisor of hidden, ", c.hidden, ", got ", c.heads));
  }
  if (stages > c.layers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mesh: expected at most one pipeline stage a layer, ", c.layers, ", got pipe=", stages));
  }
  return absl::OkStatus();
}

}  // namespace sluice
