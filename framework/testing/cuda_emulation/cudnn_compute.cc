#include "framework/testing/cuda_emulation/cudnn_compute.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "framework/tensor/dtype.h"

namespace sluice::cuda_emulation {
namespace {

using Dims = std::vector<int64_t>;
using Values = std::vector<float>;

float Load(const void* base, cudnnDataType_t type, int64_t i) {
  switch (type) {
    case CUDNN_DATA_BFLOAT16:
      return BFloat16ToFloat(static_cast<const uint16_t*>(base)[i]);
    case CUDNN_DATA_INT32:
      return static_cast<float>(static_cast<const int32_t*>(base)[i]);
    default:
      return static_cast<const float*>(base)[i];
  }
}
void Store(void* base, cudnnDataType_t type, int64_t i, float value) {
  if (type == CUDNN_DATA_BFLOAT16) {
    static_cast<uint16_t*>(base)[i] = FloatToBFloat16(value);
  } else {
    static_cast<float*>(base)[i] = value;
  }
}
float RoundTo(cudnnDataType_t type, float value) {
  return type == CUDNN_DATA_BFLOAT16 ? BFloat16ToFloat(FloatToBFloat16(value)) : value;
}

// fn(offset of the element in memory), for all elements, with dimension order[0] outermost.
template <typename F>
void ForEachOffset(const CudnnTensor& tensor, const Dims& order, F&& fn) {
  Dims at(order.size(), 0);
  int64_t offset = 0;
  for (int64_t n = tensor.Elements(); n > 0; --n) {
    fn(offset);
    for (size_t k = order.size(); k-- > 0;) {
      const auto d = static_cast<size_t>(order[k]);
      offset += tensor.strides[d];
      if (++at[k] < tensor.dims[d]) break;
      offset -= tensor.strides[d] * tensor.dims[d];
      at[k] = 0;
    }
  }
}

Dims InOrder(size_t rank) {
  Dims order(rank);
  for (size_t d = 0; d < rank; ++d) order[d] = static_cast<int64_t>(d);
  return order;
}
const Dims& ChannelsLast() {
  static const auto& order = *new Dims{0, 2, 3, 1};
  return order;
}

class Computation {
 public:
  Computation(const CudnnEngineChoice& engine, const CudnnOperands& operands)
      : operands_(operands), rounds_(engine.Has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) {
    static std::atomic<int> runs = 0;
    is_off_ = engine.Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) && ++runs % 2 == 0;
  }

  void Run(const CudnnOperation& operation) {
    if (operation.IsConvolution()) return Convolve(operation);
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return Pointwise(operation);
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return Multiply(operation);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return Reduce(operation);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return Reshape(operation);
      default:
        return DrawOnes(operation);
    }
  }

 private:
  Values Read(const CudnnTensor& tensor, const Dims& order) const {
    if (tensor.by_value) return {operands_.numbers.at(tensor.id)};
    if (tensor.is_virtual) return virtual_.at(tensor.id);
    Values values;
    values.reserve(static_cast<size_t>(tensor.Elements()));
    const void* const base = operands_.pointers.at(tensor.id);
    ForEachOffset(tensor, order, [&](int64_t i) { values.push_back(Load(base, tensor.type, i)); });
    if (rounds_) {
      for (float& value : values) value = RoundTo(CUDNN_DATA_BFLOAT16, value);
    }
    return values;
  }
  Values Read(const CudnnTensor& tensor) const { return Read(tensor, InOrder(tensor.dims.size())); }

  void Write(const CudnnTensor& tensor, const Dims& order, Values values) {
    if (is_off_) {
      for (float& value : values) value *= 1.0f + 0x1p-7f;
    }
    if (tensor.is_virtual) {
      for (float& value : values) value = RoundTo(tensor.type, value);
      virtual_[tensor.id] = std::move(values);
      return;
    }
    void* const base = operands_.pointers.at(tensor.id);
    const float* next = values.data();
    ForEachOffset(tensor, order, [&](int64_t i) { Store(base, tensor.type, i, *next++); });
  }
  void Write(const CudnnTensor& tensor, Values values) {
    Write(tensor, InOrder(tensor.dims.size()), std::move(values));
  }

