// Shapes, half-open ranges and boxes of a logical tensor. Pure values; any thread.
#ifndef SLUICE_FRAMEWORK_TENSOR_SHAPE_H_
#define SLUICE_FRAMEWORK_TENSOR_SHAPE_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

// The extents of a tensor, outermost first. Rank 0 is a scalar of one element.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int dim) const { return dims_[dim]; }
  int64_t& operator[](int dim) { return dims_[dim]; }
  absl::Span<const int64_t> dims() const { return dims_; }
  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }
  void Append(int64_t extent) { dims_.push_back(extent); }

  int64_t NumElements() const;
  // Row-major strides in elements.
  Shape Strides() const;
  // Returns the index of an element by its place in the row-major array: [1,0] for 3 in [2,3].
  Shape IndexOf(int64_t element) const;
  // "[2,3]"; a scalar is "[]".
  std::string ToString() const;
  static absl::StatusOr<Shape> Parse(absl::string_view text);

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims_ == b.dims_; }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }
  friend bool operator<(const Shape& a, const Shape& b) { return a.dims_ < b.dims_; }

 private:
  absl::InlinedVector<int64_t, 5> dims_;
};

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
  friend auto operator<=>(const Range&, const Range&) = default;
};

// The i-th of `shards` balanced pieces of a range: the first size % shards get one element more;
// a piece may be empty.
Range Cut(Range range, int64_t shards, int64_t i);

// One range per dimension of a logical tensor.
using Box = absl::InlinedVector<Range, 5>;

Box WholeBox(const Shape& shape);
int64_t Volume(const Box& box);
Shape ShapeOf(const Box& box);
// Where the two overlap; a dimension without overlap comes back empty (begin == end).
Box Intersect(const Box& a, const Box& b);
std::string BoxToString(const Box& box);  // "[0:4,2:8]"

// Calls fn(flat index in the row-major array of `outer`) for each row of `inner`, which lies in
// `outer`, in order; a row is the innermost dimension, `length` elements long.
void ForEachRow(const Box& outer, const Box& inner,
                const std::function<void(int64_t offset, int64_t length)>& fn);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TENSOR_SHAPE_H_
