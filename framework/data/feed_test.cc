#include "framework/data/feed.h"

#include <cstring>
#include <vector>

#include "framework/data/batch.h"
#include "framework/data/text_dataset.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Of each sample the position at which it is seen.
class Positions : public Dataset {
 public:
  int64_t num_samples() const override { return 1000; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return {}; }
  absl::Status Fill(int, absl::Span<const int64_t> samples, int64_t position, const Box&,
                    std::byte* to) const override {
    for (size_t i = 0; i < samples.size(); ++i) {
      reinterpret_cast<int32_t*>(to)[i] = static_cast<int32_t>(position + static_cast<int64_t>(i));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<SampleField> fields_ = {{"position", DType::kI32, {}}};
};

TEST(FeedTest, ARowKnowsItsPositionInTheOrder) {
  const Positions positions;
  std::vector<int32_t> got(150);
  ASSERT_TRUE(FillRows({&positions, 0, {SampleOrder::kRandom, 3}, 1000}, {{20, 170}},
                       reinterpret_cast<std::byte*>(got.data()))
                  .ok());
  for (int i = 0; i < 150; ++i) ASSERT_EQ(got[i], 1020 + i);
}

TEST(FeedTest, APartIsThePartOfTheWholeBatch) {
  constexpr int64_t kRows = 150, kLength = 12;
  std::string text;
  for (int i = 0; i < 400; ++i) text += static_cast<char>('a' + i * 7 % 26);
  const auto dataset = TextDataset::Create("text", text, kLength);
  ASSERT_TRUE(dataset.ok());
  const SampleOrder order = {SampleOrder::kRandom, 3};
  Batch whole(*dataset, kRows);
  ASSERT_TRUE(ReadBatch(*dataset, order, 1000, &whole).ok());
  const std::vector<Box> boxes = {
      {{0, 150}, {0, 12}}, {{3, 4}, {0, 12}}, {{20, 149}, {5, 9}}, {{7, 7}, {0, 12}}};
  for (int field = 0; field < 2; ++field) {
    const int32_t* expected = whole.tensors[field].data<int32_t>();
    for (const Box& box : boxes) {
      std::vector<int32_t> got(Volume(box) + 1, -1);
      ASSERT_TRUE(
          FillRows({&*dataset, field, order, 1000}, box, reinterpret_cast<std::byte*>(got.data()))
              .ok());
      size_t at = 0;
      for (int64_t row = box[0].begin; row < box[0].end; ++row) {
        for (int64_t i = box[1].begin; i < box[1].end; ++i, ++at) {
          ASSERT_EQ(got[at], expected[row * kLength + i]) << BoxToString(box);
        }
      }
      EXPECT_EQ(got.back(), -1) << "written behind the part";
    }
  }
}

}  // namespace
}  // namespace sluice
