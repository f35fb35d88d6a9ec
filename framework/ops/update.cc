#include "framework/ops/update.h"

#include "framework/ops/cases.h"
#include "framework/ops/ops.h"

namespace sluice {

absl::Status CheckGradient(absl::string_view op, const TensorType& variable,
                           absl::Span<const TensorType> gradient) {
  if (gradient.size() == 1) return CheckType(op, "the gradient", variable, gradient[0]);
  const TensorType &ids = gradient[0], &values = gradient[1];
  RETURN_IF_ERROR(CheckTable(op, variable));
  RETURN_IF_ERROR(CheckFloat(op, "values", values));
  RETURN_IF_ERROR(CheckIndices(op, "sorted ids", ids));
  const int groups = IsGrouped(variable) ? 1 : 0;  // dimensions
  const Shape& table = variable.shape;
  const int64_t width = table[groups + 1];
  const bool is_sorted = ids.shape.rank() == groups + 2 && ids.shape[groups + 1] == 2 &&
                         (groups == 0 || ids.shape[0] == table[0]);
  if (!is_sorted) {
    return Mismatch(op, "expected sorted ids of [", groups > 0 ? absl::StrCat(table[0], ",") : "",
                    "n,2] for the table ", TypeText(variable), ", got ", TypeText(ids));
  }
  const int64_t rows = ids.shape.NumElements() / 2;
  const bool fits = values.dtype == variable.dtype && values.shape.rank() > 1 &&
                    values.shape[values.shape.rank() - 1] == width &&
                    Leading(values.shape, 1).NumElements() == rows &&
                    (groups == 0 || (values.shape.rank() == 3 && values.shape[0] == table[0]));
  if (fits) return absl::OkStatus();
  return Mismatch(op, "expected values of ", rows, " rows of the table ", TypeText(variable),
                  ", got ", TypeText(values));
}

absl::StatusOr<SortedRows> RowsOf(const char* op, const ShardArray& table,
                                  const Array& sorted_ids) {
  SortedRows sorted;
  sorted.ids = Array(Leading(sorted_ids.shape, 1));
  const int64_t n = static_cast<int64_t>(sorted.ids.values.size());
  const int64_t per_group = n / std::max<int64_t>(TableShard(table).groups, 1);
  Array places(sorted.ids.shape);
  for (int64_t i = 0; i < n; ++i) {
    places.values[i] = sorted_ids.values[2 * i];
    sorted.ids.values[i] = sorted_ids.values[2 * i + 1];
  }
  RETURN_IF_ERROR(CheckInRange(op, "ids", sorted.ids, TableShard(table).whole));
  RETURN_IF_ERROR(CheckInRange(op, "places", places, per_group));
  for (int64_t i = 0; i < n; ++i) {
    sorted.rows.push_back(i / per_group * per_group + static_cast<int64_t>(places.values[i]));
  }
  return sorted;
}

absl::StatusOr<std::vector<Signature>> RowsSignatures(const OpCall& call, int64_t shards,
                                                      size_t ids) {
  const Shape& table = call.inputs[0].shape;
  const auto make = [&](const char* factor, int table_dim, int ids_dim, int values_dim,
                        int rows_dim) {
    std::vector<int> inputs(call.inputs.size(), kWhole);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool like_table = i < ids || i > ids + 1;  // or a scalar
      if (like_table && call.inputs[i].shape == table) inputs[i] = table_dim;
    }
    inputs[ids] = ids_dim;
    inputs[ids + 1] = values_dim;
    return MakeSignature(factor, inputs, std::vector<int>(call.outputs.size(), rows_dim));
  };
  std::vector<Signature> signatures = {make("", kWhole, kWhole, kWhole, kWhole)};
  if (shards < 2) return signatures;
  const int rows = table.rank() - 2, columns = table.rank() - 1;
  const int column = call.inputs[ids + 1].shape.rank() - 1;
  if (table[columns] > 1) signatures.push_back(make("e", columns, kWhole, column, column));
  if (rows > 0 && table[0] > 1) signatures.push_back(make("g", 0, 0, 0, 0));
  if (table[rows] > 1) signatures.push_back(make("v", rows, kWhole, kWhole, kPartial));
  return signatures;
}

OpDef ValueForm(const OpDef& in_place) {
  OpDef op = in_place;
  op.name = absl::StrCat(in_place.name, "_value");
  op.inputs[0].updates = false;
  op.inputs.back().variadic = false;
  op.outputs = {{"value"}};
  op.joins = false;
  std::erase_if(op.cases, [&](const OpCase& c) { return c.inputs.size() < op.inputs.size(); });
  op.timing = NotTimed(kMovesBytes);
  return op;
}

absl::StatusOr<Types> InferValue(absl::string_view op, const OpCall& call, size_t inputs,
                                 size_t gradient, const absl::StatusOr<Types>& in_place) {
  RETURN_IF_ERROR(CheckCount(op, call, inputs));
  RETURN_IF_ERROR(in_place.status());
  return Types{call.inputs[gradient]};
}

Tensor FactorOr1(Tensor variable, Tensor factor) {
  return factor || !variable ? factor : Fill(variable.graph(), 1, {});
}

}  // namespace sluice
