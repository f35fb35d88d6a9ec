#include "framework/comm/pieces.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

bool Multiply(int64_t a, int64_t b, int64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

bool Add(int64_t a, int64_t b, int64_t* sum) { return !__builtin_add_overflow(a, b, sum); }

// Bytes of a piece and where it ends in its slot; false where one of them is no number of bytes.
bool SizeOfPiece(const PullRequest::Piece& piece, int32_t element, int64_t* bytes, int64_t* end) {
  if (piece.extent.size() != piece.strides.size() || piece.offset < 0) return false;
  *bytes = element;
  *end = element;
  for (size_t d = 0; d < piece.extent.size(); ++d) {
    int64_t last = 0;
    if (piece.extent[d] < 0 || piece.strides[d] < 0) return false;
    if (!Multiply(*bytes, piece.extent[d], bytes)) return false;
    if (!Multiply(piece.extent[d] - 1, piece.strides[d], &last)) return false;
    if (!Multiply(last, element, &last) || !Add(*end, last, end)) return false;
  }
  return Add(*end, piece.offset, end);
}

// How many of the last dimensions lie without gaps, and the elements of them together.
size_t ContiguousDims(const PullRequest::Piece& piece, int64_t* elements) {
  *elements = 1;
  size_t dim = piece.extent.size();
  while (dim > 0 && (piece.extent[dim - 1] == 1 || piece.strides[dim - 1] == *elements)) {
    *elements *= piece.extent[--dim];
  }
  return dim;
}

template <typename Visit>
void VisitRuns(const PullRequest::Piece& piece, int32_t element, const std::byte* from, size_t dim,
               size_t outer, int64_t run_bytes, const Visit& visit) {
  if (dim == outer) return visit(absl::Span<const std::byte>(from, run_bytes));
  for (int64_t i = 0; i < piece.extent[dim]; ++i) {
    VisitRuns(piece, element, from + i * piece.strides[dim] * element, dim + 1, outer, run_bytes,
              visit);
  }
}

template <typename Visit>
void VisitPieces(const PullRequest& request, absl::Span<const std::byte> slot, const Visit& visit) {
  for (const PullRequest::Piece& piece : request.pieces) {
    int64_t elements = 1;
    for (const int64_t extent : piece.extent) elements *= extent;
    if (elements == 0) continue;
    int64_t run = 1;
    const size_t outer = ContiguousDims(piece, &run);
    VisitRuns(piece, request.element_bytes, slot.data() + piece.offset, 0, outer,
              run * request.element_bytes, visit);
  }
}

}  // namespace

absl::Status CheckPieces(const PullRequest& request, int64_t slot_bytes) {
  if (request.element_bytes < 1 || request.bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("elements of ", request.element_bytes,
                                                   " bytes, ", request.bytes, " bytes in all"));
  }
  int64_t all = 0;
  for (const PullRequest::Piece& piece : request.pieces) {
    int64_t bytes = 0, end = 0;
    if (!SizeOfPiece(piece, request.element_bytes, &bytes, &end) || !Add(all, bytes, &all)) {
      return absl::InvalidArgumentError("a piece whose size is no number");
    }
    if (bytes > 0 && end > slot_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("bytes [", piece.offset, ", ", end, ") of a slot that has ", slot_bytes));
    }
  }
  // A pull names no element twice, so it brings no more than there is; strides of 0 would else make
  // an answer of any size out of a small slot.
  if (all > slot_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("pieces of ", all, " bytes of a slot that has ", slot_bytes));
  }
  if (all == request.bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("pieces of ", all, " bytes that should have ", request.bytes));
}

void ForEachRun(const PullRequest& request, absl::Span<const std::byte> slot,
                const std::function<void(absl::Span<const std::byte> run)>& visit) {
  VisitPieces(request, slot, visit);
}

bool LieInRow(const PullRequest& request, int64_t* offset) {
  int64_t end = -1;
  for (const PullRequest::Piece& piece : request.pieces) {
    int64_t elements = 1;
    for (const int64_t extent : piece.extent) elements *= extent;
    if (elements == 0) continue;
    int64_t run = 1;
    ContiguousDims(piece, &run);
    if (run != elements || (end >= 0 && piece.offset != end)) return false;
    if (end < 0) *offset = piece.offset;
    end = piece.offset + elements * request.element_bytes;
  }
  return end >= 0;
}

void Gather(const PullRequest& request, absl::Span<const std::byte> slot, std::byte* to) {
  VisitPieces(request, slot, [&to](absl::Span<const std::byte> run) {
    std::memcpy(to, run.data(), run.size());
    to += run.size();
  });
}

}  // namespace sluice
