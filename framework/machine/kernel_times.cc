#include "framework/machine/kernel_times.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/log.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr absl::string_view kCold = ".cold";
// Bounds of the text form, so that no text makes a grid that does not fit or a sum that overflows.
constexpr int64_t kMostPoints = 4096, kLargest = int64_t{1} << 40;

// The point below a size on an axis, and how far the size is on the way to the next.
struct Place {
  int64_t point = 0;
  double share = 0;  // above 1: past the last point
};

Place PlaceOf(const std::vector<int64_t>& axis, int64_t size) {
  const int64_t last = static_cast<int64_t>(axis.size()) - 1;
  if (last == 0 || size <= axis[0]) return {};
  int64_t point = 0;
  while (point + 1 < last && axis[point + 1] <= size) ++point;
  return {point, static_cast<double>(size - axis[point]) /
                     static_cast<double>(axis[point + 1] - axis[point])};
}

absl::StatusOr<std::vector<int64_t>> ParseNumbers(absl::string_view text, bool ascending) {
  std::vector<int64_t> numbers;
  for (absl::string_view word : absl::StrSplit(text, ',')) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(word, &number) || number < 1 || number > kLargest) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected numbers from 1 to 2^40, got \"", word, "\""));
    }
    if (ascending && !numbers.empty() && number <= numbers.back()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ascending sizes, got ", numbers.back(), ",", number));
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

int64_t KernelTimes::At(absl::Span<const int64_t> at) const {
  SLUICE_CHECK_EQ(at.size(), sizes.size());
  std::vector<double> times(nanoseconds.begin(), nanoseconds.end());
  // The innermost axis is folded away first.
  for (size_t d = sizes.size(); d-- > 0;) {
    const int64_t points = static_cast<int64_t>(sizes[d].size());
    const Place place = PlaceOf(sizes[d], at[d]);
    std::vector<double> folded;
    for (size_t row = 0; row < times.size(); row += points) {
      double time = times[row + place.point];
      if (place.share > 0) {
        const double rise = times[row + place.point + 1] - time;
        time += std::min(place.share, 1.0) * rise;
        if (place.share > 1 && rise > 0) time += (place.share - 1) * rise;
      }
      folded.push_back(time);
    }
    times = std::move(folded);
  }
  return std::max<int64_t>(1, std::llround(std::min(times[0], 9e15)));
}

std::string KernelTimes::Name() const {
  return absl::StrCat(kernel, ".", threads, cold ? kCold : "");
}

std::string KernelTimes::ValueText() const {
  std::vector<std::string> axes;
  for (const std::vector<int64_t>& axis : sizes) axes.push_back(absl::StrJoin(axis, ","));
  return absl::StrCat(absl::StrJoin(axes, "/"), ":", absl::StrJoin(nanoseconds, ","));
}

absl::StatusOr<KernelTimes> KernelTimes::Parse(absl::string_view name, absl::string_view value) {
  KernelTimes times;
  absl::string_view rest = name;
  times.cold = absl::ConsumeSuffix(&rest, kCold);
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(rest, absl::MaxSplits('.', 1));
  times.kernel = std::string(words.first);
  if (times.kernel.empty() || !absl::SimpleAtoi(words.second, &times.threads) ||
      times.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a kernel and its threads, as in matmul.1, got \"", name, "\""));
  }
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(value, absl::MaxSplits(':', 1));
  int64_t points = 1;
  for (absl::string_view axis : absl::StrSplit(halves.first, '/')) {
    ASSIGN_OR_RETURN(std::vector<int64_t> sizes, ParseNumbers(axis, true));
    points *= static_cast<int64_t>(sizes.size());
    if (points > kMostPoints) {
      return absl::InvalidArgumentError(absl::StrCat("expected at most ", kMostPoints, " points"));
    }
    times.sizes.push_back(std::move(sizes));
  }
  ASSIGN_OR_RETURN(times.nanoseconds, ParseNumbers(halves.second, false));
  if (static_cast<int64_t>(times.nanoseconds.size()) != points) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", points, " times, got ", times.nanoseconds.size()));
  }
  return times;
}

}  // namespace sluice
