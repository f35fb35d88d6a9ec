#include "framework/plan/shard_proto.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(ShardProtoTest, RoundTrips) {
  Shard shard = Shard::Whole(DType::kBF16, Shape{4, 6});
  shard.local = Shape{2, 6};
  shard.offset = Shape{2, 0};
  shard.stride_per_micro = Shape{1, 0};
  shard.partial = Reduction::kMax;
  const absl::StatusOr<Shard> again = ShardFromProto(ShardToProto(shard));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, shard);
  const Shard scalar = Shard::Whole(DType::kF32, Shape{});
  EXPECT_EQ(*ShardFromProto(ShardToProto(scalar)), scalar);
}

TEST(ShardProtoTest, RefusesWhatIsNoPart) {
  plan::Shard shard = ShardToProto(Shard::Whole(DType::kF32, Shape{4}));
  shard.set_dtype(17);
  EXPECT_FALSE(ShardFromProto(shard).ok());
  shard.set_dtype(0);
  shard.set_partial(-1);
  EXPECT_FALSE(ShardFromProto(shard).ok());
  shard.set_partial(0);
  shard.add_offset(0);
  EXPECT_FALSE(ShardFromProto(shard).ok());
}

}  // namespace
}  // namespace sluice
