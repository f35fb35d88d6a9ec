// Margins at the labels' classes of scaled cosines. A shard of split classes has the labels of its
// own range; the others are some other shard's.
#include <algorithm>
#include <cmath>

#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/classes.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/tensor/array.h"

namespace sluice::cpu {
namespace {

#define SLUICE_INLINE inline
#include "framework/kernels/margin.inc"
#undef SLUICE_INLINE

// A row `from`, scaled into `to`, but for the label's element, which `at_label` makes; that is read
// before `to` may take the place of `from`.
template <typename T, typename AtLabel>
void ScaleRow(const T* from, int64_t width, int64_t column, double scale, AtLabel&& at_label,
              T* to) {
  const DType dtype = std::is_same_v<T, float> ? DType::kF32 : DType::kBF16;
  const bool held = column >= 0 && column < width;
  const double of_label =
      held ? LoadElement(dtype, reinterpret_cast<const std::byte*>(from), column) : 0;
  Vectors().of<T>().elementwise.scale(from, static_cast<float>(scale), to, width);
  if (held) StoreElement(dtype, reinterpret_cast<std::byte*>(to), column, at_label(of_label));
}

}  // namespace

// cosine, labels; logits.
PreparedKernel PrepareMarginLogits(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kI32, dtype}));
  ASSIGN_OR_RETURN(const Margin margin, MarginOf(spec));
  const int64_t rows = NumRows(spec.inputs[0].local);
  const Classes classes(spec.inputs[0]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [rows, classes, margin](const KernelContext& context, const Operands& at) -> absl::Status {
          const int32_t* labels = at.at<int32_t>(1);
          RETURN_IF_ERROR(CheckLabels("margin_logits", labels, rows, classes.whole));
          const int64_t width = classes.held, first = classes.BeginAt(context.micro);
          ParallelRows(context, rows, width, kCheapGrain, [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) {
              ScaleRow(
                  at.at<T>(0) + r * width, width, labels[r] - first, margin.scale,
                  [&](double cosine) { return margin.Logit(cosine); }, at.at<T>(2) + r * width);
            }
          });
          return absl::OkStatus();
        });
  });
}

// logits, labels, dlogits; dcosine.
PreparedKernel PrepareMarginLogitsGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kI32, dtype, dtype}));
  ASSIGN_OR_RETURN(const Margin margin, MarginOf(spec));
  const int64_t rows = NumRows(spec.inputs[0].local);
  const Classes classes(spec.inputs[0]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, classes, margin, dtype](const KernelContext& context,
                                                     const Operands& at) -> absl::Status {
      const int32_t* labels = at.at<int32_t>(1);
      RETURN_IF_ERROR(CheckLabels("margin_logits_gradient", labels, rows, classes.whole));
      const int64_t width = classes.held, first = classes.BeginAt(context.micro);
      ParallelRows(context, rows, width, kCheapGrain, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const int64_t column = labels[r] - first;
          const bool held = column >= 0 && column < width;
          // Read before dcosine may take the place of the logits.
          const double logit = held ? LoadElement(dtype, at.bytes(0), r * width + column) : 0;
          ScaleRow(
              at.at<T>(2) + r * width, width, column, margin.scale,
              [&](double dlogit) { return margin.scale * margin.Factor(logit) * dlogit; },
              at.at<T>(3) + r * width);
        }
      });
      return absl::OkStatus();
    });
  });
}

}  // namespace sluice::cpu
