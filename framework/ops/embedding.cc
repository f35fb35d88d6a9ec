// Rows of a table by id, and what is done with gradients that are rows: Rows(ids, values) stands
// for the table in which row ids[i] has values[i] added for each i, and costs only its own size.
#include <algorithm>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"
#include "framework/ops/update.h"

namespace sluice {
namespace {

Shape Append(Shape shape, int64_t extent) {
  shape.Append(extent);
  return shape;
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
  const TableShard shard(table);
  RETURN_IF_ERROR(CheckInRange("embedding", "ids", ids, shard.whole));
  std::vector<double>& y = call.outputs[0].array.values;
  const int64_t per_group = ids.shape.NumElements() / std::max<int64_t>(shard.groups, 1);
  for (size_t i = 0; i < ids.values.size(); ++i) {
    const int64_t group = static_cast<int64_t>(i) / per_group;
    const int64_t place = shard.PlaceOf(group, static_cast<int64_t>(ids.values[i]));
    if (place < 0) continue;  // another shard's row
    for (int64_t e = 0; e < shard.width; ++e) {
      y[i * shard.width + e] = table.array.values[place + e];
    }
  }
  return absl::OkStatus();
}

// Adds the rows that lie in the box of `table`.
absl::Status Scatter(const char* op, const Array& ids, const Array& values, ShardArray* table) {
  RETURN_IF_ERROR(CheckInRange(op, "ids", ids, TableShard(*table).whole));
  ForEachNamedRow(*table, ids, values, [&](const std::vector<double>& sum, int64_t place) {
    for (size_t e = 0; e < sum.size(); ++e) table->array.values[place + e] += sum[e];
  });
  return absl::OkStatus();
}

// Rows are split like a sum over them: where each shard has its own rows, what they are added to is
// owed too. No index rule says that.
absl::StatusOr<std::vector<Signature>> AddRowsSignatures(const OpCall& call, int64_t shards) {
  std::vector<Signature> signatures = {MakeSignature("", {kWhole, kWhole, kWhole}, {kWhole})};
  if (shards < 2) return signatures;
  const Shape& ids = call.inputs[1].shape;
  const Shape& table = call.inputs[0].shape;
  const int groups = IsGrouped(call.inputs[0]) ? 1 : 0;  // dimensions
  for (int d = groups; d < ids.rank(); ++d) {
    if (ids[d] <= 1) continue;
    signatures.push_back(MakeSignature(absl::StrCat(d), {kPartial, d, d}, {kPartial}));
    signatures.back().any_order = true;  // each row comes with its id
  }
  const int rows = groups, columns = groups + 1;
  if (table[columns] > 1) {
    signatures.push_back(MakeSignature("e", {columns, kWhole, ids.rank()}, {columns}));
  }
  if (groups > 0 && table[0] > 1) signatures.push_back(MakeSignature("g", {0, 0, 0}, {0}));
  if (table[rows] > 1) signatures.push_back(MakeSignature("v", {rows, kWhole, kWhole}, {rows}));
  signatures.push_back(MakeSignature("P", {kPartial, kWhole, kPartial}, {kPartial}));
  return signatures;
}

// Entries of a place and an id (update.h).
absl::Status ReferenceSortIds(const ReferenceCall& call) {
  const Array& ids = call.inputs[0].array;
  RETURN_IF_ERROR(CheckInRange("sort_ids", "ids", ids, int64_t{1} << 31));
  const int64_t of_group = RowLength(ids);
  std::vector<std::pair<double, int64_t>> group;
  for (int64_t g = 0; g < NumRows(ids); ++g) {
    group.clear();
    for (int64_t i = 0; i < of_group; ++i) group.emplace_back(ids.values[g * of_group + i], i);
    std::sort(group.begin(), group.end());
    auto to = call.outputs[0].array.values.begin() + 2 * g * of_group;
    for (const auto& [id, place] : group) {
      *to++ = static_cast<double>(place);
      *to++ = id;
    }
  }
  return absl::OkStatus();
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
      const TensorType& table = call.inputs[0];
      RETURN_IF_ERROR(CheckTableIds("embedding", table, call.inputs[1]));
      const int64_t width = table.shape[table.shape.rank() - 1];
      return Types{{table.dtype, Append(call.inputs[1].shape, width)}};
    };
    op.rule = [](const OpCall& call) {
      return IndexRule::Parse(IsGrouped(call.inputs[0]) ? "gve,gk->gke" : "ve,...->...e", {{0}});
    };
    op.gradient = [](const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      Gradient rows;
      rows.kind = Gradient::kSparse;
      rows.grouped = inputs[0].shape().rank() == 3;
      rows.tensors = {inputs[1], dy[0]};
      (*dx)[0] = rows;
    };
    op.cost = [](const OpCall& call) {
      return Cost{0, BytesOf(call.inputs.subspan(1)) + 2 * BytesOf(call.outputs), 0,
                  RowSizes(call.outputs[0])};
    };
    op.reference = ReferenceEmbedding;
    op.cases = {{"sequence", NoAttributes(), {F32({7, 3}), I32({2, 5})}, 0, 6},
                {"vector", NoAttributes(), {F32({5, 4}), I32({3})}, 0, 4},
                {"groups", NoAttributes(), {F32({3, 5, 4}), I32({3, 2})}, 0, 4}};
    op.large_cases = {{"", NoAttributes(), {WideTable(), I32({9, 101})}, 0, 130},
                      {"", NoAttributes(), {F32({5, 131, 67}), I32({5, 99})}, 0, 130}};
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
    op.cost = [](const OpCall& call) {
      return ElementwiseCost(call, 1, SortScratch(call.inputs[0]));
    };
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
      RETURN_IF_ERROR(CheckTableIds("add_sparse", dense, call.inputs[1]));
      RETURN_IF_ERROR(CheckRows("add_sparse", call.inputs[1], values));
      const int64_t width = dense.shape[dense.shape.rank() - 1];
      if (values.dtype != dense.dtype || values.shape[values.shape.rank() - 1] != width) {
        return Mismatch("add_sparse", "expected rows of ", TypeText(dense), ", got values ",
                        TypeText(values));
      }
      return Types{dense};
    };
    op.signatures = AddRowsSignatures;
    op.cost = [](const OpCall& call) {
      return Cost{call.inputs[2].shape.NumElements(), BytesOf(call.inputs) + BytesOf(call.outputs),
                  SortScratch(call.inputs[1]), RowSizes(call.inputs[2])};
    };
    op.reference = [](const ReferenceCall& call) {
      call.outputs[0].array.values = call.inputs[0].array.values;
      return Scatter("add_sparse", call.inputs[1].array, call.inputs[2].array, &call.outputs[0]);
    };
    op.cases = {{"sequence", NoAttributes(), {F32({7, 3}), I32({2, 5}), F32({2, 5, 3})}, 0, 6},
                {"vector", NoAttributes(), {F32({5, 4}), I32({3}), F32({3, 4})}, 0, 4},
                {"groups", NoAttributes(), {F32({3, 5, 4}), I32({3, 6}), F32({3, 6, 4})}, 0, 4}};
    op.large_cases = {
        {"", NoAttributes(), {WideTable(), I32({909}), F32({909, 67})}, 0, 130},
        {"", NoAttributes(), {F32({5, 131, 67}), I32({5, 99}), F32({5, 99, 67})}, 0, 130}};
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

// Each group by itself, where there are groups. No shard could sort a part of one.
const OpDef& SortIdsOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sort_ids";
    op.inputs = {{"ids"}};
    op.outputs = {{"sorted_ids"}};
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("sort_ids", call, 1));
      const TensorType& ids = call.inputs[0];
      RETURN_IF_ERROR(CheckIndices("sort_ids", "ids", ids));
      if (ids.shape.rank() == 1 || ids.shape.rank() == 2) {
        return Types{{DType::kI32, Append(ids.shape, 2)}};
      }
      return Mismatch("sort_ids", "expected ids of [n] or [groups,n], got ", TypeText(ids));
    };
    op.signatures = [](const OpCall& call,
                       int64_t shards) -> absl::StatusOr<std::vector<Signature>> {
      std::vector<Signature> signatures = {MakeSignature("", {kWhole}, {kWhole})};
      const Shape& ids = call.inputs[0].shape;
      if (shards > 1 && ids.rank() == 2 && ids[0] > 1) {
        signatures.push_back(MakeSignature("g", {0}, {0}));
      }
      return signatures;
    };
    op.cost = [](const OpCall& call) {
      return ElementwiseCost(call, 0, SortScratch(call.inputs[0]));
    };
    op.reference = ReferenceSortIds;
    op.cases = {{"vector", NoAttributes(), {I32({5})}, 0, 3},
                {"groups", NoAttributes(), {I32({3, 4})}, 0, 2}};
    op.large_cases = {{"", NoAttributes(), {I32({909})}, 0, 130},
                      {"", NoAttributes(), {I32({9001})}, 0, 2602},
                      {"", NoAttributes(), {I32({5, 999})}, 0, 2e6}};
    op.timing = NotTimed("sorts the ids of a step once, some nanoseconds each");
    return op;
  }();
  return op;
}

