#include "framework/ops/inference.h"

#include <algorithm>
#include <utility>

#include "framework/ops/ops.h"
#include "framework/tensor/row_blocks.h"

namespace sluice {

bool Present(absl::Span<const Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const Tensor& tensor) { return static_cast<bool>(tensor); });
}

std::vector<Tensor> Apply(const OpDef& op, Attributes attributes, std::vector<Tensor> inputs) {
  std::vector<Tensor> outputs;
  if (!inputs.empty() && Present(inputs)) {
    Graph* graph = inputs[0].graph();
    outputs = graph->Add(op, std::move(attributes), std::move(inputs));
  }
  outputs.resize(op.outputs.size());
  return outputs;
}

Tensor ApplyOne(const OpDef& op, Attributes attributes, std::vector<Tensor> inputs) {
  return Apply(op, std::move(attributes), std::move(inputs))[0];
}

Tensor Refuse(Tensor at, absl::string_view op, const std::string& what) {
  Graph* graph = at.graph();
  graph->SetError(Mismatch(op, what), graph->node(graph->tensor(at.id()).producer).name);
  return Tensor();
}

std::string TypeText(const TensorType& type) {
  return absl::StrCat(DTypeName(type.dtype), type.shape.ToString());
}

absl::Status CheckCount(absl::string_view op, const OpCall& call, size_t expected) {
  if (call.inputs.size() == expected) return absl::OkStatus();
  return Mismatch(op, "expected ", expected, " inputs, got ", call.inputs.size());
}

absl::Status CheckFloat(absl::string_view op, absl::string_view port, const TensorType& type) {
  if (IsFloat(type.dtype)) return absl::OkStatus();
  return Mismatch(op, "expected a float type for ", port, ", got ", TypeText(type));
}

absl::Status CheckIndices(absl::string_view op, absl::string_view port, const TensorType& type) {
  if (type.dtype == DType::kI32) return absl::OkStatus();
  return Mismatch(op, "expected i32 for ", port, ", got ", TypeText(type));
}

absl::Status CheckType(absl::string_view op, absl::string_view port, const TensorType& expected,
                       const TensorType& got) {
  if (got == expected) return absl::OkStatus();
  return Mismatch(op, "expected ", TypeText(expected), " for ", port, ", got ", TypeText(got));
}

absl::Status CheckTable(absl::string_view op, const TensorType& table) {
  RETURN_IF_ERROR(CheckFloat(op, "the table", table));
  if (table.shape.rank() == 2 || table.shape.rank() == 3) return absl::OkStatus();
  return Mismatch(op, "expected a table of [rows,width] or [groups,rows,width], got ",
                  TypeText(table));
}

absl::Status CheckTableIds(absl::string_view op, const TensorType& table, const TensorType& ids) {
  RETURN_IF_ERROR(CheckTable(op, table));
  RETURN_IF_ERROR(CheckIndices(op, "ids", ids));
  if (!IsGrouped(table) || (ids.shape.rank() == 2 && ids.shape[0] == table.shape[0])) {
    return absl::OkStatus();
  }
  return Mismatch(op, "expected ids of [", table.shape[0],
                  ",n], a row for each group of the table ", TypeText(table), ", got ",
                  TypeText(ids));
}

absl::Status CheckDim(absl::string_view op, int64_t dim, const Shape& shape) {
  if (dim >= 0 && dim < shape.rank()) return absl::OkStatus();
  return Mismatch(op, "expected a dimension of ", shape.ToString(), ", got ", dim);
}

Shape Leading(const Shape& shape, int count) {
  return Shape(shape.dims().subspan(0, shape.rank() - count));
}

char DimFactor(int dim) { return static_cast<char>('a' + dim); }

std::string DimFactors(int rank) {
  std::string factors;
  for (int d = 0; d < rank; ++d) factors += DimFactor(d);
  return factors;
}

Signature MakeSignature(std::string factor, const std::vector<int>& inputs,
                        const std::vector<int>& outputs) {
  const auto to_sbp = [](int code) {
    return code == kWhole ? Sbp::B() : code == kPartial ? Sbp::P() : Sbp::S(code);
  };
  Signature signature;
  signature.factor = std::move(factor);
  for (int code : inputs) signature.inputs.push_back(to_sbp(code));
  for (int code : outputs) signature.outputs.push_back(to_sbp(code));
  return signature;
}

int64_t CountOf(std::initializer_list<int64_t> factors) {
  constexpr int64_t kMost = int64_t{1} << 56;
  int64_t count = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(count, factor, &count)) return kMost;
  }
  return std::min(count, kMost);
}

int64_t BytesOf(absl::Span<const TensorType> types) {
  int64_t bytes = 0;
  for (const TensorType& type : types) bytes += type.shape.NumElements() * SizeOf(type.dtype);
  return bytes;
}

Cost ElementwiseCost(const OpCall& call, int64_t flops_per_element, int64_t scratch) {
  int64_t elements = 0;
  for (const TensorType& type : call.inputs) {
    elements = std::max(elements, type.shape.NumElements());
  }
  for (const TensorType& type : call.outputs) {
    elements = std::max(elements, type.shape.NumElements());
  }
  const int64_t bytes = BytesOf(call.inputs) + BytesOf(call.outputs);
  return {elements * flops_per_element, bytes, scratch, {bytes}};
}

int64_t SortScratch(const TensorType& ids) {
  return CountOf({16, ids.shape.NumElements() + 8});  // each half begins at a multiple of 64 bytes
}

Shape RowSizes(const TensorType& type) {
  const int64_t length = type.shape.rank() == 0 ? 1 : type.shape[type.shape.rank() - 1];
  return {length == 0 ? 0 : type.shape.NumElements() / length, length};
}

Cost RowsCost(const OpCall& call, const TensorType& rows, int64_t flops_per_element,
              int64_t scratch) {
  Cost cost = ElementwiseCost(call, flops_per_element, scratch);
  cost.sizes = RowSizes(rows);
  return cost;
}

int64_t BlockSumsScratch(int64_t groups, int64_t rows, int64_t columns, int64_t sums) {
  return CountOf({4, groups, RowBlocks(rows, columns).blocks, columns, sums});
}

Gradient Dense(Tensor tensor) {
  Gradient gradient;
  gradient.kind = Gradient::kDense;
  gradient.tensors = {tensor};
  return gradient;
}

Tensor ReduceTo(Tensor dy, const Shape& shape) {
  if (!dy || dy.shape() == shape) return dy;
  const int missing = dy.shape().rank() - shape.rank();
  Shape dims;
  for (int d = 0; d < dy.shape().rank(); ++d) {
    if (d < missing || (shape[d - missing] == 1 && dy.shape()[d] != 1)) dims.Append(d);
  }
  return Reshape(ReduceSum(dy, dims), shape);
}

}  // namespace sluice
