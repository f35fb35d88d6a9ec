#include "framework/tensor/shape.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace sluice {

// The largest number where the count is beyond it: it then equals no count that there is, and what
// compares it refuses the shape.
int64_t Shape::NumElements() const {
  int64_t product = 1;
  bool overflows = false;
  for (int64_t extent : dims_) {
    if (extent == 0) return 0;
    overflows = overflows || __builtin_mul_overflow(product, extent, &product);
  }
  return overflows ? std::numeric_limits<int64_t>::max() : product;
}

Shape Shape::Strides() const {
  Shape strides = *this;
  int64_t stride = 1;
  for (int d = rank() - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= dims_[d];
  }
  return strides;
}

Shape Shape::IndexOf(int64_t element) const {
  Shape index = *this;
  for (int d = rank() - 1; d >= 0; --d) {
    index[d] = element % dims_[d];
    element /= dims_[d];
  }
  return index;
}

std::string Shape::ToString() const { return absl::StrCat("[", absl::StrJoin(dims_, ","), "]"); }

absl::StatusOr<Shape> Shape::Parse(absl::string_view text) {
  const auto bad = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: expected extents like [2,3], got \"", text, "\""));
  };
  absl::string_view inner = text;
  if (!absl::ConsumePrefix(&inner, "[") || !absl::ConsumeSuffix(&inner, "]")) return bad();
  Shape shape;
  if (inner.empty()) return shape;
  for (absl::string_view field : absl::StrSplit(inner, ',')) {
    int64_t extent;
    if (!absl::SimpleAtoi(field, &extent) || extent < 0) return bad();
    shape.Append(extent);
  }
  return shape;
}

Range Cut(Range range, int64_t shards, int64_t i) {
  const int64_t each = range.size() / shards, more = range.size() % shards;
  const int64_t begin = range.begin + i * each + std::min(i, more);
  return {begin, begin + each + (i < more ? 1 : 0)};
}

Box WholeBox(const Shape& shape) {
  Box box;
  for (int64_t extent : shape) box.push_back({0, extent});
  return box;
}

int64_t Volume(const Box& box) {
  int64_t product = 1;
  for (const Range& range : box) product *= range.size();
  return product;
}

Shape ShapeOf(const Box& box) {
  Shape shape;
  for (const Range& range : box) shape.Append(range.size());
  return shape;
}

Box Intersect(const Box& a, const Box& b) {
  Box box(a.size());
  for (size_t d = 0; d < a.size(); ++d) {
    box[d].begin = std::max(a[d].begin, b[d].begin);
    box[d].end = std::max(box[d].begin, std::min(a[d].end, b[d].end));
  }
  return box;
}

std::string BoxToString(const Box& box) {
  return absl::StrCat("[",
                      absl::StrJoin(box, ",",
                                    [](std::string* out, const Range& range) {
                                      absl::StrAppend(out, range.begin, ":", range.end);
                                    }),
                      "]");
}

void ForEachRow(const Box& outer, const Box& inner,
                const std::function<void(int64_t offset, int64_t length)>& fn) {
  if (Volume(inner) == 0) return;
  const int rank = static_cast<int>(inner.size());
  if (rank == 0) return fn(0, 1);
  const Shape strides = ShapeOf(outer).Strides();
  Shape at;
  int64_t offset = 0;
  for (int d = 0; d < rank; ++d) {
    at.Append(inner[d].begin);
    offset += (inner[d].begin - outer[d].begin) * strides[d];
  }
  while (true) {
    fn(offset, inner[rank - 1].size());
    int d = rank - 2;
    for (; d >= 0; --d) {
      offset += strides[d];
      if (++at[d] < inner[d].end) break;
      offset -= inner[d].size() * strides[d];
      at[d] = inner[d].begin;
    }
    if (d < 0) return;
  }
}

}  // namespace sluice
