#include "framework/runtime/port_copy.h"

#include <vector>

#include "framework/tensor/array.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

std::byte* Bytes(std::vector<int32_t>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

// Every box of small tensors, at every micro-batch, equals Slice and Assign of tensor/array.h.
TEST(PortCopyTest, EqualsSliceAndAssign) {
  const Shape logical{4, 3, 2};
  Array whole(logical);
  std::vector<int32_t> host(24);
  for (int i = 0; i < 24; ++i) whole.values[i] = host[i] = i;
  int boxes = 0;
  for (int64_t a = 0; a < 2; ++a) {
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t b_end = b; b_end <= 3; ++b_end) {
        for (int64_t c = 0; c < 2; ++c) {
          const Shard shard = {DType::kI32,    Shape{2, b_end - b, 2 - c},
                               logical,        Shape{a, b, c},
                               Shape{1, 0, 0}, Reduction::kNone};
          const PortCopy copy(shard);
          for (int32_t micro = 0; micro + a <= 2; ++micro) {
            const Array expected = Slice(whole, WholeBox(logical), shard.BoxAt(micro));
            std::vector<int32_t> got(expected.values.size(), -1);
            copy.Feed(Bytes(host), micro, Bytes(got));
            EXPECT_EQ(std::vector<double>(got.begin(), got.end()), expected.values);
            std::vector<int32_t> back(24, -1);
            copy.Fetch(Bytes(got), micro, Bytes(back));
            Array expected_back(logical, -1);
            Assign(expected, shard.BoxAt(micro), WholeBox(logical), &expected_back);
            EXPECT_EQ(std::vector<double>(back.begin(), back.end()), expected_back.values);
            ++boxes;
          }
        }
      }
    }
  }
  EXPECT_GT(boxes, 80);
}

TEST(PortCopyTest, CopiesScalars) {
  const PortCopy copy(Shard::Whole(DType::kI32, Shape{}));
  std::vector<int32_t> host = {7}, shard = {0};
  copy.Feed(Bytes(host), 0, Bytes(shard));
  EXPECT_EQ(shard[0], 7);
}

}  // namespace
}  // namespace sluice
