#include "framework/data/text_dataset.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

DataIdentity IdentityOf(absl::string_view bytes) {
  return {static_cast<int64_t>(bytes.size()), StableHash(bytes)};
}
DataIdentity IdentityOf(const std::vector<int32_t>& tokens) {
  return IdentityOf(absl::string_view(reinterpret_cast<const char*>(tokens.data()),
                                      tokens.size() * sizeof(int32_t)));
}
DataIdentity IdentityOf(const TokenSequence& tokens) { return tokens.identity(); }

absl::Status Copy(const std::string& text, int64_t begin, int64_t count, int32_t* to) {
  const char* const from = text.data() + begin;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint8_t>(from[i]);
  return absl::OkStatus();
}
absl::Status Copy(const std::vector<int32_t>& tokens, int64_t begin, int64_t count, int32_t* to) {
  std::copy_n(tokens.data() + begin, count, to);
  return absl::OkStatus();
}
absl::Status Copy(const TokenSequence& tokens, int64_t begin, int64_t count, int32_t* to) {
  return tokens.Read(begin, count, to);
}

}  // namespace

template <typename Sequence>
SequenceDataset<Sequence>::SequenceDataset(Sequence sequence, int64_t length)
    : sequence_(std::move(sequence)),
      length_(length),
      fields_({{"tokens", DType::kI32, {length}}, {"labels", DType::kI32, {length}}}),
      identity_(IdentityOf(sequence_)) {}

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
absl::Status SequenceDataset<Sequence>::Fill(int field, absl::Span<const int64_t> samples, int64_t,
                                             const Box& box, std::byte* to) const {
  const int64_t begin = box[0].begin + field;  // labels are tokens one later
  const int64_t size = box[0].size();
  auto* values = reinterpret_cast<int32_t*>(to);
  for (const int64_t sample : samples) {
    RETURN_IF_ERROR(Copy(sequence_, sample + begin, size, values));
    values += size;
  }
  return absl::OkStatus();
}

template class SequenceDataset<std::string>;
template class SequenceDataset<std::vector<int32_t>>;
template class SequenceDataset<TokenSequence>;

}  // namespace sluice
