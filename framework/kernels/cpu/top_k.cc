// How many logits of a row come before its label's.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {

// logits, labels, the label's logit; rank. A shard of a split vocabulary counts its own.
PreparedKernel PrepareLabelRank(const KernelSpec& spec) {
  const Shard& logits = spec.inputs[0];
  RETURN_IF_ERROR(RequireTypes(spec, {logits.dtype, DType::kI32, DType::kF32, DType::kF32}));
  const int last = logits.local.rank() - 1;
  const int64_t rows = NumRows(logits.local), held = logits.local[last];
  const int64_t whole = logits.logical[last], offset = logits.offset[last];
  const int64_t per_micro = logits.stride_per_micro[last];
  return OfFloat(spec, logits.dtype, [&]<typename T>(T) {
    return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
      const int32_t* const labels = at.at<int32_t>(1);
      for (int64_t r = 0; r < rows; ++r) {
        if (labels[r] >= 0 && labels[r] < whole) continue;
        return absl::OutOfRangeError(absl::StrCat("label_rank: expected labels in [0, ", whole,
                                                  "), got ", labels[r], " in row ", r));
      }
      const int64_t first = offset + context.micro * per_micro;
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
