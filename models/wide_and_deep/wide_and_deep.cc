#include "models/wide_and_deep/wide_and_deep.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/nn/layers.h"
#include "framework/nn/model_size.h"
#include "framework/ops/ops.h"

namespace sluice {
namespace {

constexpr char kWide[] = "wide";
constexpr char kSamples[] = "data:S0 model:S0";
constexpr char kRows[] = "model:S0 table:S0", kColumns[] = "model:S1 table:S1";

// What is made of rows is bound to where its samples are: a device adds up, of its own samples,
// what the owners of rows send.
Tensor AtSamples(Tensor x) { return x ? x.With("data:S0 model:S0 table:B") : x; }

// Where tables are apart, the stage of what has a table, and of all else.
Scope OfTables(const Scope& s, const WideAndDeepConfig& c) {
  return c.tables_apart ? s.Stage(0) : s;
}
Scope OfLayers(const Scope& s, const WideAndDeepConfig& c) {
  return c.tables_apart ? s.Stage(1) : s;
}

// The rows that the ids of an input name, [batch, features, width].
Tensor Rows(const Scope& s, const WideAndDeepConfig& c, const EmbeddingTable& table,
            absl::string_view annotation, const VariableAttributes& init, Graph* graph) {
  const Tensor ids = graph->Input(table.name, DType::kI32, {c.batch, table.features}, kSamples);
  const Tensor rows = s.Param("table", {table.rows, table.width}, annotation, init);
  const InScope here(s);
  return Embedding(rows, ids);
}

// [batch, 1]. Of a sample's weights each owner adds up its own, and sends the sum.
Tensor WidePart(const Scope& s, const WideAndDeepConfig& c, Tensor numbers, Graph* graph) {
  // A width of 1 cannot be split by columns.
  const Scope tables = OfTables(s, c), layers = OfLayers(s, c);
  const Tensor rows = Rows(tables, c, c.wide, kRows, {"zeros"}, graph);
  if (!rows) return {};
  Tensor y;
  {
    const InScope here(tables / "sum");
    y = AtSamples(ReduceSum(rows, {1}));
  }
  if (c.numbers == 0) return y;
  return Residual(layers / "add", y, Linear(layers / "numbers", numbers, 1, "", "", {"zeros"}));
}

// Embeddings, and numbers behind them, through the hidden layers to [batch, 1].
Tensor DeepPart(const Scope& s, const WideAndDeepConfig& c, Tensor numbers, Graph* graph) {
  std::vector<Tensor> parts;
  int64_t width = c.numbers;
  for (const EmbeddingTable& table : c.tables) {
    const Scope here = OfTables(s, c) / table.name;
    const Tensor rows = AtSamples(
        Rows(here, c, table, c.split_columns ? kColumns : kRows, NormalInit(0.05), graph));
    if (!rows) return {};
    const InScope reshaped(here / "flat");
    parts.push_back(Reshape(rows, {c.batch, table.features * table.width}));
    width += table.features * table.width;
  }
  if (c.numbers > 0) parts.push_back(numbers);
  Tensor x;
  {
    const InScope here(OfLayers(s, c) / "inputs");
    x = parts.size() == 1 ? parts[0] : Concat(parts, 1);
  }
  for (size_t i = 0; i < c.hidden.size(); ++i) {
    // Blocks would be cut as they come.
    const std::string name = absl::StrCat("h", i);
    const Scope layer = c.tables_apart ? OfLayers(s, c) / name : s.Block(name);
    x = Linear(layer, x, c.hidden[i], "", "", KaimingInit(width));
    if (!x) return {};
    const InScope here(layer / "relu");
    x = Dropout(Relu(x), c.dropout);
    width = c.hidden[i];
  }
  return Linear(OfLayers(s, c) / "out", x, 1, "", "", KaimingInit(width));
}

}  // namespace

OptimizerOptions::Group WideGroup(double rate) {
  return {.prefix = absl::StrCat(kWide, "/"), .kind = OptimizerOptions::kFtrl, .rate = rate};
}

absl::Status BuildWideAndDeepLoss(const WideAndDeepConfig& c, Graph* graph) {
  RETURN_IF_ERROR(CheckWideAndDeep(c, c.tables_apart ? 2 : 1));
  const Scope s(graph);
  Tensor numbers;
  if (c.numbers > 0) {
    numbers = graph->Input("numbers", DType::kF32, {c.batch, c.numbers}, kSamples);
  }
  const Tensor wide = WidePart(s / kWide, c, numbers, graph);
  const Tensor deep = DeepPart(s / "deep", c, numbers, graph);
  const Tensor label = graph->Input("label", DType::kF32, {c.batch}, kSamples);
  if (!wide || !deep) return FinishIn(c.precision, graph);
  Tensor logits;
  {
    const InScope here(OfLayers(s, c) / "logits");
    logits = Reshape(wide + deep, {c.batch});
  }
  graph->Output("logits", logits);
  const InScope here(OfLayers(s, c) / "loss");
  graph->Output("loss", Mean(SigmoidCrossEntropy(logits, label)));
  return FinishIn(c.precision, graph);
}

absl::Status BuildWideAndDeepTrain(const WideAndDeepConfig& config, const OptimizerOptions& options,
                                   Graph* graph) {
  Graph loss;
  RETURN_IF_ERROR(BuildWideAndDeepLoss(config, &loss));
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> train, RunPasses(loss, {Train(options)}));
  *graph = std::move(*train);
  return absl::OkStatus();
}

