// Batch normalization of [groups, rows.., channels].
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/column_sums.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

struct Extents {
  int64_t groups, rows, channels;  // rows of one group, of the shard
  double of_group;                 // rows of one group, of the logical tensor

  explicit Extents(const Shard& x) {
    const int last = x.local.rank() - 1;
    groups = x.local[0], channels = x.local[last], rows = 1;
    int64_t whole = 1;
    for (int d = 1; d < last; ++d) rows *= x.local[d], whole *= x.logical[d];
    of_group = static_cast<double>(whole);
  }
  ColumnSums sums(int64_t statistics) const { return {groups, rows, channels, statistics}; }
  int64_t of_groups() const { return groups * channels; }  // of a statistic
};

// fn(group, first, rows): runs of rows that are of one group; `first` counts through all of them.
template <typename F>
void ForRuns(const KernelContext& context, const Extents& x, F&& fn) {
  ParallelRows(context, x.groups * x.rows, x.channels, kCheapGrain,
               [&](int64_t begin, int64_t end) {
                 while (begin < end) {
                   const int64_t group = begin / x.rows;
                   const int64_t run = std::min(end, (group + 1) * x.rows) - begin;
                   fn(group, begin, run);
                   begin += run;
                 }
               });
}

// rstd of each group's channels, times the channel's gamma if there is one.
void Factors(const Extents& x, const float* variance, const float* gamma, float epsilon,
             float* factor) {
  Vectors().batch_statistics.rstd(variance, epsilon, factor, x.of_groups());
  for (int64_t g = 0; gamma != nullptr && g < x.groups; ++g) {
    float* const of_group = factor + g * x.channels;
    Vectors().f32.elementwise.multiply.both(of_group, gamma, of_group, x.channels);
  }
}

// OK if all are f32 but those listed, inputs and then outputs, which are of x's dtype.
absl::Status RequireOf(const KernelSpec& spec, DType dtype, std::initializer_list<size_t> wide) {
  for (size_t i = 0; i < spec.inputs.size() + spec.outputs.size(); ++i) {
    const bool input = i < spec.inputs.size();
    const Shard& shard = input ? spec.inputs[i] : spec.outputs[i - spec.inputs.size()];
    const bool of_x = std::find(wide.begin(), wide.end(), i) != wide.end();
    if (shard.dtype != (of_x ? dtype : DType::kF32)) return NoKernel(spec);
  }
  return absl::OkStatus();
}

absl::StatusOr<float> EpsilonOf(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const NormAttributes attributes,
                   ParseAttributes<NormAttributes>(spec.attributes));
  return static_cast<float>(attributes.epsilon);
}

}  // namespace

// x, mean; variance.
PreparedKernel PrepareBatchVariance(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireOf(spec, dtype, {0}));
  const Extents x(spec.inputs[0]);
  const ColumnSums blocks = x.sums(1);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [x, blocks](const KernelContext& context, const Operands& at) {
          const T* const from = at.at<T>(0);
          const float* const mean = at.at(1);
          float* const variance = at.at(2);
          const auto squares = [&](int64_t g, int64_t begin, int64_t end, float* to) {
            Vectors().of<T>().batch_norm.squares(from + (g * x.rows + begin) * x.channels,
                                                 mean + g * x.channels, to, end - begin,
                                                 x.channels);
          };
          blocks.Run(context, at.scratch<float>(), squares, [&](int64_t g, const float* sum) {
            Vectors().f32.elementwise.scale(sum, static_cast<float>(1 / x.of_group),
                                            variance + g * x.channels, x.channels);
          });
        },
        blocks.scratch());
  });
}

// x, mean, variance, gamma, beta; y.
PreparedKernel PrepareBatchNorm(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireOf(spec, dtype, {0, 5}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[0]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [x, epsilon](const KernelContext& context, const Operands& at) {
          float* const factor = at.scratch<float>();
          Factors(x, at.at(2), at.at(3), epsilon, factor);
          ForRuns(context, x, [&](int64_t g, int64_t first, int64_t rows) {
            const int64_t of_group = g * x.channels, begin = first * x.channels;
            Vectors().of<T>().batch_norm.normalize(at.at<T>(0) + begin, at.at(1) + of_group,
                                                   factor + of_group, at.at(4), at.at<T>(5) + begin,
                                                   rows, x.channels);
          });
        },
        x.of_groups() * 4);
  });
}

// dy, x, mean, variance; dgamma, dbeta.
PreparedKernel PrepareBatchNormParameterGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireOf(spec, dtype, {0, 1}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[1]);
  const ColumnSums blocks = x.sums(2);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [x, blocks, epsilon](const KernelContext& context, const Operands& at) {
          float *const rstd = at.scratch<float>(), *const dgamma = at.at(4),
                       *const dbeta = at.at(5);
          Factors(x, at.at(3), nullptr, epsilon, rstd);
          const auto sums = [&](int64_t g, int64_t begin, int64_t end, float* to) {
            const int64_t first = (g * x.rows + begin) * x.channels;
            Vectors().of<T>().batch_norm.sums(at.at<T>(0) + first, at.at<T>(1) + first,
                                              at.at(2) + g * x.channels, to, to + x.channels,
                                              end - begin, x.channels);
          };
          blocks.Run(context, rstd + x.of_groups(), sums, [&](int64_t g, const float* sum) {
            const int64_t of_group = g * x.channels;
            Vectors().f32.elementwise.multiply.both(sum, rstd + of_group, dgamma + of_group,
                                                    x.channels);
            std::copy_n(sum + x.channels, x.channels, dbeta + of_group);
          });
        },
        x.of_groups() * 4 + blocks.scratch());
  });
}

// dy, x, mean, variance, gamma, dgamma, dbeta; dx.
PreparedKernel PrepareBatchNormGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireOf(spec, dtype, {0, 1, 7}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[1]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [x, epsilon](const KernelContext& context, const Operands& at) {
          const int64_t n = x.of_groups();
          float *const factor = at.scratch<float>(), *const shift = factor + n,
                       *const slope = shift + n;
          const auto& loops = Vectors().f32.elementwise;
          const float share = static_cast<float>(1 / x.of_group);
          Factors(x, at.at(3), nullptr, epsilon, slope);
          loops.multiply.both(slope, at.at(5), slope, n);
          loops.scale(slope, share, slope, n);
          loops.scale(at.at(6), share, shift, n);
          Factors(x, at.at(3), at.at(4), epsilon, factor);
          ForRuns(context, x, [&](int64_t g, int64_t first, int64_t rows) {
            const int64_t own = g * x.channels, begin = first * x.channels;
            Vectors().of<T>().batch_norm.gradient(
                at.at<T>(0) + begin, at.at<T>(1) + begin, at.at(2) + own, factor + own, shift + own,
                slope + own, at.at<T>(7) + begin, rows, x.channels);
          });
        },
        3 * x.of_groups() * 4);
  });
}

// variable, value.
PreparedKernel PrepareMovingAverage(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const AverageAttributes attributes,
                   ParseAttributes<AverageAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  const float kept = static_cast<float>(1 - attributes.momentum);
  const float momentum = static_cast<float>(attributes.momentum);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
      Vectors().batch_statistics.moving_average(kept, momentum, at.at(1) + begin, at.at(0) + begin,
                                                end - begin);
    });
  });
}

}  // namespace sluice::cpu
