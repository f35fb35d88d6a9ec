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
    RankRows(const T* logits, const int32_t* labels, const float* of_label, float* rank,
             HeldClasses classes, int64_t rows, DeviceErrors errors) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  logits += r * classes.held;
  const float than = of_label[r];
  const int64_t column = classes.ColumnOf(labels[r], r, row.IsFirst(), errors);
  const float count = row.Sum(classes.held, [&](int64_t i) {
    const float x = Widen(logits[i]);
    const bool behind = i < column ? x < than : x <= than;
    return behind ? 0.0f : 1.0f;
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
      return LaunchRows(context, rows, classes.held, RankRows<WarpRow, T>, RankRows<BlockRow, T>,
                        at.at<T>(0), at.at<int32_t>(1), at.at(2), at.at(3),
                        HeldClasses(classes, context.micro), rows, StreamOf(context).errors());
    });
  });
}

}  // namespace sluice::cuda
