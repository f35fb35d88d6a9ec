// Rows of a table by id, and what is done with gradients that are rows: Rows(ids, values) stands
// for the table in which row ids[i] has values[i] added for each i, and costs only its own size.
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

Shape Append(Shape shape, int64_t extent) {
  shape.Append(extent);
  return shape;
}

absl::Status CheckTable(absl::string_view op, const TensorType& table) {
  RETURN_IF_ERROR(CheckFloat(op, "the table", table));
  if (table.shape.rank() == 2) return absl::OkStatus();
  return Mismatch(op, "expected a table of [rows,width], got ", TypeText(table));
}

// values: [ids..., width].
absl::Status CheckRows(absl::string_view op, const TensorType& ids, const TensorType& values) {
  RETURN_IF_ERROR(CheckIndices(op, "ids", ids));
  RETURN_IF_ERROR(CheckFloat(op, "values", values));
  const bool fits =
      values.shape.rank() == ids.shape.rank() + 1 && Leading(values.shape, 1) == ids.shape;
  if (fits) return absl::OkStatus();
  return Mismatch(op, "expected a row of values for each id, got ids ", TypeText(ids),
                  " and values ", TypeText(values));
}

absl::Status ReferenceEmbedding(const ReferenceCall& call) {
  const ShardArray& table = call.inputs[0];
  const Array& ids = call.inputs[1].array;
  RETURN_IF_ERROR(CheckInRange("embedding", "ids", ids, table.logical.shape[0]));
  const int64_t width = RowLength(table.array);
  for (size_t i = 0; i < ids.values.size(); ++i) {
    const int64_t id = static_cast<int64_t>(ids.values[i]);
    if (id < table.box[0].begin || id >= table.box[0].end) continue;  // another shard's row
    for (int64_t e = 0; e < width; ++e) {
      call.outputs[0].array.values[i * width + e] =
          table.array.values[(id - table.box[0].begin) * width + e];
    }
  }
  return absl::OkStatus();
}

// Adds the rows that lie in the box of `table`.
absl::Status Scatter(const char* op, const Array& ids, const Array& values, ShardArray* table) {
  RETURN_IF_ERROR(CheckInRange(op, "ids", ids, table->logical.shape[0]));
  const GatheredRows rows = GatherRows(ids, values, table->box[0]);
  const int64_t width = RowLength(table->array);
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    for (int64_t e = 0; e < width; ++e) {
      table->array.values[(rows.ids[i] - table->box[0].begin) * width + e] += rows.values[i][e];
    }
  }
  return absl::OkStatus();
}

// Rows are split like a sum over them: where each shard has its own rows, what they are added to is
// owed too. No index rule says that.
absl::StatusOr<std::vector<Signature>> AddRowsSignatures(const OpCall& call, int64_t shards) {
  std::vector<Signature> signatures = {MakeSignature("", {kWhole, kWhole, kWhole}, {kWhole})};
  if (shards < 2) return signatures;
  const Shape& ids = call.inputs[1].shape;
  for (int d = 0; d < ids.rank(); ++d) {
    if (ids[d] <= 1) continue;
    signatures.push_back(MakeSignature(absl::StrCat(d), {kPartial, d, d}, {kPartial}));
    signatures.back().any_order = true;  // each row comes with its id
  }
  const Shape& table = call.inputs[0].shape;
  if (table[1] > 1) signatures.push_back(MakeSignature("e", {1, kWhole, ids.rank()}, {1}));
  if (table[0] > 1) signatures.push_back(MakeSignature("v", {0, kWhole, kWhole}, {0}));
  signatures.push_back(MakeSignature("P", {kPartial, kWhole, kPartial}, {kPartial}));
  return signatures;
}

// Repeated ids meet before they are squared, so only columns can be split.
absl::StatusOr<std::vector<Signature>> SumSquaresRowsSignatures(const OpCall& call,
                                                                int64_t shards) {
  std::vector<Signature> signatures = {MakeSignature("", {kWhole, kWhole}, {kWhole})};
  const Shape& values = call.inputs[1].shape;
  const int column = values.rank() - 1;
  if (shards > 1 && values[column] > 1) {
    signatures.push_back(MakeSignature("e", {kWhole, column}, {kPartial}));
  }
  return signatures;
}

constexpr int64_t kTimedRows = 256;  // of a table

}  // namespace

const OpDef& EmbeddingOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "embedding";
    op.inputs = {{"table"}, {"ids"}};
    op.outputs = {{"y"}};
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("embedding", call, 2));
      RETURN_IF_ERROR(CheckTable("embedding", call.inputs[0]));
      RETURN_IF_ERROR(CheckIndices("embedding", "ids", call.inputs[1]));
      return Types{{call.inputs[0].dtype, Append(call.inputs[1].shape, call.inputs[0].shape[1])}};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("ve,...->...e", {{0}}); };
    op.gradient = [](const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      Gradient rows;
      rows.kind = Gradient::kSparse;
      rows.tensors = {inputs[1], dy[0]};
      (*dx)[0] = rows;
    };
    op.cost = [](const OpCall& call) {
      return Cost{0, BytesOf(call.inputs.subspan(1)) + 2 * BytesOf(call.outputs), 0,
                  RowSizes(call.outputs[0])};
    };
    op.reference = ReferenceEmbedding;
    op.cases = {{"sequence", NoAttributes(), {F32({7, 3}), I32({2, 5})}, 0, 6},
                {"vector", NoAttributes(), {F32({5, 4}), I32({3})}, 0, 4}};
    op.large_cases = {{"", NoAttributes(), {WideTable(), I32({9, 101})}, 0, 130}};
    op.timing = {
        RowsByLength(), [](At at) {
          return OpCase{
              "", NoAttributes(), {F32({kTimedRows, at[1]}), I32({at[0]})}, 0, kTimedRows - 1};
        }};
    return op;
  }();
  return op;
}

