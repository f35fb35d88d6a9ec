#include "framework/data/text_dataset.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"

namespace sluice {
namespace {

absl::string_view BytesOf(const std::string& text) { return text; }
absl::string_view BytesOf(const std::vector<int32_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)};
}

int32_t TokenOf(char byte) { return static_cast<uint8_t>(byte); }
int32_t TokenOf(int32_t token) { return token; }

}  // namespace

template <typename Sequence>
SequenceDataset<Sequence>::SequenceDataset(Sequence sequence, int64_t length)
    : sequence_(std::move(sequence)),
      length_(length),
      fields_({{"tokens", DType::kI32, {length}}, {"labels", DType::kI32, {length}}}),
      identity_({static_cast<int64_t>(BytesOf(sequence_).size()), StableHash(BytesOf(sequence_))}) {
}

template <typename Sequence>
absl::StatusOr<SequenceDataset<Sequence>> SequenceDataset<Sequence>::Create(absl::string_view what,
                                                                            Sequence sequence,
                                                                            int64_t length) {
  if (static_cast<int64_t>(sequence.size()) <= length) {
    const bool bytes = std::is_same_v<Sequence, std::string>;
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": a sequence of ", length, " tokens needs at least ", length + 1,
                     bytes ? " bytes" : " tokens", ", got ", sequence.size()));
  }
  return SequenceDataset(std::move(sequence), length);
}

template <typename Sequence>
int64_t SequenceDataset<Sequence>::covering_samples() const {
  // Of n tokens n - 1 are labels: the first follows nothing.
  return (static_cast<int64_t>(sequence_.size()) - 1 + length_ - 1) / length_;
}

template <typename Sequence>
absl::Status SequenceDataset<Sequence>::Fill(int field, absl::Span<const int64_t> samples, int64_t,
                                             const Box& box, std::byte* to) const {
  const int64_t begin = box[0].begin + field;  // labels are tokens one later
  const int64_t size = box[0].size();
  auto* values = reinterpret_cast<int32_t*>(to);
  for (const int64_t sample : samples) {
    const auto* from = sequence_.data() + sample + begin;
    for (int64_t i = 0; i < size; ++i) values[i] = TokenOf(from[i]);
    values += size;
  }
  return absl::OkStatus();
}

template class SequenceDataset<std::string>;
template class SequenceDataset<std::vector<int32_t>>;

}  // namespace sluice
