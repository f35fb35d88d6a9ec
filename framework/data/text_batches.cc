#include "framework/data/text_batches.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "framework/tensor/random.h"

namespace sluice {

TokenBatch::TokenBatch(int64_t batch, int64_t length)
    : tokens(DType::kI32, {batch, length}), labels(DType::kI32, {batch, length}) {}

absl::StatusOr<TextBatches> TextBatches::Create(absl::string_view what, absl::string_view text,
                                                int64_t batch, int64_t length, uint64_t seed) {
  if (static_cast<int64_t>(text.size()) <= length) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": a sequence of ", length,
                                                   " tokens needs at least ", length + 1,
                                                   " bytes, got ", text.size()));
  }
  return TextBatches(text, batch, length, seed);
}

void TextBatches::Take(int64_t row, int64_t place, TokenBatch* to) const {
  int32_t* tokens = to->tokens.data<int32_t>() + row * length_;
  int32_t* labels = to->labels.data<int32_t>() + row * length_;
  for (int64_t i = 0; i < length_; ++i) {
    tokens[i] = static_cast<uint8_t>(text_[place + i]);
    labels[i] = static_cast<uint8_t>(text_[place + i + 1]);
  }
}

void TextBatches::Random(int64_t samples_seen, TokenBatch* to) const {
  const int64_t key = RandomKey("sample");
  for (int64_t row = 0; row < batch_; ++row) {
    const std::array<uint32_t, 4> words = Philox(seed_, key, /*step=*/0, samples_seen + row);
    const uint64_t word = uint64_t{words[0]} << 32 | words[1];
    Take(row, static_cast<int64_t>(word % static_cast<uint64_t>(Places())), to);
  }
}

int64_t TextBatches::CoveringBatches() const {
  const int64_t windows = (static_cast<int64_t>(text_.size()) - 1 + length_ - 1) / length_;
  return (windows + batch_ - 1) / batch_;
}

void TextBatches::Spread(int64_t index, int64_t batches, TokenBatch* to) const {
  const int64_t windows = batches * batch_;
  for (int64_t row = 0; row < batch_; ++row) {
    const int64_t window = index * batch_ + row;
    Take(row, windows == 1 ? 0 : window * (Places() - 1) / (windows - 1), to);
  }
}

}  // namespace sluice
