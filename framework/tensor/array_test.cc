#include "framework/tensor/array.h"

#include <numeric>

#include "gtest/gtest.h"

namespace sluice {
namespace {

Array Counting(const Shape& shape) {
  Array array(shape);
  std::iota(array.values.begin(), array.values.end(), 0.0);
  return array;
}

TEST(Array, SliceAndAssignAreInverse) {
  const Box outer = {{2, 5}, {0, 4}};
  const Array array = Counting({3, 4});
  const Box box = {{3, 5}, {1, 3}};
  const Array slice = Slice(array, outer, box);
  EXPECT_EQ(slice.shape, (Shape{2, 2}));
  EXPECT_EQ(slice.values, (std::vector<double>{5, 6, 9, 10}));
  Array other({3, 4}, -1);
  Assign(slice, box, outer, &other);
  EXPECT_EQ(other.values, (std::vector<double>{-1, -1, -1, -1, -1, 5, 6, -1, -1, 9, 10, -1}));
  EXPECT_EQ(Slice(other, outer, box).values, slice.values);
  EXPECT_TRUE(Slice(array, outer, {{3, 3}, {0, 4}}).values.empty());
  EXPECT_EQ(Slice(Counting({}), {}, {}).values, (std::vector<double>{0}));
}

TEST(HostTensor, ConvertsByElementType) {
  Array array({5});
  array.values = {1, -2, 0.5, 3.00390625, 100000};
  for (DType dtype : {DType::kF32, DType::kF64}) {
    EXPECT_EQ(ToArray(FromArray(array, dtype)).values, array.values);
  }
  EXPECT_EQ(ToArray(FromArray(array, DType::kI32)).values,
            (std::vector<double>{1, -2, 0, 3, 100000}));
  EXPECT_EQ(ToArray(FromArray(array, DType::kBF16)).values,
            (std::vector<double>{1, -2, 0.5, 3, 99840}));
  const HostTensor tensor = FromArray(array, DType::kBF16);
  EXPECT_EQ(tensor.bytes.size(), 10u);
  EXPECT_EQ(tensor.data<uint16_t>()[0], 0x3f80);
  EXPECT_EQ(LoadElement(DType::kBF16, tensor.bytes.data(), 1), -2);
}

}  // namespace
}  // namespace sluice
