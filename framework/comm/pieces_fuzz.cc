// Two bytes of a slot's size, then a pull as it comes from the wire. A request that is found good
// is within the slot: each of its elements is found again, in the order of its indices.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "framework/base/log.h"
#include "framework/comm/frames.h"
#include "framework/comm/pieces.h"

namespace {

using Piece = sluice::PullRequest::Piece;

// Where the piece's n-th element begins in the slot.
int64_t OffsetOf(const Piece& piece, int32_t element, int64_t n) {
  int64_t offset = piece.offset;
  for (size_t d = piece.extent.size(); d-- > 0;) {
    offset += n % piece.extent[d] * piece.strides[d] * element;
    n /= piece.extent[d];
  }
  return offset;
}

int64_t ElementsOf(const Piece& piece) {
  __int128 elements = 1;
  for (const int64_t extent : piece.extent) elements = extent == 0 ? 0 : elements * extent;
  return static_cast<int64_t>(elements);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint16_t slot_bytes = 0;
  if (size < sizeof(slot_bytes)) return 0;
  std::memcpy(&slot_bytes, data, sizeof(slot_bytes));
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const absl::StatusOr<sluice::Frame> frame = sluice::ReadFrame(bytes.subspan(sizeof(slot_bytes)));
  if (!frame.ok() || frame->type != sluice::FrameType::kPull) return 0;
  const sluice::PullRequest& request = frame->request;
  if (!sluice::CheckPieces(request, slot_bytes).ok()) return 0;

  // Exactly as large as they are said to be, so that a sanitizer sees who leaves them.
  const auto slot = std::make_unique<std::byte[]>(slot_bytes);
  for (size_t i = 0; i < slot_bytes; ++i) slot[i] = static_cast<std::byte>(i * 7 + i / 251);
  const absl::Span<const std::byte> whole(slot.get(), slot_bytes);
  const auto to = std::make_unique<std::byte[]>(request.bytes);
  sluice::Gather(request, whole, to.get());
  const std::byte* at = to.get();
  for (const Piece& piece : request.pieces) {
    const int64_t elements = ElementsOf(piece);
    for (int64_t n = 0; n < elements; ++n, at += request.element_bytes) {
      const int64_t offset = OffsetOf(piece, request.element_bytes, n);
      SLUICE_CHECK(offset >= 0 && offset + request.element_bytes <= slot_bytes);
      SLUICE_CHECK(std::memcmp(at, slot.get() + offset, request.element_bytes) == 0);
    }
  }
  SLUICE_CHECK_EQ(at - to.get(), request.bytes);
  int64_t visited = 0;
  sluice::ForEachRun(request, whole, [&](absl::Span<const std::byte> run) {
    SLUICE_CHECK(!run.empty());
    SLUICE_CHECK(std::memcmp(to.get() + visited, run.data(), run.size()) == 0);
    visited += static_cast<int64_t>(run.size());
  });
  SLUICE_CHECK_EQ(visited, request.bytes);
  return 0;
}
