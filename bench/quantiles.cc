#include "bench/quantiles.h"

#include <algorithm>
#include <cstddef>

#include "framework/base/log.h"

namespace sluice {

double Median(std::vector<double> values) {
  SLUICE_CHECK(!values.empty()) << "the median of nothing";
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double LowerQuartile(std::vector<double> values) {
  SLUICE_CHECK(!values.empty()) << "the quartile of nothing";
  const auto quartile = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), quartile, values.end());
  return *quartile;
}

}  // namespace sluice
