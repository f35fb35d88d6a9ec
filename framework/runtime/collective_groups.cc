#include "framework/runtime/collective_groups.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/plan/kinds.h"
#include "framework/plan/validate_collectives.h"
#include "framework/runtime/cards.h"

namespace sluice {
namespace {

// By device; -1: of another rank, or no card.
std::vector<int32_t> CardOfEach(const plan::Plan& plan, const CommNet* net) {
  const std::vector<int32_t> cards = CardsOf(plan, net);
  std::vector<int32_t> card;
  size_t next = 0;
  for (const plan::Device& device : plan.devices()) {
    const bool own = device.rank() == plan.rank() && KindOf(device) == DeviceKind::kCuda;
    card.push_back(own ? cards[next++] : -1);
  }
  return card;
}

}  // namespace

absl::StatusOr<std::vector<CommunicatorGroup>> GroupsOfCollectives(const plan::Plan& plan,
                                                                   const CommNet* net) {
  const std::vector<int32_t> card = CardOfEach(plan, net);
  const auto is_of = [&plan](DeviceKind kind) {
    return [&plan, kind](int32_t d) { return KindOf(plan.devices(d)) == kind; };
  };
  std::set<std::vector<int32_t>> known;
  std::vector<CommunicatorGroup> groups;
  for (const plan::Program& program : plan.programs()) {
    for (const plan::Actor& actor : program.actors()) {
      for (const plan::Instruction& x : actor.script()) {
        if (x.kind() != plan::INSTRUCTION_COLLECTIVE) continue;
        ASSIGN_OR_RETURN(const std::vector<int32_t> devices, DevicesOfCollective(plan, x));
        if (!known.insert(devices).second) continue;
        if (std::ranges::all_of(devices, is_of(DeviceKind::kNull))) continue;
        const auto other = std::ranges::find_if_not(devices, is_of(DeviceKind::kCuda));
        if (other != devices.end()) {
          return absl::UnimplementedError(
              absl::StrCat("plan: expected collectives of CUDA devices, got one of ",
                           DeviceName(plan.devices(*other)), " and others"));
        }
        CommunicatorGroup& group = groups.emplace_back();
        group.devices = devices;
        for (const int32_t d : devices) group.cards.push_back(card[d]);
      }
    }
  }
  return groups;
}

}  // namespace sluice
