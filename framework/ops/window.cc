#include "framework/ops/window.h"

#include "framework/base/status.h"
#include "framework/ops/inference.h"

namespace sluice {
namespace {

// Beyond any use, and small enough that no count overflows.
constexpr int64_t kMost = int64_t{1} << 20;

absl::Status CheckExtents(absl::string_view op, absl::string_view what, const Shape& extents,
                          int64_t least) {
  const bool rank = extents.rank() == 2 || (least == 0 && extents.rank() == 4);
  const bool fit = std::all_of(extents.begin(), extents.end(),
                               [least](int64_t e) { return e >= least && e <= kMost; });
  if (rank && fit) return absl::OkStatus();
  return Mismatch(op, "expected a ", what, " of [height,width]",
                  least == 0 ? " or [top,bottom,left,right]" : "", " from ", least, " to ", kMost,
                  ", got ", extents.ToString());
}

}  // namespace

absl::StatusOr<Window> WindowOf(absl::string_view op, const Shape& size, const Shape& stride,
                                const Shape& padding, const Shape& dilation) {
  RETURN_IF_ERROR(CheckExtents(op, "window", size, 1));
  RETURN_IF_ERROR(CheckExtents(op, "stride", stride, 1));
  RETURN_IF_ERROR(CheckExtents(op, "padding", padding, 0));
  RETURN_IF_ERROR(CheckExtents(op, "dilation", dilation, 1));
  const PaddingSides sides = SidesOf(padding);
  return Window{{size[0], stride[0], dilation[0], sides.top, sides.bottom},
                {size[1], stride[1], dilation[1], sides.left, sides.right}};
}

}  // namespace sluice
