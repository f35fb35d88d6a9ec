#include "framework/kernels/cpu/convolution_primitive.h"

#include <utility>
#include <vector>

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
absl::Status DescribeImages(DType dtype, dnnl_format_tag_t layout, int64_t images, int64_t channels,
                            int64_t height, int64_t width, dnnl_memory_desc_t* description) {
  const dnnl_dims_t extents = {images, channels, height, width};
  return StatusOf(dnnl_memory_desc_init_by_tag(description, 4, extents, TypeOf(dtype), layout),
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

// As they lie in a tensor [height, width, input channels, `row` out channels]; of a turned shape,
// [height, width, out channels, input channels].
absl::Status DescribePlain(const ConvolutionShape& s, dnnl_data_type_t type, int64_t row,
                           bool turned, dnnl_memory_desc_t* description) {
  dnnl_dims_t extents;
  const int rank = ExtentsOf(s, extents);
  const int64_t channels = s.channels / s.groups;
  dnnl_dims_t strides;
  int at = 0;
  if (s.groups > 1) strides[at++] = s.out_channels / s.groups;
  strides[at++] = turned ? channels : 1;
  strides[at++] = turned ? 1 : row;
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

// The gradient by input of a convolution that moves by one is itself a convolution: of y, with the
// kernel turned by half a circle and the channels of both sides exchanged. oneDNN 2.6 has a better
// kernel for that, brgconv, than for the gradient: with it ResNet-50's of 3x3 take 0.7 to 0.9 of
// the time in f32 (Zen 5, one thread), and in bf16 0.75 on images of 7x7 and the same on others.
bool CanBeTurned(const ConvolutionShape& s) {
  const int64_t height = (s.kernel_height - 1) * s.dilation_height;
  const int64_t width = (s.kernel_width - 1) * s.dilation_width;
  const int64_t bottom = s.out_height - 1 + height + 1 - s.height - s.padding.top;
  const int64_t right = s.out_width - 1 + width + 1 - s.width - s.padding.left;
  return s.stride_height * s.stride_width == 1 && s.groups == 1 && s.padding.top <= height &&
         s.padding.left <= width && bottom <= height && right <= width;
}

ConvolutionShape Turned(const ConvolutionShape& s) {
  ConvolutionShape turned = s;
  std::swap(turned.height, turned.out_height);
  std::swap(turned.width, turned.out_width);
  std::swap(turned.channels, turned.out_channels);
  turned.padding.top = (s.kernel_height - 1) * s.dilation_height - s.padding.top;
  turned.padding.left = (s.kernel_width - 1) * s.dilation_width - s.padding.left;
  return turned;
}

absl::StatusOr<dnnl_memory_desc_t> Part(const dnnl_memory_desc_t& whole, const dnnl_dims_t extents,
                                        const dnnl_dims_t offsets) {
  dnnl_memory_desc_t part;
  RETURN_IF_ERROR(StatusOf(dnnl_memory_desc_init_submemory(&part, &whole, extents, offsets),
                           "memory_desc_init_submemory"));
  return part;
}

absl::StatusOr<dnnl_memory_desc_t> OneImage(const dnnl_memory_desc_t& images) {
  const dnnl_dims_t extents = {1, images.dims[1], images.dims[2], images.dims[3]};
  const dnnl_dims_t first = {};
  return Part(images, extents, first);
}

}  // namespace

struct LayoutReorder::Call {
  // Bytes by which both pointers are moved.
  struct Move {
    int64_t from, to;
  };
  Engine engine;
  Primitive primitive;
  std::vector<Move> moves = {{0, 0}};

  static absl::StatusOr<std::unique_ptr<Call>> Make(const dnnl_memory_desc_t& from,
                                                    const dnnl_memory_desc_t& to) {
    ASSIGN_OR_RETURN(Engine engine, MakeEngine());
    dnnl_primitive_desc_t made = nullptr;
    const dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&made, &from, engine.get(), &to, engine.get(), nullptr);
    ASSIGN_OR_RETURN(const PrimitiveDesc description, Usable(status, made, "reorder"));
    ASSIGN_OR_RETURN(Primitive primitive,
                     Primitive::Make(description.get(), engine.get(),
                                     {{DNNL_ARG_FROM, &from}, {DNNL_ARG_TO, &to}}));
    return std::make_unique<Call>(Call{std::move(engine), std::move(primitive)});
  }
};

LayoutReorder::LayoutReorder() = default;
LayoutReorder::LayoutReorder(LayoutReorder&&) noexcept = default;
LayoutReorder& LayoutReorder::operator=(LayoutReorder&&) noexcept = default;
LayoutReorder::~LayoutReorder() = default;
void LayoutReorder::Run(const std::byte* from, std::byte* to) const {
  for (const Call::Move& move : call_->moves) {
    call_->primitive.Run({from + move.from, to + move.to});
  }
}

struct ConvolutionPrimitive::Call {
  ConvolutionShape shape;  // what oneDNN is asked for
  bool turned;             // which is the forward pass from y to x
  Layouts layouts;
  std::string implementation;
  int64_t scratch_bytes = 0;
  Engine engine;
  Primitive primitive;
};

ConvolutionPrimitive::ConvolutionPrimitive() = default;
ConvolutionPrimitive::ConvolutionPrimitive(ConvolutionPrimitive&&) noexcept = default;
ConvolutionPrimitive& ConvolutionPrimitive::operator=(ConvolutionPrimitive&&) noexcept = default;
ConvolutionPrimitive::~ConvolutionPrimitive() = default;

absl::StatusOr<ConvolutionPrimitive> ConvolutionPrimitive::Prepare(ConvolutionPass pass,
                                                                   const ConvolutionShape& shape,
                                                                   ImageLayout images) {
  if (pass == ConvolutionPass::kInputGradient && CanBeTurned(shape)) {
    auto made = Make(ConvolutionPass::kForward, Turned(shape), images, true);
    if (!absl::IsNotFound(made.status())) return made;
  }
  return Make(pass, shape, images, false);
}

absl::StatusOr<ConvolutionPrimitive> ConvolutionPrimitive::Make(ConvolutionPass pass,
                                                                const ConvolutionShape& s,
                                                                ImageLayout images, bool turned) {
  const auto layout = images == ImageLayout::kPlain ? dnnl_nhwc : dnnl_format_tag_any;
  Layouts at;
  RETURN_IF_ERROR(
      DescribeImages(s.operands, layout, s.images, s.channels, s.height, s.width, &at.x));
  RETURN_IF_ERROR(DescribeImages(s.operands, layout, s.images, s.out_channels, s.out_height,
                                 s.out_width, &at.y));
  RETURN_IF_ERROR(DescribeAny(s, TypeOf(s.operands), &at.w));
  ASSIGN_OR_RETURN(Engine engine, MakeEngine());
  const bool forward = pass == ConvolutionPass::kForward;
  const bool of_weights = pass == ConvolutionPass::kWeightGradient;
  const bool of_input = pass == ConvolutionPass::kInputGradient;
  PrimitiveDesc description;
  // oneDNN asks gradients for the forward pass that they belong to.
  ASSIGN_OR_RETURN(description,
                   DescribePass(ConvolutionPass::kForward, s, at, engine.get(), nullptr));
  if (!forward) {
    if (of_weights) RETURN_IF_ERROR(DescribeAny(s, dnnl_f32, &at.w));
    ASSIGN_OR_RETURN(description, DescribePass(pass, s, at, engine.get(), description.get()));
  }
  const auto chosen = [&](dnnl_query_t what) {
    return *dnnl_primitive_desc_query_md(description.get(), what, 0);
  };
  at.x = chosen(of_input ? dnnl_query_diff_src_md : dnnl_query_src_md);
  at.w = chosen(of_weights ? dnnl_query_diff_weights_md : dnnl_query_weights_md);
  at.y = chosen(forward ? dnnl_query_dst_md : dnnl_query_diff_dst_md);
  const dnnl_memory_desc_t scratch = chosen(dnnl_query_scratchpad_md);
  ASSIGN_OR_RETURN(Primitive primitive,
                   Primitive::Make(description.get(), engine.get(),
                                   {{of_input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, &at.x},
                                    {of_weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, &at.w},
                                    {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, &at.y},
                                    {DNNL_ARG_SCRATCHPAD, &scratch}}));
  ConvolutionPrimitive made;
  made.call_ =
      std::make_unique<Call>(Call{s, turned, at, ImplementationOf(description.get()),
                                  static_cast<int64_t>(dnnl_memory_desc_get_size(&scratch)),
                                  std::move(engine), std::move(primitive)});
  return made;
}

void ConvolutionPrimitive::Run(const std::byte* x, const std::byte* w, const std::byte* y,
                               std::byte* scratch) const {
  if (call_->turned) std::swap(x, y);
  call_->primitive.Run({x, w, y, scratch});
}

int64_t ConvolutionPrimitive::weights_bytes() const {
  return static_cast<int64_t>(dnnl_memory_desc_get_size(&call_->layouts.w));
}
int64_t ConvolutionPrimitive::scratch_bytes() const { return call_->scratch_bytes; }
const std::string& ConvolutionPrimitive::implementation() const { return call_->implementation; }
int64_t ConvolutionPrimitive::channels_to_pack() const {
  return call_->shape.channels / call_->shape.groups;
}

bool ConvolutionPrimitive::LikesSameWeights(const ConvolutionPrimitive& other) const {
  return dnnl_memory_desc_equal(&call_->layouts.w, &other.call_->layouts.w) != 0;
}

absl::StatusOr<LayoutReorder> ConvolutionPrimitive::Pack(Range channels) const {
  const ConvolutionShape& s = call_->shape;
  const dnnl_memory_desc_t& packed = call_->layouts.w;
  dnnl_memory_desc_t plain;
  RETURN_IF_ERROR(DescribePlain(s, packed.data_type, s.out_channels, call_->turned, &plain));
  dnnl_dims_t extents, offsets = {};
  const int rank = ExtentsOf(s, extents);
  extents[rank - 3] = channels.size();
  offsets[rank - 3] = channels.begin;
  if (call_->turned) extents[rank - 2] = extents[rank - 1] = 1;
  ASSIGN_OR_RETURN(const dnnl_memory_desc_t from, Part(plain, extents, offsets));
  ASSIGN_OR_RETURN(const dnnl_memory_desc_t to, Part(packed, extents, offsets));
  LayoutReorder reorder;
  ASSIGN_OR_RETURN(reorder.call_, LayoutReorder::Call::Make(from, to));
  if (!call_->turned) return reorder;
  // No description says that a kernel lies backwards: its elements are moved one by one.
  const int64_t size = SizeOf(s.operands);
  const int64_t* const step = packed.format_desc.blocking.strides;
  reorder.call_->moves.clear();
  for (int64_t k = 0; k < s.kernel_height; ++k) {
    for (int64_t l = 0; l < s.kernel_width; ++l) {
      const int64_t opposite =
          (s.kernel_height - 1 - k) * s.kernel_width + (s.kernel_width - 1 - l);
      reorder.call_->moves.push_back({opposite * s.channels * s.out_channels * size,
                                      (k * step[rank - 2] + l * step[rank - 1]) * size});
    }
  }
  return reorder;
}

absl::StatusOr<LayoutReorder> ConvolutionPrimitive::Unpack(int64_t out_channels) const {
  dnnl_memory_desc_t plain;
  RETURN_IF_ERROR(
      DescribePlain(call_->shape, call_->layouts.w.data_type, out_channels, false, &plain));
  LayoutReorder reorder;
  ASSIGN_OR_RETURN(reorder.call_, LayoutReorder::Call::Make(call_->layouts.w, plain));
  return reorder;
}

absl::StatusOr<LayoutReorder> ConvolutionPrimitive::PackImage() const {
  const ConvolutionShape& s = call_->shape;
  dnnl_memory_desc_t plain;
  RETURN_IF_ERROR(DescribeImages(s.operands, dnnl_nhwc, 1, s.channels, s.height, s.width, &plain));
  ASSIGN_OR_RETURN(const dnnl_memory_desc_t liked, OneImage(call_->layouts.x));
  LayoutReorder reorder;
  ASSIGN_OR_RETURN(reorder.call_, LayoutReorder::Call::Make(plain, liked));
  return reorder;
}

absl::StatusOr<LayoutReorder> ConvolutionPrimitive::PackResult(int64_t out_channels) const {
  const ConvolutionShape& s = call_->shape;
  const dnnl_dims_t extents = {s.images, s.out_channels, s.out_height, s.out_width};
  const dnnl_dims_t strides = {s.Places() * out_channels, 1, s.out_width * out_channels,
                               out_channels};
  dnnl_memory_desc_t plain;
  RETURN_IF_ERROR(
      StatusOf(dnnl_memory_desc_init_by_strides(&plain, 4, extents, TypeOf(s.operands), strides),
               "memory_desc_init_by_strides"));
  LayoutReorder reorder;
  ASSIGN_OR_RETURN(reorder.call_, LayoutReorder::Call::Make(plain, call_->layouts.y));
  return reorder;
}

int64_t ConvolutionPrimitive::image_bytes() const {
  const dnnl_memory_desc_t& x = call_->layouts.x;
  return x.format_desc.blocking.strides[0] * SizeOf(call_->shape.operands);
}

int64_t ConvolutionPrimitive::result_bytes() const {
  return static_cast<int64_t>(dnnl_memory_desc_get_size(&call_->layouts.y));
}

bool ConvolutionPrimitive::LikesSameImages(const ConvolutionPrimitive& other) const {
  const auto mine = OneImage(call_->layouts.x), others = OneImage(other.call_->layouts.x);
  return mine.ok() && others.ok() && dnnl_memory_desc_equal(&*mine, &*others) != 0;
}

}  // namespace sluice::cpu
