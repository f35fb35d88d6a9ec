// A small Wide & Deep model as framework/testing/training_parity.h compares it, and the layouts on
// which it does. For tests of this package.
#ifndef SLUICE_MODELS_WIDE_AND_DEEP_PARITY_H_
#define SLUICE_MODELS_WIDE_AND_DEEP_PARITY_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "framework/testing/training_parity.h"
#include "models/wide_and_deep/wide_and_deep.h"

namespace sluice {

struct ClickLayout {
  std::string mesh;
  int64_t micro_batches = 1;
  bool split_columns = false;
  bool tables_apart = false;
  int zero = 0;  // passes/zero.h
  PrecisionOptions precision = {};

  std::string Name() const;  // "data=2 model=2 columns micro=2"
  std::string Stem() const;  // the same as a file name
  // Two deep tables of different widths, a third of fewer rows than a mesh may have devices, and
  // rows that many samples of a batch share.
  WideAndDeepConfig Config() const;
  friend void PrintTo(const ClickLayout& layout, std::ostream* out) { *out << layout.Name(); }
};

// One device, in f32: what the layout must equal.
ClickLayout ReferenceOf(const ClickLayout& layout);
std::vector<ClickLayout> ClickLayouts();

// With FTRL for the wide part, unless the optimizer is SGD, which then trains all.
ParityCase ClickParity(const ClickLayout& layout);

}  // namespace sluice

#endif  // SLUICE_MODELS_WIDE_AND_DEEP_PARITY_H_
