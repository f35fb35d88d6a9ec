// What an op is told besides its tensors: one plain struct an op, declared once, below both the
// compile side and the run side. The text form is "name=value" words; a field that has its default
// is left out. Pure values; any thread.
#ifndef SLUICE_FRAMEWORK_ATTRIBUTES_ATTRIBUTES_H_
#define SLUICE_FRAMEWORK_ATTRIBUTES_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/tensor/shard.h"

namespace sluice {

struct NoAttributes {
  template <typename V>
  void Visit(V&&) {}
};

// Initial value of a variable, drawn by logical index from (seed, variable name).
struct VariableAttributes {
  std::string init = "zeros";  // zeros, ones, constant, normal, uniform
  double stddev = 0.02;        // of normal and uniform; their mean is 0
  double value = 0;            // of constant
  template <typename V>
  void Visit(V&& v) {
    v("init", init), v("stddev", stddev), v("value", value);
  }
};

struct FillAttributes {
  double value = 0;
  Shape shape;
  DType dtype = DType::kF32;
  template <typename V>
  void Visit(V&& v) {
    v("value", value), v("shape", shape), v("dtype", dtype);
  }
};

struct MatMulAttributes {
  bool transpose_a = false, transpose_b = false;
  template <typename V>
  void Visit(V&& v) {
    v("transpose_a", transpose_a), v("transpose_b", transpose_b);
  }
};

struct ScaleAttributes {
  double factor = 1;
  template <typename V>
  void Visit(V&& v) {
    v("factor", factor);
  }
};

struct NormAttributes {
  double epsilon = 1e-5;  // what keeps a division by nothing finite
  template <typename V>
  void Visit(V&& v) {
    v("epsilon", epsilon);
  }
};

// `key` names the draw: a stable hash of the node's name.
struct DropoutAttributes {
  double rate = 0;
  int64_t key = 0;
  template <typename V>
  void Visit(V&& v) {
    v("rate", rate), v("key", key);
  }
};

// Of a norm of a sum whose second term is dropped: NormAttributes and DropoutAttributes.
struct AddNormAttributes {
  double epsilon = 1e-5, rate = 0;
  int64_t key = 0;
  template <typename V>
  void Visit(V&& v) {
    v("epsilon", epsilon), v("rate", rate), v("key", key);
  }
};

struct ShapeAttributes {  // reshape, broadcast: the logical shape of the output
  Shape shape;
  template <typename V>
  void Visit(V&& v) {
    v("shape", shape);
  }
};

struct TransposeAttributes {
  Shape permutation;  // output dimension d is input dimension permutation[d]
  template <typename V>
  void Visit(V&& v) {
    v("permutation", permutation);
  }
};

struct SliceAttributes {  // slice: output = input[begin..end); pad: its adjoint, into `whole`
  int64_t dim = 0, begin = 0, end = 0, whole = 0;
  template <typename V>
  void Visit(V&& v) {
    v("dim", dim), v("begin", begin), v("end", end), v("whole", whole);
  }
};

struct ConcatAttributes {
  int64_t dim = 0;
  template <typename V>
  void Visit(V&& v) {
    v("dim", dim);
  }
};

struct CastAttributes {
  DType dtype = DType::kF32;
  template <typename V>
  void Visit(V&& v) {
    v("dtype", dtype);
  }
};

// Reduces `dims` away. A mean divides by the logical extents, never by local ones.
struct ReduceAttributes {
  Reduction reduction = Reduction::kSum;
  bool mean = false;
  Shape dims;
  template <typename V>
  void Visit(V&& v) {
    v("reduction", reduction), v("mean", mean), v("dims", dims);
  }
};

struct AttentionAttributes {
  double scale = 1;  // of the scores, usually 1/sqrt(head size)
  // Of the weights, as DropoutAttributes have them.
  double rate = 0;
  int64_t key = 0;
  // Which weights are dropped is left to a card's library, whose draws no CPU can make.
  bool library_draws = false;
  template <typename V>
  void Visit(V&& v) {
    v("scale", scale), v("rate", rate), v("key", key), v("library_draws", library_draws);
  }
};

struct CrossEntropyAttributes {
  double smoothing = 0;  // the share of the target that all classes have alike
  template <typename V>
  void Visit(V&& v) {
    v("smoothing", smoothing);
  }
};

// Of cosines: at the label's class scale (cos(theta + angular) - additive), else scale cos(theta).
struct MarginAttributes {
  // A gradient divides by the sine of theta, or by this where that is less: of no angle at all the
  // label's cosine, rounded to 1, would have one as large as its rounding is small.
  static constexpr double kLeastSine = 1.0 / 64;
  double scale = 64, angular = 0, additive = 0;
  template <typename V>
  void Visit(V&& v) {
    v("scale", scale), v("angular", angular), v("additive", additive);
  }
};

// Convolutions over [images, height, width, channels]; stride and dilation of height and width,
// padding as SidesOf takes it. `extent` is of a gradient alone: height and width of what it is the
// gradient of, the image or the kernel, which its operands do not say.
struct ConvolutionAttributes {
  Shape stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
  Shape extent = {};
  template <typename V>
  void Visit(V&& v) {
    v("stride", stride), v("padding", padding), v("dilation", dilation), v("groups", groups);
    v("extent", extent);
  }
};

// Maximum and mean over windows of images; as above. `count_padding`: a mean divides by the
// elements of the window, those in the padding too; else by those on the image.
struct PoolAttributes {
  Shape window = {1, 1}, stride = {}, padding = {0, 0};  // no stride: the window
  bool count_padding = true;
  Shape extent = {};
  const Shape& stride_or_window() const { return stride.rank() == 0 ? window : stride; }
  template <typename V>
  void Visit(V&& v) {
    v("window", window), v("stride", stride), v("padding", padding);
    v("count_padding", count_padding), v("extent", extent);
  }
};

// Of each channel of images, whose values from 0 to 255 stand for 0 to 1.
struct NormalizeImagesAttributes {
  std::vector<double> mean, stddev;
  template <typename V>
  void Visit(V&& v) {
    v("mean", mean), v("stddev", stddev);
  }
};

struct RowsAttributes {  // embedding gradients: rows of the table
  int64_t rows = 0;
  template <typename V>
  void Visit(V&& v) {
    v("rows", rows);
  }
};

// sample_classes: `count` of the `classes` of each of `groups` equal ranges. `key` names the draw.
struct SampleAttributes {
  int64_t groups = 1, classes = 1, count = 1, key = 0;
  template <typename V>
  void Visit(V&& v) {
    v("groups", groups), v("classes", classes), v("count", count), v("key", key);
  }
};

struct ClipAttributes {
  double max_norm = 1;
  template <typename V>
  void Visit(V&& v) {
    v("max_norm", max_norm);
  }
};

struct SgdAttributes {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
  double dampening = 0;  // the share of a gradient that the momentum leaves out
  template <typename V>
  void Visit(V&& v) {
    v("momentum", momentum), v("weight_decay", weight_decay), v("nesterov", nesterov);
    v("dampening", dampening);
  }
};

// Of the update and of its trust ratio, coefficient ||w|| / (||g|| + weight_decay ||w|| + epsilon).
struct LarsAttributes {
  double momentum = 0.9, weight_decay = 0, coefficient = 0.001, epsilon = 1e-9;
  template <typename V>
  void Visit(V&& v) {
    v("momentum", momentum), v("weight_decay", weight_decay), v("coefficient", coefficient);
    v("epsilon", epsilon);
  }
};

struct AverageAttributes {  // of a running average: the share that a new value has
  double momentum = 0.1;
  template <typename V>
  void Visit(V&& v) {
    v("momentum", momentum);
  }
};

struct AdamWAttributes {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0;
  bool bias_correction = true;  // of the averages, which begin at zero
  template <typename V>
  void Visit(V&& v) {
    v("beta1", beta1), v("beta2", beta2), v("epsilon", epsilon), v("weight_decay", weight_decay);
    v("bias_correction", bias_correction);
  }
};

// Zeros around an image: [height, width], the same on both sides, or [top, bottom, left, right].
struct PaddingSides {
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};
// REQUIRES: padding has two extents or four.
inline PaddingSides SidesOf(const Shape& padding) {
  if (padding.rank() == 4) return {padding[0], padding[1], padding[2], padding[3]};
  return {padding[0], padding[0], padding[1], padding[1]};
}

struct AdagradAttributes {
  double epsilon = 1e-10, weight_decay = 0;
  template <typename V>
  void Visit(V&& v) {
    v("epsilon", epsilon), v("weight_decay", weight_decay);
  }
};

struct FtrlAttributes {
  double l1 = 0, l2 = 0, beta = 1;
  template <typename V>
  void Visit(V&& v) {
    v("l1", l1), v("l2", l2), v("beta", beta);
  }
};

using Attributes = std::variant<
    NoAttributes, VariableAttributes, FillAttributes, MatMulAttributes, ScaleAttributes,
    NormAttributes, DropoutAttributes, ShapeAttributes, TransposeAttributes, SliceAttributes,
    ConcatAttributes, CastAttributes, ReduceAttributes, AttentionAttributes, ConvolutionAttributes,
    PoolAttributes, RowsAttributes, ClipAttributes, SgdAttributes, AdamWAttributes,
    AverageAttributes, CrossEntropyAttributes, NormalizeImagesAttributes, MarginAttributes,
    SampleAttributes, LarsAttributes, AdagradAttributes, FtrlAttributes, AddNormAttributes>;

// "transpose_b=true", "shape=[2,3]"; floats print so that they parse to the same bits.
std::string PrintAttributes(const Attributes& attributes);
// Parses into the alternative that `attributes` holds, over its present values. Errors name the
// unknown field with the nearest known one, or the value that does not parse.
absl::Status ParseAttributesInto(absl::string_view text, Attributes* attributes);

// What names the draw of a random op, 0 where nothing has named it yet; null where nothing is
// drawn, as attention of a rate of 0 does not.
int64_t* RandomKeyOf(Attributes* attributes);

template <typename T>
absl::StatusOr<T> ParseAttributes(absl::string_view text) {
  Attributes attributes = T();
  absl::Status status = ParseAttributesInto(text, &attributes);
  if (!status.ok()) return status;
  return std::get<T>(attributes);
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ATTRIBUTES_ATTRIBUTES_H_