const OpDef& EmbeddingGradientOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "embedding_gradient";
    op.inputs = {{"ids"}, {"dy"}};
    op.outputs = {{"dtable"}};
    op.attributes = RowsAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("embedding_gradient", call, 2));
      RETURN_IF_ERROR(CheckRows("embedding_gradient", call.inputs[0], call.inputs[1]));
      const TensorType& dy = call.inputs[1];
      return Types{
          {dy.dtype,
           {std::get<RowsAttributes>(call.attributes).rows, dy.shape[dy.shape.rank() - 1]}}};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...e->ve", {{1}}); };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 1); };
    op.reference = [](const ReferenceCall& call) {
      return Scatter("embedding_gradient", call.inputs[0].array, call.inputs[1].array,
                     &call.outputs[0]);
    };
    op.cases = {{"sequence", RowsAttributes{7}, {I32({2, 5}), F32({2, 5, 3})}, 0, 6},
                {"vector", RowsAttributes{5}, {I32({3}), F32({3, 4})}, 0, 4}};
    op.large_cases = {{"", RowsAttributes{131}, {I32({9, 101}), F32({9, 101, 67})}, 0, 130}};
    op.timing = NotTimed(kNotInModels);
    return op;
  }();
  return op;
}

const OpDef& AddSparseOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "add_sparse";
    op.inputs = {{"dense"}, {"ids"}, {"values"}};
    op.outputs = {{"y"}};
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("add_sparse", call, 3));
      const TensorType& dense = call.inputs[0];
      const TensorType& values = call.inputs[2];
      RETURN_IF_ERROR(CheckTable("add_sparse", dense));
      RETURN_IF_ERROR(CheckRows("add_sparse", call.inputs[1], values));
      if (values.dtype != dense.dtype || values.shape[values.shape.rank() - 1] != dense.shape[1]) {
        return Mismatch("add_sparse", "expected rows of ", TypeText(dense), ", got values ",
                        TypeText(values));
      }
      return Types{dense};
    };
    op.signatures = AddRowsSignatures;
    op.cost = [](const OpCall& call) {
      return Cost{call.inputs[2].shape.NumElements(), BytesOf(call.inputs) + BytesOf(call.outputs),
                  0, RowSizes(call.inputs[2])};
    };
    op.reference = [](const ReferenceCall& call) {
      call.outputs[0].array.values = call.inputs[0].array.values;
      return Scatter("add_sparse", call.inputs[1].array, call.inputs[2].array, &call.outputs[0]);
    };
    op.cases = {{"sequence", NoAttributes(), {F32({7, 3}), I32({2, 5}), F32({2, 5, 3})}, 0, 6},
                {"vector", NoAttributes(), {F32({5, 4}), I32({3}), F32({3, 4})}, 0, 4}};
    op.large_cases = {{"", NoAttributes(), {WideTable(), I32({909}), F32({909, 67})}, 0, 130}};
    op.timing = {RowsByLength(), [](At at) {
                   return OpCase{"",
                                 NoAttributes(),
                                 {F32({kTimedRows, at[1]}), I32({at[0]}), F32({at[0], at[1]})},
                                 0,
                                 kTimedRows - 1};
                 }};
    return op;
  }();
  return op;
}

const OpDef& SumSquaresSparseOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sum_squares_sparse";
    op.inputs = {{"ids"}, {"values"}};
    op.outputs = {{"y"}};
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("sum_squares_sparse", call, 2));
      RETURN_IF_ERROR(CheckRows("sum_squares_sparse", call.inputs[0], call.inputs[1]));
      return Types{{StatisticsType(call.inputs[1].dtype), {}}};
    };
    op.signatures = SumSquaresRowsSignatures;
    op.cost = [](const OpCall& call) {
      return ElementwiseCost(call, 3, 2 * BytesOf(call.inputs) + 4096);
    };
    op.reference = [](const ReferenceCall& call) {
      const Array& ids = call.inputs[0].array;
      Range all = {0, 0};
      for (double id : ids.values) all.end = std::max(all.end, static_cast<int64_t>(id) + 1);
      for (const std::vector<double>& row : GatherRows(ids, call.inputs[1].array, all).values) {
        for (double value : row) call.outputs[0].array.values[0] += value * value;
      }
      return absl::OkStatus();
    };
    op.cases = {{"sequence", NoAttributes(), {I32({2, 5}), F32({2, 5, 3})}, 0, 6},
                {"vector", NoAttributes(), {I32({3}), F32({3, 4})}, 0, 1}};
    op.large_cases = {{"", NoAttributes(), {I32({909}), F32({909, 67})}, 0, 130}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

Tensor Embedding(Tensor table, Tensor ids) {
  return ApplyOne(EmbeddingOp(), NoAttributes(), {table, ids});
}

Tensor SumSquares(const Gradient& gradient) {
  if (gradient.kind == Gradient::kDense) return SumSquares(gradient.tensors[0]);
  return ApplyOne(SumSquaresSparseOp(), NoAttributes(), gradient.tensors);
}

Tensor AddSparse(Tensor dense, const Gradient& rows) {
  return ApplyOne(AddSparseOp(), NoAttributes(), {dense, rows.tensors[0], rows.tensors[1]});
}

}  // namespace sluice
