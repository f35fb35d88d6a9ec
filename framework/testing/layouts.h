// Layouts of a model's parity as parameters of Googletest's suites. A layout has a Stem(), which
// names it in a file and a test, and a `precision`. For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_LAYOUTS_H_
#define SLUICE_FRAMEWORK_TESTING_LAYOUTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "framework/tensor/dtype.h"

namespace sluice {

// The last argument of INSTANTIATE_TEST_SUITE_P.
struct LayoutName {
  template <typename Test>
  std::string operator()(const Test& test) const {
    return test.param.Stem();
  }
};

template <typename Layout>
std::vector<Layout> InBf16(std::vector<Layout> layouts) {
  for (Layout& layout : layouts) layout.precision.compute = DType::kBF16;
  return layouts;
}

// Six, spread over the list of all.
template <typename Layout>
std::vector<Layout> SixOf(const std::vector<Layout>& all) {
  std::vector<Layout> some;
  for (size_t n = 0; n < 6; ++n) some.push_back(all[n * all.size() / 6]);
  return some;
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_LAYOUTS_H_
