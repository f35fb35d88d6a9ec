#include "framework/data/batch.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Sample n gives "number", n, and "pair", {10 n, 10 n + 1}; sample 99 cannot be read.
class Numbers : public Dataset {
 public:
  int64_t num_samples() const override { return 100; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return {}; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t, const Box&,
                    std::byte* to) const override {
    auto* values = reinterpret_cast<int32_t*>(to);
    for (const int64_t sample : samples) {
      if (sample == 99) return absl::DataLossError(absl::StrCat("sample ", sample));
      const auto number = static_cast<int32_t>(sample);
      if (field == 0) *values++ = number;
      if (field == 1) *values++ = 10 * number, *values++ = 10 * number + 1;
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<SampleField> fields_ = {{"number", DType::kI32, {}},
                                            {"pair", DType::kI32, {2}}};
};

TEST(BatchTest, RowsAreTheSamplesOfTheOrder) {
  const Numbers numbers;
  Batch batch(numbers, 90);  // more than are read at once
  EXPECT_THAT(batch.names, ::testing::ElementsAre("number", "pair"));
  EXPECT_EQ(batch.tensors[0].shape, Shape({90}));
  EXPECT_EQ(batch.tensors[1].shape, Shape({90, 2}));
  const SampleOrder order = {SampleOrder::kSpread, 0, 100};
  ASSERT_TRUE(ReadBatch(numbers, order, 9, &batch).ok());
  for (int row = 0; row < 90; ++row) {
    EXPECT_EQ(batch.tensors[0].data<int32_t>()[row], 9 + row);
    EXPECT_EQ(batch.tensors[1].data<int32_t>()[2 * row + 1], 10 * (9 + row) + 1);
  }
}

TEST(BatchTest, ASampleIsAFunctionOfItsPositionAndNotOfTheBatch) {
  const Numbers numbers;
  Batch four(numbers, 4), two(numbers, 2);
  const SampleOrder order = {SampleOrder::kRandom, 1};
  ASSERT_TRUE(ReadBatch(numbers, order, 4, &four).ok());
  ASSERT_TRUE(ReadBatch(numbers, order, 6, &two).ok());
  for (int row = 0; row < 2; ++row) {
    EXPECT_EQ(two.tensors[0].data<int32_t>()[row], four.tensors[0].data<int32_t>()[2 + row]);
  }
}

TEST(BatchTest, ASampleThatCannotBeReadIsAnError) {
  const Numbers numbers;
  Batch batch(numbers, 100);
  EXPECT_EQ(ReadBatch(numbers, {SampleOrder::kSpread, 0, 100}, 0, &batch),
            absl::DataLossError("sample 99"));
}

}  // namespace
}  // namespace sluice