// The table says which rows there are, and which of them a shard has: its bytes are not read.
const OpDef& SumSquaresSparseOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sum_squares_sparse";
    op.inputs = {{"table"}, {"sorted_ids"}, {"values"}};
    op.outputs = {{"y"}};
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("sum_squares_sparse", call, 3));
      RETURN_IF_ERROR(CheckGradient("sum_squares_sparse", call.inputs[0], call.inputs.subspan(1)));
      return Types{{StatisticsType(call.inputs[2].dtype), {}}};
    };
    op.signatures = [](const OpCall& call,
                       int64_t shards) -> absl::StatusOr<std::vector<Signature>> {
      ASSIGN_OR_RETURN(std::vector<Signature> signatures, RowsSignatures(call, shards, 1));
      // Rows of a table, groups and columns alike are added up from shards that have some each.
      for (size_t i = 1; i < signatures.size(); ++i) {
        signatures[i].outputs = {Sbp::P()};
      }
      return signatures;
    };
    op.cost = [](const OpCall& call) {
      const int64_t rows = BytesOf(call.inputs.subspan(1));
      return Cost{3 * call.inputs[2].shape.NumElements(), rows, 3 * rows + 8192};
    };
    op.reference = [](const ReferenceCall& call) {
      double& sum = call.outputs[0].array.values[0];
      return ForEachRowElement("sum_squares_sparse", call.inputs[0], call.inputs[1], call.inputs[2],
                               [&sum](double gradient, int64_t) { sum += gradient * gradient; });
    };
    op.cases = {{"sequence", NoAttributes(), {F32({7, 3}), I32({10, 2}), F32({2, 5, 3})}, 0, 6},
                {"vector", NoAttributes(), {F32({5, 4}), I32({3, 2}), F32({3, 4})}, 0, 1},
                {"groups", NoAttributes(), {F32({3, 5, 2}), I32({3, 5, 2}), F32({3, 5, 2})}, 0, 2}};
    op.large_cases = {
        {"", NoAttributes(), {WideTable(), I32({909, 2}), F32({909, 67})}, 0, 130},
        {"", NoAttributes(), {F32({2603, 37}), I32({9001, 2}), F32({9001, 37})}, 0, 2602},
        {"", NoAttributes(), {F32({5, 131, 67}), I32({5, 99, 2}), F32({5, 99, 67})}, 0, 130}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

Tensor Embedding(Tensor table, Tensor ids) {
  return ApplyOne(EmbeddingOp(), NoAttributes(), {table, ids});
}

Tensor SumSquares(Tensor variable, const Gradient& gradient) {
  if (gradient.kind == Gradient::kDense) return SumSquares(gradient.tensors[0]);
  return ApplyOne(SumSquaresSparseOp(), NoAttributes(),
                  {variable, gradient.tensors[0], gradient.tensors[1]});
}

Tensor AddSparse(Tensor dense, const Gradient& rows) {
  return ApplyOne(AddSparseOp(), NoAttributes(), {dense, rows.tensors[0], rows.tensors[1]});
}

}  // namespace sluice
