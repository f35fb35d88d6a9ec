// What the families share for their test cases, large cases and timings. For the files of this
// package only.
#ifndef SLUICE_FRAMEWORK_OPS_CASES_H_
#define SLUICE_FRAMEWORK_OPS_CASES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "framework/graph/op_def.h"

namespace sluice {

inline TensorType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }
inline TensorType I32(Shape shape) { return {DType::kI32, std::move(shape)}; }
inline TensorType U8(Shape shape) { return {DType::kU8, std::move(shape)}; }
// `count` operands of one type.
std::vector<TensorType> Equal(size_t count, const TensorType& type);

// The shapes that most large cases are made of.
inline TensorType Wide() { return F32({301, 251}); }
inline TensorType WideRow() { return F32({251}); }
inline TensorType WideColumn() { return F32({301}); }
inline TensorType WideTable() { return F32({131, 67}); }

// A calibration's sizes, powers of two that know of no model. Many rows, or much depth, is what a
// batch gives a product.
using Axes = std::vector<std::vector<int64_t>>;
using At = absl::Span<const int64_t>;
Axes Elements();      // elements
Axes RowsByLength();  // rows, their length
Axes Heads();         // heads of all samples, positions, size of a head
Axes ManyRows();      // rows, columns, depth of a product
Axes MuchDepth();     // the same
// Of `kInputs` operands of equal shape, by elements.
template <size_t kInputs>
OpTiming TimedByElements() {
  return {Elements(), [](At at) {
            return OpCase{"", NoAttributes(), Equal(kInputs, F32({at[0]}))};
          }};
}

// Why flat rates will do (OpTiming::flat_because).
constexpr char kMovesBytes[] = "passes over its bytes once, as the flat rate of memory says";
constexpr char kFewScalars[] = "works on a few scalars, and takes no more than its launch";
constexpr char kNotInModels[] = "no model of ours has it: it gets sizes with the first one";
OpTiming NotTimed(const char* because);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_CASES_H_
