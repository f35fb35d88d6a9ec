// What updates and the factors of their gradients share: checks, the rows forms, the forms that
// give a value. For the files of this package only.
//
// The rows forms touch only the rows named; rows named more than once are added first. Which these
// are they read from what `sort_ids` makes of the ids once a step, for all that read them: entries
// [.., 2] of an id and the place of its row among the values, 32 bits of both, ascending by id and
// then by place; of [groups, n, 2] each group's by themselves. In memory an entry is one number of
// 64 bits, the place below the id.
//
// An update in place has its variable and its state in one layout, as its index rule says. The
// forms "..._value" are for a state that lies otherwise: they change the state alone and give what
// the variable becomes (of the rows forms: each row named), laid out as the state is. `assign` puts
// that into the variable, and selection brings it there as it brings any tensor to its reader.
#ifndef SLUICE_FRAMEWORK_OPS_UPDATE_H_
#define SLUICE_FRAMEWORK_OPS_UPDATE_H_

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/ops/inference.h"
#include "framework/ops/reference.h"

namespace sluice {

inline absl::Status CheckScalar(absl::string_view op, absl::string_view port, DType dtype,
                                const TensorType& type) {
  return CheckType(op, port, {dtype, {}}, type);
}

// What gradients are multiplied by, and the sum of squares it comes from: f64 if those are.
inline absl::Status CheckStatistic(absl::string_view op, absl::string_view port,
                                   const TensorType& type) {
  if (type.dtype == DType::kF64) return CheckScalar(op, port, DType::kF64, type);
  return CheckScalar(op, port, DType::kF32, type);
}

// The gradient of `variable`: one dense tensor, or sorted ids and values.
absl::Status CheckGradient(absl::string_view op, const TensorType& variable,
                           absl::Span<const TensorType> gradient);

// A table is split by rows, which each shard picks out for itself, by columns, or by groups, whose
// ids go with them. Splitting ids within a group would leave each shard with its own rows only.
// Rows that are given are then each one shard's. `ids`: the port of the sorted ids; values stand
// behind.
absl::StatusOr<std::vector<Signature>> RowsSignatures(const OpCall& call, int64_t shards,
                                                      size_t ids);

// The form of an update that leaves its variable alone and gives what that becomes. It always has a
// state: without one nothing could lie otherwise than the variable.
OpDef ValueForm(const OpDef& in_place);
// Inference of such a form: what it gives is of the type of the gradient, or of its rows.
absl::StatusOr<Types> InferValue(absl::string_view op, const OpCall& call, size_t inputs,
                                 size_t gradient, const absl::StatusOr<Types>& in_place);

Tensor FactorOr1(Tensor variable, Tensor factor);

inline double ScalarOf(const ShardArray& shard) { return shard.array.values[0]; }

// What an update writes: its variable or, in a form that gives the value, a copy of it.
inline std::vector<double>& NewValue(const ReferenceCall& call) {
  if (call.outputs.empty()) return call.inputs[0].array.values;
  return call.outputs[0].array.values = call.inputs[0].array.values;
}

// What sorted ids say: the ids in order, and the row of each among the values of all groups.
struct SortedRows {
  Array ids;
  std::vector<int64_t> rows;
};
// Refuses ids that the table does not have, and places without values.
absl::StatusOr<SortedRows> RowsOf(const char* op, const ShardArray& table, const Array& sorted_ids);

// Calls update(gradient, place) for each element of the rows that the shard of a table holds.
template <typename F>
absl::Status ForEachRowElement(const char* op, const ShardArray& table,
                               const ShardArray& sorted_ids, const ShardArray& values, F&& update) {
  ASSIGN_OR_RETURN(const SortedRows sorted, RowsOf(op, table, sorted_ids.array));
  const int64_t width = RowLength(values.array);
  Shape shape = sorted.ids.shape;
  shape.Append(width);
  Array in_order(shape);
  for (size_t i = 0; i < sorted.rows.size(); ++i) {
    std::copy_n(values.array.values.begin() + sorted.rows[i] * width, width,
                in_order.values.begin() + static_cast<int64_t>(i) * width);
  }
  ForEachNamedRow(table, sorted.ids, in_order,
                  [&](const std::vector<double>& gradient, int64_t place) {
                    for (size_t e = 0; e < gradient.size(); ++e) update(gradient[e], place + e);
                  });
  return absl::OkStatus();
}

// fn(row, place): where the shard of a table holds what the id of this row of the values names;
// below 0, it does not.
template <typename F>
void ForEachRow(const ShardArray& table, const SortedRows& sorted, F&& fn) {
  const TableShard shard(table);
  const int64_t count = static_cast<int64_t>(sorted.rows.size());
  const int64_t per_group = std::max<int64_t>(count / std::max<int64_t>(shard.groups, 1), 1);
  for (int64_t i = 0; i < count; ++i) {
    fn(sorted.rows[i], shard.PlaceOf(i / per_group, static_cast<int64_t>(sorted.ids.values[i])));
  }
}

// Of the rows forms: runs `update` on the table or, in a form that gives the rows, on a copy, and
// gives each row named. A shard without a row gives the identity of the sum that follows.
template <typename F>
absl::Status UpdateRows(const char* op, const ReferenceCall& call, size_t ids_port, F&& update) {
  ShardArray& table = call.inputs[0];
  if (call.outputs.empty()) return update(&table.array.values);
  ASSIGN_OR_RETURN(const SortedRows sorted, RowsOf(op, table, call.inputs[ids_port].array));
  std::vector<double> changed = table.array.values;
  RETURN_IF_ERROR(update(&changed));
  const int64_t width = RowLength(table.array);
  std::vector<double>& rows = call.outputs[0].array.values;
  ForEachRow(table, sorted, [&](int64_t row, int64_t place) {
    for (int64_t e = 0; e < width; ++e) {
      rows[row * width + e] = place >= 0 ? changed[place + e] : -0.0;
    }
  });
  return absl::OkStatus();
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_UPDATE_H_
