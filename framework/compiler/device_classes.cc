#include "framework/compiler/device_classes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "framework/base/hash.h"
#include "framework/base/log.h"

namespace sluice {

DeviceClasses::DeviceClasses(const Grid& grid) : representative_(grid.mesh().num_devices()) {
  for (int64_t s = 0; s < grid.num_stages(); ++s) {
    for (int64_t i = 0; i < grid.stage(s).num_devices(); ++i) {
      representative_[grid.DeviceIndex(s, i)] = grid.DeviceIndex(s, 0);
    }
  }
  Number(grid);
}

DeviceClasses DeviceClasses::Singles(const Grid& grid) {
  DeviceClasses classes;
  for (int32_t d = 0; d < grid.mesh().num_devices(); ++d) classes.representative_.push_back(d);
  classes.Number(grid);
  return classes;
}

void DeviceClasses::Number(const Grid& grid) {
  num_classes_ = 0;
  represented_.clear();
  for (int32_t d = 0; d < num_devices(); ++d) {
    if (representative_[d] == d) represented_.push_back(grid.mesh().devices()[d]);
  }
  std::sort(represented_.begin(), represented_.end());
  represented_hash_ = StableHash(represented_.data(), represented_.size() * sizeof(DeviceId));
  members_.assign(grid.num_stages(), {});
  slots_.assign(grid.num_stages(), {});
  for (int64_t s = 0; s < grid.num_stages(); ++s) {
    std::map<int32_t, int32_t> slot;  // by representative
    for (int64_t i = 0; i < grid.stage(s).num_devices(); ++i) {
      const int32_t device = grid.DeviceIndex(s, i);
      const auto [at, fresh] =
          slot.emplace(representative_[device], static_cast<int32_t>(slot.size()));
      SLUICE_CHECK(fresh == (representative_[device] == device)) << "device " << device;
      if (fresh) members_[s].push_back(static_cast<int32_t>(i));
      slots_[s].push_back(at->second);
    }
    num_classes_ += static_cast<int>(slot.size());
  }
}

bool DeviceClasses::Split(const Grid& grid, absl::Span<const uint64_t> by_device) {
  const int before = num_classes_;
  std::map<std::pair<int32_t, uint64_t>, int32_t> first;
  for (int32_t d = 0; d < num_devices(); ++d) {
    representative_[d] =
        first.emplace(std::make_pair(representative_[d], by_device[d]), d).first->second;
  }
  Number(grid);
  return num_classes_ > before;
}

}  // namespace sluice
