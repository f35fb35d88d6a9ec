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
  ChannelNorm NormOf(int64_t group, const float* mean, const float* factor,
                     const float* beta) const {
    return {mean + group * channels, factor + group * channels, beta};
  }
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
absl::Status RequireOf(const KernelSpec& spec, DType dtype, std::initializer_list<int> wide) {
  for (size_t i = 0; i < spec.inputs.size() + spec.outputs.size(); ++i) {
    const bool input = i < spec.inputs.size();
    const Shard& shard = input ? spec.inputs[i] : spec.outputs[i - spec.inputs.size()];
    const bool of_x = std::find(wide.begin(), wide.end(), static_cast<int>(i)) != wide.end();
    if (shard.dtype != (of_x ? dtype : DType::kF32)) return NoKernel(spec);
  }
  return absl::OkStatus();
}

absl::StatusOr<float> EpsilonOf(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const NormAttributes attributes,
                   ParseAttributes<NormAttributes>(spec.attributes));
  return static_cast<float>(attributes.epsilon);
}

// y of x, mean, variance, gamma and beta, and then the addend if there is one; `loop` gives the one
// of a table of loops.
template <typename Loop>
PreparedKernel PrepareNormalize(const KernelSpec& spec, Loop&& loop) {
  const DType dtype = spec.inputs[0].dtype;
  const bool adds = spec.inputs.size() > 5;
  RETURN_IF_ERROR(adds ? RequireOf(spec, dtype, {0, 5, 6}) : RequireOf(spec, dtype, {0, 5}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[0]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    const NormalizeLoop<T> run = loop(Vectors().of<T>().batch_norm);
    return MakeKernel(
        [x, adds, epsilon, run](const KernelContext& context, const Operands& at) {
          float* const factor = at.scratch<float>();
          Factors(x, at.at(2), at.at(3), epsilon, factor);
          const T* const addend = adds ? at.at<T>(5) : nullptr;
          ForRuns(context, x, [&](int64_t g, int64_t first, int64_t rows) {
            const int64_t begin = first * x.channels;
            run(at.at<T>(0) + begin, x.NormOf(g, at.at(1), factor, at.at(4)),
                adds ? addend + begin : nullptr, at.at<T>(adds ? 6 : 5) + begin, rows, x.channels);
          });
        },
        x.of_groups() * 4);
  });
}

// dgamma and dbeta, the operands from `outputs` on. sums(at, factor, group,
// begin, rows, dgamma, dbeta) adds up rows of a group, the first of which begins at that element;
// factor is that of what normalizes if there is a gamma.
template <typename Sums>
PreparedKernel MakeParameterGradient(const Extents& x, float epsilon, int variance, int gamma,
                                     int outputs, Sums sums) {
  const ColumnSums blocks = x.sums(2);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) {
        float *const rstd = at.scratch<float>(), *const factor = rstd + x.of_groups();
        float *const dgamma = at.at(outputs), *const dbeta = at.at(outputs + 1);
        Factors(x, at.at(variance), nullptr, epsilon, rstd);
        if (gamma > 0) Factors(x, at.at(variance), at.at(gamma), epsilon, factor);
        const auto add = [&](int64_t g, int64_t begin, int64_t end, float* to) {
          sums(at, factor, g, (g * x.rows + begin) * x.channels, end - begin, to, to + x.channels);
        };
        blocks.Run(context, factor + x.of_groups(), add, [&](int64_t g, const float* sum) {
          const int64_t of_group = g * x.channels;
          Vectors().f32.elementwise.multiply.both(sum, rstd + of_group, dgamma + of_group,
                                                  x.channels);
          std::copy_n(sum + x.channels, x.channels, dbeta + of_group);
        });
      },
      2 * x.of_groups() * 4 + blocks.scratch());
}

