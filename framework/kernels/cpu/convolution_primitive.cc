#include "framework/kernels/cpu/convolution_primitive.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/kernels/cpu/onednn.h"

namespace sluice::cpu {
namespace {

// What oneDNN offers, if it is more than slow.
absl::StatusOr<PrimitiveDesc> Usable(dnnl_status_t status, dnnl_primitive_desc_t description,
                                     absl::string_view what) {
  if (status == dnnl_unimplemented) {
    return absl::NotFoundError(absl::StrCat("oneDNN has no ", what));
  }
  RETURN_IF_ERROR(StatusOf(status, absl::StrCat("primitive_desc_create of a ", what)));
  PrimitiveDesc owned(description);
  const std::string name = ImplementationOf(description);
  if (IsReference(name) || absl::StrContains(name, "gemm")) {
    return absl::NotFoundError(absl::StrCat("oneDNN has only ", name, " for a ", what));
  }
  return owned;
}

// oneDNN names dimensions as [images, channels, height, width], however they lie.
absl::Status DescribeImages(DType dtype, int64_t images, int64_t channels, int64_t height,
                            int64_t width, dnnl_memory_desc_t* description) {
  const dnnl_dims_t extents = {images, channels, height, width};
  return StatusOf(dnnl_memory_desc_init_by_tag(description, 4, extents, TypeOf(dtype), dnnl_nhwc),
                  "memory_desc_init_by_tag");
}

// Extents of weights as oneDNN names them: [groups, ] out channels, input channels, height, width.
int ExtentsOf(const ConvolutionShape& s, dnnl_dims_t extents) {
  int rank = 0;
  if (s.groups > 1) extents[rank++] = s.groups;
  extents[rank++] = s.out_channels / s.groups;
  extents[rank++] = s.channels / s.groups;
  extents[rank++] = s.kernel_height;
  extents[rank++] = s.kernel_width;
  return rank;
}

// In any layout.
absl::Status DescribeAny(const ConvolutionShape& s, dnnl_data_type_t type,
                         dnnl_memory_desc_t* description) {
  dnnl_dims_t extents;
  const int rank = ExtentsOf(s, extents);
  return StatusOf(
      dnnl_memory_desc_init_by_tag(description, rank, extents, type, dnnl_format_tag_any),
      "memory_desc_init_by_tag");
}

// As they lie in a tensor [height, width, input channels, `row` out channels].
absl::Status DescribePlain(const ConvolutionShape& s, dnnl_data_type_t type, int64_t row,
                           dnnl_memory_desc_t* description) {
  dnnl_dims_t extents;
  const int rank = ExtentsOf(s, extents);
  const int64_t channels = s.channels / s.groups;
  dnnl_dims_t strides;
  int at = 0;
  if (s.groups > 1) strides[at++] = s.out_channels / s.groups;
  strides[at++] = 1;
  strides[at++] = row;
  strides[at++] = s.kernel_width * channels * row;
  strides[at++] = channels * row;
  return StatusOf(dnnl_memory_desc_init_by_strides(description, rank, extents, type, strides),
                  "memory_desc_init_by_strides");
}

struct Layouts {
  dnnl_memory_desc_t x, w, y;
};

absl::StatusOr<PrimitiveDesc> DescribePass(ConvolutionPass pass, const ConvolutionShape& s,
                                           const Layouts& at, dnnl_engine_t engine,
                                           const_dnnl_primitive_desc_t forward) {
  const dnnl_dims_t strides = {s.stride_height, s.stride_width};
  const dnnl_dims_t dilates = {s.dilation_height - 1, s.dilation_width - 1};
  const dnnl_dims_t before = {s.padding.top, s.padding.left};
  // Rows and columns that no window reaches are none of the padding.
  const auto after = [](int64_t places, int64_t stride, int64_t size, int64_t dilation,
                        int64_t pixels, int64_t first) {
    return (places - 1) * stride + (size - 1) * dilation + 1 - pixels - first;
  };
  const dnnl_dims_t behind = {after(s.out_height, s.stride_height, s.kernel_height,
                                    s.dilation_height, s.height, s.padding.top),
                              after(s.out_width, s.stride_width, s.kernel_width, s.dilation_width,
                                    s.width, s.padding.left)};
  const dnnl_alg_kind_t direct = dnnl_convolution_direct;
  dnnl_convolution_desc_t operation;
  dnnl_status_t status = dnnl_success;
  if (pass == ConvolutionPass::kForward) {
    status = dnnl_dilated_convolution_forward_desc_init(&operation, dnnl_forward_training, direct,
                                                        &at.x, &at.w, nullptr, &at.y, strides,
                                                        dilates, before, behind);
  } else if (pass == ConvolutionPass::kInputGradient) {
    status = dnnl_dilated_convolution_backward_data_desc_init(
        &operation, direct, &at.x, &at.w, &at.y, strides, dilates, before, behind);
  } else {
    status = dnnl_dilated_convolution_backward_weights_desc_init(
        &operation, direct, &at.x, &at.w, nullptr, &at.y, strides, dilates, before, behind);
  }
  RETURN_IF_ERROR(StatusOf(status, "dilated_convolution_desc_init"));
  ASSIGN_OR_RETURN(const PrimitiveAttributes attributes, WithCallersScratch());
  dnnl_primitive_desc_t description = nullptr;
  status = dnnl_primitive_desc_create(&description, &operation, attributes.get(), engine, forward);
  return Usable(status, description,
                absl::StrCat("convolution of ", s.images, "x", s.height, "x", s.width, "x",
                             s.channels, " with a kernel of ", s.kernel_height, "x", s.kernel_width,
                             " to ", s.out_channels, " channels in ", s.groups, " groups"));
}

}  // namespace

struct WeightsReorder::Call {
  Engine engine;
  Primitive primitive;

