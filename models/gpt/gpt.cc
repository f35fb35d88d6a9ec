#include "models/gpt/gpt.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/nn/layers.h"
#include "framework/nn/model_size.h"
#include "framework/ops/ops.h"
#include "framework/passes/mixed_precision.h"

namespace sluice {
namespace {

// Megatron's two layouts: split a weight by columns, the next one by rows, and all that is left to
// communicate is one sum a pair. On a mesh without an axis "model" they do nothing.
constexpr char kColumns[] = "model:S1", kRows[] = "model:S0", kSplitBias[] = "model:S0";

// Where attention's rows stand in a sequence that steps go on with, and which rows they see.
// Without a position there is no cache, as in training.
struct CacheUse {
  Tensor position;     // of the first row, [batch]
  bool reads = false;  // they see the cached rows before them; else they are a sequence's first
};

// A term of the residual stream, as it joins it.
Tensor Term(const Scope& s, const GptConfig& c, Tensor x) {
  const InScope here(s / "dropout");
  return Dropout(c.sequence_split ? x.With("model:S1") : x, c.dropout);
}

// Attention of rows whose keys and values are left to the next step.
Tensor AttendAndKeep(const Scope& s, const GptConfig& c, const CacheUse& cache, Tensor q, Tensor k,
                     Tensor v) {
  if (!q) return {};
  const Shape kept = {q.shape()[0], c.sequence_length, c.heads, c.hidden / c.heads};
  const Tensor keys = Cache(s, "keys", kept), values = Cache(s, "values", kept);
  const Tensor y = cache.reads ? CachedAttention(q, k, v, keys, values, cache.position)
                               : CausalAttention(q, k, v);
  WriteRows(keys, k, cache.position);
  WriteRows(values, v, cache.position);
  return y;
}

Tensor Attention(const Scope& s, const GptConfig& c, const CacheUse& cache, Tensor x) {
  const int64_t batch = x.shape()[0], length = x.shape()[1];
  auto heads = [&](absl::string_view name) {
    const InScope here(s / name);
    return Reshape(Linear(s / name, x, c.hidden, kColumns, kSplitBias),
                   {batch, length, c.heads, c.hidden / c.heads});
  };
  Tensor q = heads("q"), k = heads("k"), v = heads("v");
  const InScope here(s);
  Tensor y = cache.position ? AttendAndKeep(s, c, cache, q, k, v)
                            : CausalAttention(q, k, v, c.attention_dropout, c.library_draws);
  y = Reshape(y, {batch, length, c.hidden});
  return Term(s, c, Linear(s / "out", y, c.hidden, kRows, "", ResidualInit(c.layers)));
}

Tensor Mlp(const Scope& s, const GptConfig& c, Tensor x) {
  return Term(s, c, GeluMlp(s, x, 4 * c.hidden, ResidualInit(c.layers)));
}

Tensor Block(const Scope& s, const GptConfig& c, const CacheUse& cache, Tensor x) {
  x = Residual(s / "residual1", x, Attention(s / "attn", c, cache, Norm(s / "norm1", x)));
  return Residual(s / "residual2", x, Mlp(s / "mlp", c, Norm(s / "norm2", x)));
}

// What becomes of the rows of a program on their way through a GPT.
struct GptRows {
  CacheUse cache = {};
  // Of one sample: the row whose logits are wanted, [1]; logits are then [1, vocabulary].
  Tensor wanted = {};
};

// Logits [batch, length, vocabulary]. The table is split over the vocabulary.
Tensor Gpt(const Scope& s, const GptConfig& c, Tensor tokens, const GptRows& rows = {}) {
  const Scope embedding = s / "embedding", positions = s / "positions";
  Tensor table = Table(embedding, c.vocabulary, c.hidden, kRows), x;
  {
    const InScope here(embedding);
    x = Embedding(table, tokens);
  }
  Tensor places = Table(positions, c.sequence_length, c.hidden);
  if (rows.cache.reads) {
    const InScope here(positions);
    places = Embedding(places, Reshape(rows.cache.position, tokens.shape()));
  }
  x = Term(positions, c, Residual(positions, x, places));
  for (int64_t i = 0; i < c.layers; ++i) {
    if (!x) return {};
    x = Block(s.Block(absl::StrCat("h", i)), c, rows.cache, x);
  }
  x = Norm(s / "norm", x);
  const InScope here(s / "logits");
  if (rows.wanted) x = Embedding(Reshape(x, {tokens.shape()[1], c.hidden}), rows.wanted);
  return MatMul(x, table, false, true);
}

// The logits of a batch, and what should follow each of its tokens.
struct Predictions {
  Tensor logits, labels;
};

Predictions Predict(const GptConfig& c, Graph* graph) {
  const Shape shape = {c.batch, c.sequence_length};
  Tensor tokens = graph->Input("tokens", DType::kI32, shape, "data:S0");
  Tensor labels = graph->Input("labels", DType::kI32, shape, "data:S0");
  return {Gpt(Scope(graph), c, tokens), labels};
}

GptConfig WithoutDropout(GptConfig config) {
  config.dropout = config.attention_dropout = 0;
  return config;
}

}  // namespace

absl::Status BuildGptLoss(const GptConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckGpt(config, 1));
  const auto [logits, labels] = Predict(config, graph);
  graph->Output("loss", CrossEntropyLoss(Scope(graph) / "loss", logits, labels));
  return FinishIn(config.precision, graph);
}

