// What the families share for the compile side of an op: building nodes, checking types, rules,
// costs. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_OPS_INFERENCE_H_
#define SLUICE_FRAMEWORK_OPS_INFERENCE_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/graph/graph.h"

namespace sluice {

using Types = std::vector<TensorType>;

// Adds a node; empty tensors, one per output, if any input is empty or the graph refuses.
std::vector<Tensor> Apply(const OpDef& op, Attributes attributes, std::vector<Tensor> inputs);
// The one output of an op with one.
Tensor ApplyOne(const OpDef& op, Attributes attributes, std::vector<Tensor> inputs);
// Whether all are there; the functions of ops.h look at shapes only then.
bool Present(absl::Span<const Tensor> tensors);
// Sets the graph's error, and gives an empty tensor.
Tensor Refuse(Tensor at, absl::string_view op, const std::string& what);

std::string TypeText(const TensorType& type);  // "f32[2,3]"

// "op: what"; the graph puts the node's scope path before it.
template <typename... Args>
absl::Status Mismatch(absl::string_view op, const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat(op, ": ", what...));
}
// A count of arithmetic, which is an estimate: at most what plans may say (plan/validate_places.h).
int64_t CountOf(std::initializer_list<int64_t> factors);
absl::Status CheckCount(absl::string_view op, const OpCall& call, size_t expected);
absl::Status CheckFloat(absl::string_view op, absl::string_view port, const TensorType& type);
absl::Status CheckIndices(absl::string_view op, absl::string_view port, const TensorType& type);
// Equal dtype and shape.
absl::Status CheckType(absl::string_view op, absl::string_view port, const TensorType& expected,
                       const TensorType& got);
absl::Status CheckDim(absl::string_view op, int64_t dim, const Shape& shape);
// A table is [rows, width], of which ids of any shape name rows, or [groups, rows, width], of which
// ids [groups, n] name rows of their own group.
absl::Status CheckTable(absl::string_view op, const TensorType& table);
absl::Status CheckTableIds(absl::string_view op, const TensorType& table, const TensorType& ids);
inline bool IsGrouped(const TensorType& table) { return table.shape.rank() == 3; }

// Statistics (mean, log-sum-exp, loss) are at least f32.
inline DType StatisticsType(DType dtype) { return dtype == DType::kF64 ? dtype : DType::kF32; }
// `shape` without its last `count` dimensions.
Shape Leading(const Shape& shape, int count);

// "abc": the names of dimensions in ops whose rank is not fixed.
char DimFactor(int dim);
std::string DimFactors(int rank);
// A signature along one axis: for each tensor its split dimension, kWhole or kOwed.
constexpr int kWhole = -1, kPartial = -2;
Signature MakeSignature(std::string factor, const std::vector<int>& inputs,
                        const std::vector<int>& outputs);

int64_t BytesOf(absl::Span<const TensorType> types);
// `flops_per_element` for every element of the largest operand, all operands moved once.
Cost ElementwiseCost(const OpCall& call, int64_t flops_per_element, int64_t scratch = 0);
// The same of an op that works on the rows, the last dimension, of this type.
Cost RowsCost(const OpCall& call, const TensorType& rows, int64_t flops_per_element,
              int64_t scratch = 0);
// Scratch for sums down columns, in blocks of rows (tensor/row_blocks.h): so many sums of each
// column, of so many rows, in each group.
int64_t BlockSumsScratch(int64_t groups, int64_t rows, int64_t columns, int64_t sums);
// Scratch for sorting ids, twice eight bytes each: where rows of one id are many threads' to add
// up, order is what keeps their sum the same.
int64_t SortScratch(const TensorType& ids);
// {rows, their length}
Shape RowSizes(const TensorType& type);

Gradient Dense(Tensor tensor);
// dy summed down to `shape`, which broadcast to it.
Tensor ReduceTo(Tensor dy, const Shape& shape);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_INFERENCE_H_
