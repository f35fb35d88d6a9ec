#include "framework/checkpoint/stored_boxes.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

// A mesh axis cuts one dimension; a bound keeps the corners of a file from anywhere few.
constexpr size_t kMostCut = 6;

// A corner of a box: bit i of `ends` says which end of the i-th cut dimension it is at.
struct Corner {
  int32_t box;
  uint32_t ends;
};

bool HoldsElement(const Box& box, const Shape& element) {
  for (int d = 0; d < element.rank(); ++d) {
    if (element[d] < box[d].begin || element[d] >= box[d].end) return false;
  }
  return true;
}

absl::Status NotOnce(const TensorEntry& tensor, absl::Span<const StoredBox> boxes, int32_t parts,
                     const Shape& element, int64_t times) {
  constexpr int kNamed = 2;
  std::string holders;
  int named = 0;
  for (const StoredBox& stored : boxes) {
    if (named == kNamed) break;
    if (!HoldsElement(stored.box, element)) continue;
    absl::StrAppend(&holders, named++ == 0 ? ", in " : " and ", BoxToString(stored.box), " of ",
                    TensorsFile(stored.part, parts));
  }
  return absl::DataLossError(absl::StrCat("tensor ", tensor.name, ": expected each element of ",
                                          PrintType(tensor.dtype, tensor.shape), " once, got ",
                                          element.ToString(), " ", times, " times", holders));
}

}  // namespace

std::string TensorsFile(int32_t part, int32_t parts) {
  if (parts == 0) return "tensors.safetensors";
  return absl::StrFormat("tensors-%05d-of-%05d.safetensors", int64_t{part} + 1, parts);
}

std::string StoredName(absl::string_view tensor, const Box& box) {
  return absl::StrCat(tensor, " ", BoxToString(box));
}

std::string PrintType(DType dtype, const Shape& shape) {
  return absl::StrCat(DTypeName(dtype), shape.ToString());
}

absl::StatusOr<TensorEntry> ParseType(absl::string_view tensor, absl::string_view type) {
  const size_t bracket = std::min(type.find('['), type.size());
  ASSIGN_OR_RETURN(const DType dtype, ParseDType(type.substr(0, bracket)));
  ASSIGN_OR_RETURN(const Shape shape, Shape::Parse(type.substr(bracket)));
  int64_t bytes = SizeOf(dtype);
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("type: expected less than 2^63 bytes, got ", type));
    }
  }
  return TensorEntry{std::string(tensor), dtype, shape};
}

absl::StatusOr<Box> ParseBox(absl::string_view text) {
  absl::string_view inner = text;
  Box box;
  bool sound = absl::ConsumePrefix(&inner, "[") && absl::ConsumeSuffix(&inner, "]");
  if (sound && !inner.empty()) {
    for (const absl::string_view field : absl::StrSplit(inner, ',')) {
      const std::pair<absl::string_view, absl::string_view> ends =
          absl::StrSplit(field, absl::MaxSplits(':', 1));
      Range range;
      sound = sound && absl::SimpleAtoi(ends.first, &range.begin) &&
              absl::SimpleAtoi(ends.second, &range.end);
      box.push_back(range);
    }
  }
  // The text is also part of a name in a file, so there is one way to write a box.
  if (!sound || BoxToString(box) != text) {
    return absl::InvalidArgumentError(
        absl::StrCat("box: expected ranges like [0:4,2:8], got \"", text.substr(0, 80), "\""));
  }
  return box;
}

bool IsInside(const Box& box, const Shape& shape) {
  if (static_cast<int>(box.size()) != shape.rank()) return false;
  for (int d = 0; d < shape.rank(); ++d) {
    if (box[d].begin < 0 || box[d].begin > box[d].end || box[d].end > shape[d]) return false;
  }
  return true;
}

// How often an element is held, less once for the whole, is a function on a grid. Its differences
// along all dimensions are zero everywhere but at corners of boxes, and they are all zero only if
// the function is. At the first place in lexicographic order where they are not, they are the
// function's value, since no other such place lies before it in every dimension.
absl::Status CheckCover(const TensorEntry& tensor, absl::Span<const StoredBox> boxes,
                        int32_t parts) {
  const Box whole = WholeBox(tensor.shape);
  if (Volume(whole) == 0) return absl::OkStatus();
  std::vector<int> cut;  // dimensions
  for (int d = 0; d < tensor.shape.rank(); ++d) {
    if (std::any_of(boxes.begin(), boxes.end(),
                    [&](const StoredBox& stored) { return stored.box[d] != whole[d]; })) {
      cut.push_back(d);
    }
  }
  if (cut.size() > kMostCut) {
    return absl::DataLossError(absl::StrCat("tensor ", tensor.name, ": expected boxes cut along ",
                                            kMostCut, " dimensions at most, got ", cut.size()));
  }
  const auto count = static_cast<int32_t>(boxes.size());
  std::vector<Corner> corners;
  corners.reserve((boxes.size() + 1) << cut.size());
  for (int32_t b = 0; b <= count; ++b) {
    for (uint32_t ends = 0; ends < 1u << cut.size(); ++ends) corners.push_back({b, ends});
  }
  const auto place = [&](const Corner& corner, size_t i) {
    const Range range = (corner.box < count ? boxes[corner.box].box : whole)[cut[i]];
    return (corner.ends >> i & 1) != 0 ? range.end : range.begin;
  };
  const auto before = [&](const Corner& a, const Corner& b) {
    for (size_t i = 0; i < cut.size(); ++i) {
      const int64_t of_a = place(a, i), of_b = place(b, i);
      if (of_a != of_b) return of_a < of_b;
    }
    return false;
  };
  std::sort(corners.begin(), corners.end(), before);
  for (size_t i = 0, next = 0; i < corners.size(); i = next) {
    int64_t difference = 0;
    for (; next < corners.size() && !before(corners[i], corners[next]); ++next) {
      const int sign = std::popcount(corners[next].ends) % 2 == 0 ? 1 : -1;
      difference += corners[next].box < count ? sign : -sign;
    }
    if (difference == 0) continue;
    Shape element;
    for (int d = 0; d < tensor.shape.rank(); ++d) element.Append(0);
    for (size_t d = 0; d < cut.size(); ++d) element[cut[d]] = place(corners[i], d);
    return NotOnce(tensor, boxes, parts, element, difference + 1);
  }
  return absl::OkStatus();
}

}  // namespace sluice