absl::Status BuildGptTrain(const GptConfig& config, const OptimizerOptions& options, Graph* graph) {
  Graph loss;
  RETURN_IF_ERROR(BuildGptLoss(config, &loss));
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> train, RunPasses(loss, {Train(options)}));
  *graph = std::move(*train);
  return absl::OkStatus();
}

absl::Status BuildGptEval(const GptConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckGpt(config, 1));
  const auto [logits, labels] = Predict(WithoutDropout(config), graph);
  const Tensor weights =
      graph->Input("weights", DType::kF32, {config.batch, config.sequence_length}, "data:S0");
  const Scope s(graph);
  Tensor loss;
  {
    const InScope here(s / "loss");
    loss = ReduceSum(SoftmaxCrossEntropy(logits, labels) * weights, {1});
  }
  graph->Output("loss", loss);
  {
    const InScope here(s / "predicted");
    graph->Output("predicted", ReduceSum(weights, {1}));
  }
  if (loss && config.bytes_per_token > 0) {
    const InScope here(s / "bits_per_byte");
    graph->Output("bits_per_byte", Scale(loss, 1 / (std::log(2.0) * config.bytes_per_token)));
  }
  return FinishIn(config.precision, graph);
}

absl::Status BuildGptDecode(const GptConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckGpt(config, 1));
  GptConfig still = WithoutDropout(config);
  still.sequence_split = false;  // there is one row
  Tensor token = graph->Input("token", DType::kI32, {1, 1}, "");
  Tensor position = graph->Input("position", DType::kI32, {1}, "");
  const Scope s(graph);
  const Tensor logits = Gpt(s, still, token, {{position, /*reads=*/true}});
  const InScope here(s / "logits");
  graph->Output("logits", logits ? Reshape(logits, {1, config.vocabulary}) : logits);
  return FinishIn(config.precision, graph);
}

absl::Status BuildGptPrefill(const GptConfig& config, Graph* graph) {
  RETURN_IF_ERROR(CheckGpt(config, 1));
  const GptConfig still = WithoutDropout(config);
  Tensor tokens = graph->Input("tokens", DType::kI32, {1, config.sequence_length}, "");
  Tensor last = graph->Input("last", DType::kI32, {1}, "");
  const Tensor first = Fill(graph, 0, {1}, DType::kI32);
  graph->Output("logits", Gpt(Scope(graph), still, tokens, {{first}, last}));
  return FinishIn(config.precision, graph);
}

absl::Status CheckGpt(const GptConfig& c, int64_t stages) {
  RETURN_IF_ERROR(CheckSize<int64_t>("layers", c.layers, 1, 1000));
  RETURN_IF_ERROR(CheckSize<int64_t>("hidden", c.hidden, 1, 65536));
  RETURN_IF_ERROR(CheckSize<int64_t>("heads", c.heads, 1, c.hidden));
  RETURN_IF_ERROR(CheckSize<int64_t>("sequence_length", c.sequence_length, 1, 65536));
  RETURN_IF_ERROR(CheckSize<int64_t>("batch", c.batch, 1, 1 << 20));
  RETURN_IF_ERROR(CheckSize<int64_t>("vocabulary", c.vocabulary, 2, 1 << 24));
  RETURN_IF_ERROR(CheckSize<double>("dropout", c.dropout, 0.0, 0.99));
  RETURN_IF_ERROR(CheckSize<double>("attention_dropout", c.attention_dropout, 0.0, 0.99));
  if (c.hidden % c.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("heads: expected a divisor of hidden, ", c.hidden, ", got ", c.heads));
  }
  if (stages > c.layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh: expected at most one pipeline stage a "
                     "layer, ",
                     c.layers, ", got pipe=", stages));
  }
  return absl::OkStatus();
}

int64_t GptParameters(const GptConfig& c) {
  const int64_t h = c.hidden;
  const int64_t block = 4 * (h * h + h) + (4 * h * h + 4 * h) + (4 * h * h + h) + 4 * h;
  return c.layers * block + (c.vocabulary + c.sequence_length) * h + 2 * h;
}

double GptFlopsPerToken(const GptConfig& c) {
  const int64_t counted = GptParameters(c) - c.sequence_length * c.hidden;
  return 6.0 * static_cast<double>(counted) +
         12.0 * static_cast<double>(c.layers * c.hidden * c.sequence_length);
}

}  // namespace sluice
