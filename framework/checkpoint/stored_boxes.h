// Which boxes of its tensors a checkpoint of several parts has, and where. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_STORED_BOXES_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_STORED_BOXES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/checkpoint/safetensors.h"
#include "framework/tensor/shape.h"

namespace sluice {

struct StoredBox {
  int32_t part = 0;  // from 0
  Box box;
  std::string digest;
};

// The file of a part's tensors, "tensors-00001-of-00004.safetensors" for the first; of no parts
// "tensors.safetensors".
std::string TensorsFile(int32_t part, int32_t parts);
// What a box of a tensor is called there: "h0/up [0:4,0:8]".
std::string StoredName(absl::string_view tensor, const Box& box);

// "f32[2,3]", of less than 2^63 bytes.
std::string PrintType(DType dtype, const Shape& shape);
absl::StatusOr<TensorEntry> ParseType(absl::string_view tensor, absl::string_view type);
// Of BoxToString's text.
absl::StatusOr<Box> ParseBox(absl::string_view text);

// Has the box a range inside each of the shape's dimensions?
bool IsInside(const Box& box, const Shape& shape);
// Do the boxes, which lie inside and have elements, hold every element of the tensor once? The
// error names the first element that they do not, and who holds it. Takes n log n in the number of
// boxes, wherever they lie.
absl::Status CheckCover(const TensorEntry& tensor, absl::Span<const StoredBox> boxes,
                        int32_t parts);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_STORED_BOXES_H_