absl::Status BuildWideAndDeepEval(const WideAndDeepConfig& config, Graph* graph) {
  WideAndDeepConfig still = config;
  still.dropout = 0;
  return BuildWideAndDeepLoss(still, graph);
}

absl::Status CheckWideAndDeep(const WideAndDeepConfig& c, int64_t stages) {
  constexpr int64_t kMostRows = int64_t{1} << 31;  // ids are i32
  std::vector<EmbeddingTable> tables = c.tables;
  tables.push_back(c.wide);
  std::set<std::string> names = {"numbers", "label", "learning_rate", "step"};
  for (const EmbeddingTable& table : tables) {
    const auto of = [&](absl::string_view what) { return absl::StrCat(table.name, ": ", what); };
    RETURN_IF_ERROR(CheckSize<int64_t>(of("rows"), table.rows, 1, kMostRows));
    RETURN_IF_ERROR(CheckSize<int64_t>(of("width"), table.width, 1, 1 << 16));
    RETURN_IF_ERROR(CheckSize<int64_t>(of("features"), table.features, 1, 1 << 16));
    if (names.insert(table.name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tables: expected names of their own, got ", table.name, " twice"));
  }
  RETURN_IF_ERROR(CheckSize<int64_t>("tables", static_cast<int64_t>(c.tables.size()), 1, 1000));
  RETURN_IF_ERROR(CheckSize<int64_t>("numbers", c.numbers, 0, 1 << 16));
  RETURN_IF_ERROR(CheckSize<int64_t>("batch", c.batch, 1, 1 << 24));
  RETURN_IF_ERROR(CheckSize<double>("dropout", c.dropout, 0.0, 0.99));
  for (const int64_t width : c.hidden) {
    RETURN_IF_ERROR(CheckSize<int64_t>("hidden", width, 1, 1 << 20));
  }
  const int64_t layers = static_cast<int64_t>(c.hidden.size());
  RETURN_IF_ERROR(CheckSize<int64_t>("hidden layers", layers, 1, 1000));
  if (c.tables_apart) {
    if (stages == 2) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("mesh: expected two pipeline stages for tables apart, got pipe=", stages));
  }
  if (stages > layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh: expected at most one pipeline stage a hidden layer, ", layers,
                     ", got pipe=", stages));
  }
  return absl::OkStatus();
}

}  // namespace sluice
