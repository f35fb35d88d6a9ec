// IDX, the format of MNIST: a header of four bytes and an extent of four for each dimension, all
// big-endian, then the elements, row-major. Files may be packed. Only elements of one byte are
// read. Any thread; no state.
#ifndef SLUICE_FRAMEWORK_DATA_IDX_H_
#define SLUICE_FRAMEWORK_DATA_IDX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/tensor/shape.h"

namespace sluice {

struct IdxArray {
  Shape shape;  // of at least one dimension
  std::vector<uint8_t> values;
};

// Errors begin with `name`: another format, more or fewer elements than the header says, a packed
// file that is damaged. Nothing is allocated that the bytes cannot fill.
absl::StatusOr<IdxArray> ParseIdx(absl::string_view name, absl::string_view bytes);
absl::StatusOr<IdxArray> ReadIdx(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_IDX_H_
