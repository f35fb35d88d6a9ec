#include "framework/plan/part_proto.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(PartProtoTest, RoundTrips) {
  Part part = Part::Whole(DType::kBF16, Shape{4, 6});
  part.local = Shape{2, 6};
  part.offset = Shape{2, 0};
  part.stride_per_micro = Shape{1, 0};
  part.owed = Reduction::kMax;
  const absl::StatusOr<Part> again = PartFromProto(PartToProto(part));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, part);
  const Part scalar = Part::Whole(DType::kF32, Shape{});
  EXPECT_EQ(*PartFromProto(PartToProto(scalar)), scalar);
}

TEST(PartProtoTest, RefusesWhatIsNoPart) {
  plan::Part part = PartToProto(Part::Whole(DType::kF32, Shape{4}));
  part.set_dtype(17);
  EXPECT_FALSE(PartFromProto(part).ok());
  part.set_dtype(0);
  part.set_owed(-1);
  EXPECT_FALSE(PartFromProto(part).ok());
  part.set_owed(0);
  part.add_offset(0);
  EXPECT_FALSE(PartFromProto(part).ok());
}

}  // namespace
}  // namespace sluice
