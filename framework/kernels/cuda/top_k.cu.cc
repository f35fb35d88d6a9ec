// How many logits of a row come before its label's.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/held_classes.h"

namespace sluice::cuda {
namespace {

// Before the label those count that are not below its logit, behind it those that are not at most
// that; NaN is neither. Sums of ones are exact, in any order.
template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    RankRows(Rows rows, const T* logits, const int32_t* labels, const float* of_label, float* rank,
             HeldClasses classes, DeviceErrors errors) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  logits += r * rows.length;
  const float than = of_label[r];
  const int64_t column = classes.ColumnOf(labels[r], r, row.IsFirst(), errors);
  const float count = row.template Sum<kPack<T>>(rows, [&]<int n>(int64_t i, float(&term)[n]) {
    Load(logits + i, term);
    for (int e = 0; e < n; ++e) {
      const bool behind = i + e < column ? term[e] < than : term[e] <= than;
      term[e] = behind ? 0.0f : 1.0f;
    }
  });
  if (row.IsFirst()) rank[r] = count;
}

}  // namespace

// logits, labels, the label's logit; rank. A shard of a split vocabulary counts its own.
PreparedKernel PrepareLabelRank(const KernelSpec& spec) {
  const Shard& logits = spec.inputs[0];
  RETURN_IF_ERROR(RequireTypes(spec, {logits.dtype, DType::kI32, DType::kF32, DType::kF32}));
  const int64_t rows = NumRows(logits.local);
  const Classes classes(logits);
  return OfFloat(spec, logits.dtype, [&]<typename T>(T) {
    return MakeKernel([rows, classes](const KernelContext& context, const Operands& at) {
      const T* const scores = at.at<T>(0);
      return LaunchRows(context, RowsOf<T>(rows, classes.held, scores), RankRows<WarpRow, T>,
                        RankRows<BlockRow, T>, scores, at.at<int32_t>(1), at.at(2), at.at(3),
                        HeldClasses(classes, context.micro), StreamOf(context).errors());
    });
  });
}

}  // namespace sluice::cuda
