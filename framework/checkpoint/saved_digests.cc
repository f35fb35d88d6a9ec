#include "framework/checkpoint/saved_digests.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/tensor/array.h"
#include "framework/tensor/finite.h"

namespace sluice {
namespace {

// "[2,0,5]" of element 65 of a tensor [3,4,15].
std::string PlaceOf(int64_t element, const Shape& shape) {
  std::string place;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    place = absl::StrCat(element % shape[d], place.empty() ? "" : ",", place);
    element /= shape[d];
  }
  return absl::StrCat("[", place, "]");
}

}  // namespace

absl::Status SavedDigests::Add(const TensorEntry& entry, int64_t first,
                               absl::Span<const std::byte> piece) {
  if (first == 0) {
    Finish();
    hasher_ = std::make_unique<StableByteHasher>();
  }
  const auto elements = static_cast<int64_t>(piece.size()) / SizeOf(entry.dtype);
  const std::optional<int64_t> bad = FirstNotFinite(entry.dtype, piece.data(), elements);
  hasher_->Add(piece.data(), piece.size());
  if (!bad) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("tensor ", entry.name, ": expected finite values, got ",
                                            LoadElement(entry.dtype, piece.data(), *bad), " at ",
                                            PlaceOf(first + *bad, entry.shape)));
}

PieceObserver SavedDigests::Observer() {
  return [this](const TensorEntry& entry, int64_t first, absl::Span<const std::byte> piece) {
    return Add(entry, first, piece);
  };
}

void SavedDigests::Finish() {
  if (hasher_) digests_.push_back(HashText(hasher_->digest()));
  hasher_.reset();
}

std::vector<std::string> SavedDigests::TakeDigests() && {
  Finish();
  return std::move(digests_);
}

}  // namespace sluice