  static absl::StatusOr<std::unique_ptr<Call>> Make(const dnnl_memory_desc_t& from,
                                                    const dnnl_memory_desc_t& to) {
    ASSIGN_OR_RETURN(Engine engine, MakeEngine());
    dnnl_primitive_desc_t made = nullptr;
    const dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&made, &from, engine.get(), &to, engine.get(), nullptr);
    ASSIGN_OR_RETURN(const PrimitiveDesc description, Usable(status, made, "reorder of weights"));
    ASSIGN_OR_RETURN(Primitive primitive,
                     Primitive::Make(description.get(), engine.get(),
                                     {{DNNL_ARG_FROM, &from}, {DNNL_ARG_TO, &to}}));
    return std::make_unique<Call>(Call{std::move(engine), std::move(primitive)});
  }
};

WeightsReorder::WeightsReorder() = default;
WeightsReorder::WeightsReorder(WeightsReorder&&) noexcept = default;
WeightsReorder& WeightsReorder::operator=(WeightsReorder&&) noexcept = default;
WeightsReorder::~WeightsReorder() = default;
void WeightsReorder::Run(const std::byte* from, std::byte* to) const {
  call_->primitive.Run({from, to});
}

struct ConvolutionPrimitive::Call {
  ConvolutionShape shape;
  dnnl_memory_desc_t weights;
  std::string implementation;
  int64_t weights_bytes = 0, scratch_bytes = 0;
  Engine engine;
  Primitive primitive;
};

ConvolutionPrimitive::ConvolutionPrimitive() = default;
ConvolutionPrimitive::ConvolutionPrimitive(ConvolutionPrimitive&&) noexcept = default;
ConvolutionPrimitive& ConvolutionPrimitive::operator=(ConvolutionPrimitive&&) noexcept = default;
ConvolutionPrimitive::~ConvolutionPrimitive() = default;

