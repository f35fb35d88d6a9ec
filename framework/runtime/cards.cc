#include "framework/runtime/cards.h"

#include <algorithm>
#include <map>

#include "framework/plan/kinds.h"

namespace sluice {

std::vector<int32_t> CardsOf(const plan::Plan& plan, const CommNet* net) {
  std::map<int32_t, int32_t> devices;  // by rank
  int32_t most = 0;
  for (const plan::Device& device : plan.devices()) {
    if (KindOf(device) == DeviceKind::kCuda) most = std::max(most, ++devices[device.rank()]);
  }
  const int32_t first = net == nullptr ? 0 : net->place_on_host() * most;
  std::vector<int32_t> cards;
  for (int32_t n = 0; n < devices[plan.rank()]; ++n) cards.push_back(first + n);
  return cards;
}

}  // namespace sluice
