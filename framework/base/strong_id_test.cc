#include "framework/base/strong_id.h"

#include <sstream>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using TaskId = StrongId<struct TaskTag>;
using NodeId = StrongId<struct NodeTag>;
static_assert(!std::is_convertible_v<int, TaskId>);
static_assert(!std::is_constructible_v<TaskId, NodeId>);
static_assert(sizeof(TaskId) == 4 && std::is_trivially_copyable_v<TaskId>);

TEST(StrongIdTest, IsAnOrderedHashedIndex) {
  const std::vector<int> values = {5, 6, 7};
  constexpr TaskId second(1);
  EXPECT_EQ(values[second.index()], 6);
  EXPECT_LT(second, TaskId(values.size()));
  EXPECT_EQ(second, TaskId(size_t{1}));
  absl::flat_hash_map<TaskId, int> map;
  map[second] = 3;
  EXPECT_EQ(map.at(TaskId(1)), 3);
  std::ostringstream out;
  out << second;
  EXPECT_EQ(out.str(), "1");
}

TEST(StrongIdDeathTest, InvalidIdsAndOverflowAreCaught) {
  EXPECT_FALSE(TaskId().valid());
  EXPECT_DEATH((void)TaskId().index(), "invalid id");
  EXPECT_DEATH((void)TaskId(int64_t{1} << 40), "id 1099511627776");
}

}  // namespace
}  // namespace sluice
