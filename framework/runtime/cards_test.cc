#include "framework/runtime/cards.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/comm/comm_net.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// A rank that has so many others of its host before it.
class NetOfPlace final : public CommNet {
 public:
  explicit NetOfPlace(int32_t place) : place_(place) {}
  int32_t rank() const override { return place_; }
  int32_t ranks() const override { return 8; }
  int32_t place_on_host() const override { return place_; }
  void Open(Receiver*) override {}
  void Close() override {}
  void Send(int32_t, WireMessage) override {}
  void Pull(int32_t, const PullRequest&, int32_t, std::byte*) override {}

 private:
  const int32_t place_;
};

plan::Plan PlanOf(int32_t rank, const std::vector<int32_t>& cards_of_ranks) {
  plan::Plan plan;
  plan.set_rank(rank);
  for (size_t of = 0; of < cards_of_ranks.size(); ++of) {
    for (int32_t n = 0; n < cards_of_ranks[of]; ++n) {
      plan::Device* device = plan.add_devices();
      device->set_rank(static_cast<int32_t>(of));
      device->set_kind(plan::DEVICE_CUDA);
      plan.add_devices()->set_rank(static_cast<int32_t>(of));
    }
  }
  return plan;
}

using Cards = std::vector<int32_t>;

TEST(CardsTest, OneRankHasTheFirst) {
  EXPECT_EQ(CardsOf(PlanOf(0, {3}), nullptr), Cards({0, 1, 2}));
}

TEST(CardsTest, RanksOfAHostTakeThemInTurn) {
  const NetOfPlace first(0), second(1), third(2);
  EXPECT_EQ(CardsOf(PlanOf(0, {2, 2, 2}), &first), Cards({0, 1}));
  EXPECT_EQ(CardsOf(PlanOf(1, {2, 2, 2}), &second), Cards({2, 3}));
  // The third rank is the first of its host.
  EXPECT_EQ(CardsOf(PlanOf(2, {2, 2, 2}), &first), Cards({0, 1}));
  // Seven devices are four and three, and no card is of both.
  EXPECT_EQ(CardsOf(PlanOf(1, {4, 3}), &second), Cards({4, 5, 6}));
  EXPECT_EQ(CardsOf(PlanOf(2, {1, 1, 0}), &third), Cards());
}

}  // namespace
}  // namespace sluice
