#include "framework/data/hugectr_raw.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/file_kind.h"

namespace sluice {
namespace {

constexpr int64_t kMostColumns = 1 << 16;

void Put(const void* values, size_t count, std::string* to) {
  to->append(static_cast<const char*>(values), 4 * count);
}

void PutNumbers(bool floats, const std::vector<float>& numbers, std::string* to) {
  if (floats) return Put(numbers.data(), numbers.size(), to);
  for (const float number : numbers) {
    // The nearest that there is: 2^32 comes of integers that a float rounds up.
    constexpr float kTooLarge = 4294967296.0f;
    const uint32_t integer = number >= kTooLarge ? std::numeric_limits<uint32_t>::max()
                             : number > 0        ? static_cast<uint32_t>(number)
                                                 : 0;
    Put(&integer, 1, to);
  }
}

void TakeNumbers(bool floats, const char* from, std::vector<float>* numbers) {
  for (float& number : *numbers) {
    uint32_t integer;
    static_assert(sizeof(integer) == sizeof(number));
    std::memcpy(floats ? static_cast<void*>(&number) : &integer, from, sizeof(integer));
    if (!floats) number = static_cast<float>(integer);
    from += sizeof(integer);
  }
}

}  // namespace

std::string RawBytes(const RawColumns& columns, const RawSample& sample) {
  std::string bytes;
  PutNumbers(columns.floats, sample.labels, &bytes);
  PutNumbers(columns.floats, sample.numbers, &bytes);
  Put(sample.keys.data(), sample.keys.size(), &bytes);
  return bytes;
}

absl::StatusOr<HugeCtrRaw> HugeCtrRaw::Open(const RawColumns& columns, RandomAccessFile file) {
  for (const int64_t count : {columns.labels - 1, columns.numbers, columns.keys}) {
    if (count < 0 || count > kMostColumns) {
      return absl::InvalidArgumentError(
          absl::StrCat("data: ", file.path(), ": expected at least one label, and no more than ",
                       kMostColumns, " columns of a kind, got ", columns.labels, " labels, ",
                       columns.numbers, " numbers and ", columns.keys, " keys"));
    }
  }
  // Any bytes can be numbers, so those of other files are told by what these begin with.
  ASSIGN_OR_RETURN(const std::string begin, ReadBegin(file, kRecognizedBytes));
  if (const RecognizedFile got = RecognizeBytes(begin); got.IsOtherThanNumbers()) {
    return absl::DataLossError(absl::StrCat("data: ", file.path(),
                                            ": expected samples in HugeCTR's Raw format, got ",
                                            DescribeFile(got, file.path())));
  }
  return HugeCtrRaw(columns, std::move(file));
}

absl::StatusOr<std::vector<RawSample>> HugeCtrRaw::Read(int64_t first, int64_t count) const {
  const int64_t size = columns_.SampleBytes();
  std::string bytes(count * size, '\0');
  RETURN_IF_ERROR(file_.ReadAt(first * size, count * size, bytes.data()));
  std::vector<RawSample> samples(count);
  for (int64_t i = 0; i < count; ++i) {
    RawSample& sample = samples[i];
    sample.labels.resize(columns_.labels);
    sample.numbers.resize(columns_.numbers);
    sample.keys.resize(columns_.keys);
    const char* at = bytes.data() + i * size;
    TakeNumbers(columns_.floats, at, &sample.labels);
    at += 4 * columns_.labels;
    TakeNumbers(columns_.floats, at, &sample.numbers);
    at += 4 * columns_.numbers;
    if (columns_.keys > 0) std::memcpy(sample.keys.data(), at, 4 * columns_.keys);
    const auto refuse = [&](const std::string& expected, float got) {
      return absl::DataLossError(absl::StrCat("data: ", file_.path(), ": sample ", first + i,
                                              " at byte ", (first + i) * size, ": expected ",
                                              expected, ", got ", got));
    };
    // Numbers may be missing, which NaN says; labels may not.
    for (const float label : sample.labels) {
      if (!std::isfinite(label)) return refuse("a label", label);
    }
    for (size_t n = 0; n < sample.numbers.size(); ++n) {
      if (!std::isinf(sample.numbers[n])) continue;
      return refuse(absl::StrCat("number ", n + 1, " to be finite, or NaN where it is missing"),
                    sample.numbers[n]);
    }
  }
  return samples;
}

}  // namespace sluice