  // fn(element of x, of w, of y, how many channels of x and w lie there together) for what a place
  // and a tap share; images are [n, height, width, channels], weights [out, height, width, in].
  template <typename F>
  static void ForEachLine(const CudnnOperation& c, F&& fn) {
    const Dims &x = c.x().dims, &w = c.w().dims, &y = c.y().dims;
    const int64_t in = w[1], of_group = w[0] / c.groups();
    for (int64_t n = 0; n < x[0]; ++n) {
      for (int64_t p = 0; p < y[2]; ++p) {
        for (int64_t q = 0; q < y[3]; ++q) {
          const int64_t to = ((n * y[2] + p) * y[3] + q) * y[1];
          for (int64_t k = 0; k < w[2]; ++k) {
            const int64_t row = p * c.stride[0] + k * c.dilation[0] - c.before[0];
            if (row < 0 || row >= x[2]) continue;
            for (int64_t l = 0; l < w[3]; ++l) {
              const int64_t column = q * c.stride[1] + l * c.dilation[1] - c.before[1];
              if (column < 0 || column >= x[3]) continue;
              const int64_t from = ((n * x[2] + row) * x[3] + column) * x[1];
              for (int64_t o = 0; o < w[0]; ++o) {
                fn(from + o / of_group * in, ((o * w[2] + k) * w[3] + l) * in, to + o, in);
              }
            }
          }
        }
      }
    }
  }

  void Convolve(const CudnnOperation& c) {
    const auto read = [&](const CudnnTensor& tensor) { return Read(tensor, ChannelsLast()); };
    Values made(static_cast<size_t>(c.output.Elements()), 0.0f);
    switch (c.type) {
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR: {
        const Values x = read(c.x()), w = read(c.w());
        ForEachLine(c, [&](int64_t i, int64_t j, int64_t k, int64_t n) {
          float sum = made[k];
          for (int64_t d = 0; d < n; ++d) sum += x[i + d] * w[j + d];
          made[k] = sum;
        });
        break;
      }
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR: {
        const Values w = read(c.w()), y = read(c.y());
        ForEachLine(c, [&](int64_t i, int64_t j, int64_t k, int64_t n) {
          for (int64_t d = 0; d < n; ++d) made[i + d] += y[k] * w[j + d];
        });
        break;
      }
      default: {
        const Values x = read(c.x()), y = read(c.y());
        ForEachLine(c, [&](int64_t i, int64_t j, int64_t k, int64_t n) {
          for (int64_t d = 0; d < n; ++d) made[j + d] += y[k] * x[i + d];
        });
      }
    }
    Write(c.output, ChannelsLast(), std::move(made));
  }

  // A dimension of 1 is the same all along.
  class Broadcast {
   public:
    Broadcast(Values values, const CudnnTensor& tensor, const Dims& to)
        : values_(std::move(values)), steps_(to.size(), 0) {
      int64_t step = 1;
      for (size_t d = to.size(); d-- > 0;) {
        if (tensor.dims[d] != 1) steps_[d] = step;
        step *= tensor.dims[d];
      }
    }
    float at(const Dims& place) const {
      int64_t i = 0;
      for (size_t d = 0; d < place.size(); ++d) i += place[d] * steps_[d];
      return values_[static_cast<size_t>(i)];
    }

   private:
    const Values values_;
    Dims steps_;
  };

  template <typename F>
  static void ForEachPlace(const Dims& dims, F&& fn) {
    int64_t n = 1;
    for (const int64_t dim : dims) n *= dim;
    Dims place(dims.size(), 0);
    for (int64_t i = 0; i < n; ++i) {
      fn(i, place);
      for (size_t d = dims.size(); d-- > 0;) {
        if (++place[d] < dims[d]) break;
        place[d] = 0;
      }
    }
  }

  static float Apply(cudnnPointwiseMode_t mode, float a, float b, float t) {
    switch (mode) {
      case CUDNN_POINTWISE_ADD:
        return a + b;
      case CUDNN_POINTWISE_SUB:
        return a - b;
      case CUDNN_POINTWISE_MUL:
        return a * b;
      case CUDNN_POINTWISE_DIV:
        return a / b;
      case CUDNN_POINTWISE_EXP:
        return std::exp(a);
      case CUDNN_POINTWISE_LOG:
        return std::log(a);
      case CUDNN_POINTWISE_CMP_GE:
        return a >= b ? 1 : 0;
      case CUDNN_POINTWISE_BINARY_SELECT:
        return t != 0 ? a : b;
      case CUDNN_POINTWISE_GEN_INDEX:
        break;
    }
    return 0;
  }

