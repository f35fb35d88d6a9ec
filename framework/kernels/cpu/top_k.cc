// How many logits of a row come before its label's.
#include <algorithm>

#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/classes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {

// logits, labels, the label's logit; rank. A shard of a split vocabulary counts its own.
PreparedKernel PrepareLabelRank(const KernelSpec& spec) {
  const Shard& logits = spec.inputs[0];
  RETURN_IF_ERROR(RequireTypes(spec, {logits.dtype, DType::kI32, DType::kF32, DType::kF32}));
  const int64_t rows = NumRows(logits.local);
  const Classes classes(logits);
  return OfFloat(spec, logits.dtype, [&]<typename T>(T) {
    return MakeKernel(
        [rows, classes](const KernelContext& context, const Operands& at) -> absl::Status {
          const int32_t* const labels = at.at<int32_t>(1);
          RETURN_IF_ERROR(CheckLabels("label_rank", labels, rows, classes.whole));
          const int64_t first = classes.BeginAt(context.micro), held = classes.held;
          ParallelRows(context, rows, held, kCheapGrain, [&](int64_t begin, int64_t end) {
            const CrossEntropyVector<T>& loops = Vectors().of<T>().cross_entropy;
            for (int64_t r = begin; r < end; ++r) {
              const T* const row = at.at<T>(0) + r * held;
              const float than = at.at(2)[r];
              const int64_t before = std::clamp<int64_t>(labels[r] - first, 0, held);
              at.at(3)[r] = loops.not_below(row, than, before) +
                            loops.not_at_most(row + before, than, held - before);
            }
          });
          return absl::OkStatus();
        });
  });
}

}  // namespace sluice::cpu
