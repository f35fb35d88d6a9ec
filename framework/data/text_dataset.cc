#include "framework/data/text_dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"

namespace sluice {

TextDataset::TextDataset(std::string text, int64_t length)
    : text_(std::move(text)),
      length_(length),
      fields_({{"tokens", DType::kI32, {length}}, {"labels", DType::kI32, {length}}}),
      identity_({static_cast<int64_t>(text_.size()), StableHash(text_)}) {}

absl::StatusOr<TextDataset> TextDataset::Create(absl::string_view what, std::string text,
                                                int64_t length) {
  if (static_cast<int64_t>(text.size()) <= length) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": a sequence of ", length,
                                                   " tokens needs at least ", length + 1,
                                                   " bytes, got ", text.size()));
  }
  return TextDataset(std::move(text), length);
}

int64_t TextDataset::covering_samples() const {
  // Of n bytes n - 1 are labels: the first follows nothing.
  return (static_cast<int64_t>(text_.size()) - 1 + length_ - 1) / length_;
}

absl::Status TextDataset::Fill(int field, absl::Span<const int64_t> samples, int64_t,
                               const Box& box, std::byte* to) const {
  const int64_t begin = box[0].begin + field;  // labels are tokens one later
  const int64_t size = box[0].size();
  auto* values = reinterpret_cast<int32_t*>(to);
  for (const int64_t sample : samples) {
    const char* bytes = text_.data() + sample + begin;
    for (int64_t i = 0; i < size; ++i) values[i] = static_cast<uint8_t>(bytes[i]);
    values += size;
  }
  return absl::OkStatus();
}

}  // namespace sluice
