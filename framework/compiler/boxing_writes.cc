#include "framework/compiler/boxing_writes.h"

#include "framework/base/log.h"

namespace sluice {
namespace {

bool Inside(const Box& inner, const Box& outer) {
  for (size_t d = 0; d < inner.size(); ++d) {
    if (inner[d].begin < outer[d].begin || inner[d].end > outer[d].end) return false;
  }
  return true;
}

}  // namespace

int64_t FlatOffset(const Box& outer, const Box& inner) {
  const Shape strides = ShapeOf(outer).Strides();
  int64_t offset = 0;
  for (size_t d = 0; d < inner.size(); ++d) {
    offset += (inner[d].begin - outer[d].begin) * strides[static_cast<int>(d)];
  }
  return offset;
}

std::pair<int64_t, Shape> Locate(const std::vector<Box>& pieces, const Box& box) {
  int64_t base = 0;
  for (const Box& piece : pieces) {
    if (Inside(box, piece)) return {base + FlatOffset(piece, box), ShapeOf(piece).Strides()};
    base += Volume(piece);
  }
  SLUICE_CHECK(false) << "a boxing reads " << BoxToString(box) << ", which its buffer lacks";
  return {};
}

int64_t Elements(const std::vector<Box>& pieces) {
  int64_t elements = 0;
  for (const Box& piece : pieces) elements += Volume(piece);
  return elements;
}

}  // namespace sluice