// dx of dy, x, mean, variance, gamma, beta if `rectified`, dgamma and dbeta.
template <bool rectified>
PreparedKernel PrepareGradient(const KernelSpec& spec) {
  constexpr int kSums = rectified ? 6 : 5;  // where dgamma and dbeta stand
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireOf(spec, dtype, {0, 1, kSums + 2}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[1]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [x, epsilon](const KernelContext& context, const Operands& at) {
          const int64_t n = x.of_groups();
          float *const factor = at.scratch<float>(), *const shift = factor + n,
                       *const slope = shift + n;
          const auto& loops = Vectors().f32.elementwise;
          const auto& norms = Vectors().of<T>().batch_norm;
          const auto run = rectified ? norms.relu_gradient : norms.gradient;
          const float share = static_cast<float>(1 / x.of_group);
          Factors(x, at.at(3), nullptr, epsilon, slope);
          loops.multiply.both(slope, at.at(kSums), slope, n);
          loops.scale(slope, share, slope, n);
          loops.scale(at.at(kSums + 1), share, shift, n);
          Factors(x, at.at(3), at.at(4), epsilon, factor);
          const float* const beta = rectified ? at.at(5) : nullptr;
          ForRuns(context, x, [&](int64_t g, int64_t first, int64_t rows) {
            const int64_t own = g * x.channels, begin = first * x.channels;
            run(at.at<T>(0) + begin, at.at<T>(1) + begin, x.NormOf(g, at.at(2), factor, beta),
                shift + own, slope + own, at.at<T>(kSums + 2) + begin, rows, x.channels);
          });
        },
        3 * x.of_groups() * 4);
  });
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
  return PrepareNormalize(spec, [](const auto& loops) { return loops.normalize; });
}
PreparedKernel PrepareBatchNormRelu(const KernelSpec& spec) {
  return PrepareNormalize(spec, [](const auto& loops) { return loops.normalize_relu; });
}

// x, mean, variance, gamma, beta, addend; y.
PreparedKernel PrepareBatchNormAdd(const KernelSpec& spec) {
  return PrepareNormalize(spec, [](const auto& loops) { return loops.normalize_add; });
}
PreparedKernel PrepareBatchNormAddRelu(const KernelSpec& spec) {
  return PrepareNormalize(spec, [](const auto& loops) { return loops.normalize_add_relu; });
}

// dy, x, mean, variance; dgamma, dbeta.
PreparedKernel PrepareBatchNormParameterGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireOf(spec, dtype, {0, 1}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[1]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeParameterGradient(x, epsilon, 3, 0, 4,
                                 [x](const Operands& at, const float*, int64_t g, int64_t first,
                                     int64_t rows, float* dgamma, float* dbeta) {
                                   Vectors().of<T>().batch_norm.sums(
                                       at.at<T>(0) + first, at.at<T>(1) + first,
                                       at.at(2) + g * x.channels, dgamma, dbeta, rows, x.channels);
                                 });
  });
}

// dy, x, mean, variance, gamma, beta; dgamma, dbeta.
PreparedKernel PrepareBatchNormReluParameterGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireOf(spec, dtype, {0, 1}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[1]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeParameterGradient(x, epsilon, 3, 4, 6,
                                 [x](const Operands& at, const float* factor, int64_t g,
                                     int64_t first, int64_t rows, float* dgamma, float* dbeta) {
                                   Vectors().of<T>().batch_norm.relu_sums(
                                       at.at<T>(0) + first, at.at<T>(1) + first,
                                       x.NormOf(g, at.at(2), factor, at.at(5)), dgamma, dbeta, rows,
                                       x.channels);
                                 });
  });
}

// y, x, mean, variance, one or two terms of dy; dgamma, dbeta, dz.
PreparedKernel PrepareBatchNormAddReluParameterGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  const bool two = spec.inputs.size() > 5;
  RETURN_IF_ERROR(two ? RequireOf(spec, dtype, {0, 1, 4, 5, 8})
                      : RequireOf(spec, dtype, {0, 1, 4, 7}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[1]);
  const int outputs = static_cast<int>(spec.inputs.size());
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeParameterGradient(
        x, epsilon, 3, 0, outputs,
        [x, two, outputs](const Operands& at, const float*, int64_t g, int64_t first, int64_t rows,
                          float* dgamma, float* dbeta) {
          const ReluGradients<T> relu = {at.at<T>(0) + first, at.at<T>(4) + first,
                                         two ? at.at<T>(5) + first : nullptr,
                                         at.at<T>(outputs + 2) + first};
          Vectors().of<T>().batch_norm.add_relu_sums(relu, at.at<T>(1) + first,
                                                     at.at(2) + g * x.channels, dgamma, dbeta, rows,
                                                     x.channels);
        });
  });
}

// dy, x, mean, variance, gamma, dgamma, dbeta; dx.
PreparedKernel PrepareBatchNormGradient(const KernelSpec& spec) {
  return PrepareGradient<false>(spec);
}

// dy, x, mean, variance, gamma, beta, dgamma, dbeta; dx.
PreparedKernel PrepareBatchNormReluGradient(const KernelSpec& spec) {
  return PrepareGradient<true>(spec);
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
