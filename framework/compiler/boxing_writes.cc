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

// Whether `inner` is one contiguous run of the row-major array of `outer`.
bool Contiguous(const Box& inner, const Box& outer) {
  bool whole = true;  // all dimensions further in are taken whole
  for (int d = static_cast<int>(inner.size()) - 1; d >= 0; --d) {
    if (!whole && inner[d].size() != 1) return false;
    whole &= inner[d] == outer[d];
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

int64_t Elements(const BoxingBuffer& buffer) {
  int64_t elements = 0;
  for (const Box& piece : buffer.pieces) elements += Volume(piece);
  return elements;
}

int64_t OffsetInPlace(const Boxing& boxing, const BoxingWrite& write) {
  const BoxingBuffer& buffer = boxing.buffers[write.buffer];
  if (write.regions.size() != 1 || write.fill_identity || buffer.pieces.size() != 1) return -1;
  const BoxingRegion& region = write.regions[0];
  const BoxingBuffer& from = boxing.buffers[region.sources[0]];
  if (region.fold.size() != 1 || region.box != buffer.pieces[0] || from.device != buffer.device ||
      Volume(region.box) == 0) {
    return -1;
  }
  for (const Box& piece : from.pieces) {
    if (!Inside(region.box, piece) || !Contiguous(region.box, piece)) continue;
    return Locate(from.pieces, region.box).first;
  }
  return -1;
}

std::pair<int64_t, int64_t> CountBytes(const Boxing& boxing, const BoxingWrite& write,
                                       int64_t element) {
  const DeviceId device = boxing.buffers[write.buffer].device;
  int64_t all = 0, wire = 0;
  for (const BoxingRegion& region : write.regions) {
    const int64_t bytes = Volume(region.box) * element;
    all += bytes * static_cast<int64_t>(region.sources.size() + 1);
    for (int source : region.sources) {
      if (boxing.buffers[source].device != device) wire += bytes;
    }
  }
  return {all, wire};
}

}  // namespace sluice
