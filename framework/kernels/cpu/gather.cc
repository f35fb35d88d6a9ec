// Rows of each sample by their positions, and the way back. A shard of samples that are split by
// positions gives zeros for the rows of other shards.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/rows.h"

namespace sluice::cpu {
namespace {

// x [batch, time, width], positions [batch, count], y [batch, count, width].
struct Gathered {
  TableRows times;  // of x
  int64_t batch, count, width;
  Gathered(const Shard& x, const Shard& y)
      : times(x, 1), batch(y.local[0]), count(y.local[1]), width(y.local[2]) {}
  // Where in x the row of y's row `i` begins; -1: in another shard.
  int64_t At(int64_t i, int32_t position, int64_t first) const {
    const int64_t row = position - first;
    return row < 0 || row >= times.held ? -1 : (i / count * times.held + row) * width;
  }
};

}  // namespace

PreparedKernel PrepareBatchGather(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kI32, dtype}));
  const Gathered of(spec.inputs[0], spec.outputs[0]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([of](const KernelContext& context, const Operands& at) -> absl::Status {
      const T* x = at.at<T>(0);
      const int32_t* positions = at.at<int32_t>(1);
      T* y = at.at<T>(2);
      const int64_t rows = of.batch * of.count, first = of.times.BeginAt(context.micro);
      RETURN_IF_ERROR(CheckIds("batch_gather", positions, rows, of.times.whole));
      if (of.width == 0) return absl::OkStatus();  // a shard without columns has no bytes either
      ParallelRows(context, rows, of.width, kCheapGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t from = of.At(i, positions[i], first);
          if (from >= 0) {
            std::memcpy(y + i * of.width, x + from, of.width * sizeof(T));
          } else {
            std::memset(y + i * of.width, 0, of.width * sizeof(T));
          }
        }
      });
      return absl::OkStatus();
    });
  });
}

// Rows of one position are added in their order. Threads take samples.
PreparedKernel PrepareBatchGatherGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {0}));
  const Gathered of(spec.outputs[0], spec.inputs[1]);
  return MakeKernel([of](const KernelContext& context, const Operands& at) -> absl::Status {
    const int32_t* positions = at.at<int32_t>(0);
    const float* dy = at.at(1);
    float* dx = at.at(2);
    const int64_t first = of.times.BeginAt(context.micro);
    RETURN_IF_ERROR(
        CheckIds("batch_gather_gradient", positions, of.batch * of.count, of.times.whole));
    const BinaryLoop<float> add = Vectors().f32.elementwise.add.both;
    const int64_t sample = of.times.held * of.width;
    ParallelRows(context, of.batch, sample, kCheapGrain, [&](int64_t begin, int64_t end) {
      Vectors().arithmetic.fill(0, dx + begin * sample, (end - begin) * sample);
      for (int64_t i = begin * of.count; i < end * of.count; ++i) {
        const int64_t to = of.At(i, positions[i], first);
        if (to >= 0) add(dx + to, dy + i * of.width, dx + to, of.width);
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace sluice::cpu