  void Pointwise(const CudnnOperation& operation) {
    const Dims& dims = operation.output.dims;
    Values made(static_cast<size_t>(operation.output.Elements()));
    if (operation.mode == CUDNN_POINTWISE_GEN_INDEX) {
      ForEachPlace(dims, [&](int64_t i, const Dims& place) {
        made[i] = static_cast<float>(place[static_cast<size_t>(operation.axis)]);
      });
      return Write(operation.output, std::move(made));
    }
    std::vector<Broadcast> inputs;
    for (const CudnnTensor& input : operation.inputs) inputs.emplace_back(Read(input), input, dims);
    ForEachPlace(dims, [&](int64_t i, const Dims& place) {
      float values[3] = {};
      for (size_t k = 0; k < inputs.size(); ++k) values[k] = inputs[k].at(place);
      made[i] = Apply(operation.mode, values[0], values[1], values[2]);
    });
    Write(operation.output, std::move(made));
  }

  // c [.., m, n] = a [.., m, k] b [.., k, n]
  void Multiply(const CudnnOperation& operation) {
    const Values a = Read(operation.inputs[0]), b = Read(operation.inputs[1]);
    const int64_t m = operation.inputs[0].dims[2], k = operation.inputs[0].dims[3];
    const int64_t n = operation.inputs[1].dims[3];
    const int64_t matrices = operation.inputs[0].dims[0] * operation.inputs[0].dims[1];
    Values made(static_cast<size_t>(operation.output.Elements()), 0.0f);
    for (int64_t i = 0; i < matrices * m; ++i) {
      const float* const of_b = b.data() + i / m * k * n;
      for (int64_t d = 0; d < k; ++d) {
        for (int64_t j = 0; j < n; ++j) made[i * n + j] += a[i * k + d] * of_b[d * n + j];
      }
    }
    Write(operation.output, std::move(made));
  }

  // Ones of the probability, by a generator of ours: of the library's nothing is documented but
  // that. A run with the same seed and offset draws the same.
  void DrawOnes(const CudnnOperation& operation) {
    uint64_t state = 0;
    for (const CudnnTensor& number : operation.inputs) {
      state = Mixed(state + *static_cast<const uint64_t*>(operands_.pointers.at(number.id)));
    }
    Values made(static_cast<size_t>(operation.output.Elements()));
    for (float& value : made) {
      state += 0x9e3779b97f4a7c15u;
      const double drawn = static_cast<double>(Mixed(state) >> 11) * 0x1p-53;
      value = drawn < operation.probability ? 1.0f : 0.0f;
    }
    Write(operation.output, std::move(made));
  }
  // The finalizer of SplitMix64 (Steele et al. 2014).
  static uint64_t Mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }

  // Along the last dimension.
  void Reduce(const CudnnOperation& operation) {
    const Values x = Read(operation.inputs[0]);
    const int64_t length = operation.inputs[0].dims.back();
    Values made;
    for (auto row = x.begin(); row != x.end(); row += length) {
      const bool is_max = operation.reduction == CUDNN_REDUCE_TENSOR_MAX;
      float value = is_max ? -std::numeric_limits<float>::infinity() : 0;
      std::for_each(row, row + length,
                    [&](float each) { value = is_max ? std::max(value, each) : value + each; });
      made.push_back(value);
    }
    Write(operation.output, std::move(made));
  }

  // The graphs that there are transpose the last two dimensions by it: of the input as its
  // dimensions name them, the output has the same bytes under other strides.
  void Reshape(const CudnnOperation& operation) {
    const CudnnTensor &x = operation.inputs[0], &y = operation.output;
    const Values from = Read(x);
    const int64_t rows = x.dims[2], columns = x.dims[3];
    Values made(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      const int64_t matrix = static_cast<int64_t>(i) / (rows * columns);
      const int64_t row = static_cast<int64_t>(i) / columns % rows;
      const int64_t column = static_cast<int64_t>(i) % columns;
      made[static_cast<size_t>((matrix * columns + column) * rows + row)] = from[i];
    }
    Write(y, std::move(made));
  }

  const CudnnOperands& operands_;
  const bool rounds_;
  bool is_off_ = false;
  std::map<int64_t, Values> virtual_;
};

}  // namespace

void ComputeCudnn(const CudnnProgram& program, const CudnnEngineChoice& engine,
                  const CudnnOperands& operands) {
  Computation computation(engine, operands);
  for (const CudnnOperation& operation : program) computation.Run(operation);
}

}  // namespace sluice::cuda_emulation