absl::StatusOr<ConvolutionPrimitive> ConvolutionPrimitive::Prepare(ConvolutionPass pass,
                                                                   const ConvolutionShape& s) {
  Layouts at;
  RETURN_IF_ERROR(DescribeImages(s.operands, s.images, s.channels, s.height, s.width, &at.x));
  RETURN_IF_ERROR(
      DescribeImages(s.operands, s.images, s.out_channels, s.out_height, s.out_width, &at.y));
  RETURN_IF_ERROR(DescribeAny(s, TypeOf(s.operands), &at.w));
  ASSIGN_OR_RETURN(Engine engine, MakeEngine());
  const bool forward = pass == ConvolutionPass::kForward;
  const bool of_weights = pass == ConvolutionPass::kWeightGradient;
  PrimitiveDesc description;
  // oneDNN asks gradients for the forward pass that they belong to.
  ASSIGN_OR_RETURN(description,
                   DescribePass(ConvolutionPass::kForward, s, at, engine.get(), nullptr));
  if (!forward) {
    if (of_weights) RETURN_IF_ERROR(DescribeAny(s, dnnl_f32, &at.w));
    ASSIGN_OR_RETURN(description, DescribePass(pass, s, at, engine.get(), description.get()));
  }
  at.w = *dnnl_primitive_desc_query_md(
      description.get(), of_weights ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
  const dnnl_memory_desc_t scratch =
      *dnnl_primitive_desc_query_md(description.get(), dnnl_query_scratchpad_md, 0);
  ASSIGN_OR_RETURN(
      Primitive primitive,
      Primitive::Make(
          description.get(), engine.get(),
          {{pass == ConvolutionPass::kInputGradient ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, &at.x},
           {of_weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, &at.w},
           {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, &at.y},
           {DNNL_ARG_SCRATCHPAD, &scratch}}));
  ConvolutionPrimitive made;
  made.call_ =
      std::make_unique<Call>(Call{s, at.w, ImplementationOf(description.get()),
                                  static_cast<int64_t>(dnnl_memory_desc_get_size(&at.w)),
                                  static_cast<int64_t>(dnnl_memory_desc_get_size(&scratch)),
                                  std::move(engine), std::move(primitive)});
  return made;
}

void ConvolutionPrimitive::Run(const std::byte* x, const std::byte* w, const std::byte* y,
                               std::byte* scratch) const {
  call_->primitive.Run({x, w, y, scratch});
}

int64_t ConvolutionPrimitive::weights_bytes() const { return call_->weights_bytes; }
int64_t ConvolutionPrimitive::scratch_bytes() const { return call_->scratch_bytes; }
const std::string& ConvolutionPrimitive::implementation() const { return call_->implementation; }

bool ConvolutionPrimitive::LikesSameWeights(const ConvolutionPrimitive& other) const {
  return dnnl_memory_desc_equal(&call_->weights, &other.call_->weights) != 0;
}

absl::StatusOr<WeightsReorder> ConvolutionPrimitive::Pack(Range channels) const {
  const ConvolutionShape& s = call_->shape;
  dnnl_memory_desc_t plain, some_plain, some;
  RETURN_IF_ERROR(DescribePlain(s, call_->weights.data_type, s.out_channels, &plain));
  dnnl_dims_t extents, offsets = {};
  const int rank = ExtentsOf(s, extents);
  extents[rank - 3] = channels.size();
  offsets[rank - 3] = channels.begin;
  RETURN_IF_ERROR(StatusOf(dnnl_memory_desc_init_submemory(&some_plain, &plain, extents, offsets),
                           "memory_desc_init_submemory of plain weights"));
  RETURN_IF_ERROR(
      StatusOf(dnnl_memory_desc_init_submemory(&some, &call_->weights, extents, offsets),
               "memory_desc_init_submemory of packed weights"));
  WeightsReorder reorder;
  ASSIGN_OR_RETURN(reorder.call_, WeightsReorder::Call::Make(some_plain, some));
  return reorder;
}

absl::StatusOr<WeightsReorder> ConvolutionPrimitive::Unpack(int64_t out_channels) const {
  dnnl_memory_desc_t plain;
  RETURN_IF_ERROR(DescribePlain(call_->shape, call_->weights.data_type, out_channels, &plain));
  WeightsReorder reorder;
  ASSIGN_OR_RETURN(reorder.call_, WeightsReorder::Call::Make(call_->weights, plain));
  return reorder;
}

}  // namespace sluice::cpu
