#include "framework/compiler/device_classes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "framework/base/log.h"

namespace sluice {

DeviceClasses::DeviceClasses(const Grid& grid, bool several_ranks)
    : representative_(grid.mesh().num_devices()) {
  for (int64_t s = 0; s < grid.num_stages(); ++s) {
    for (int64_t i = 0; i < grid.stage(s).num_devices(); ++i) {
      representative_[grid.DeviceIndex(s, i)] = grid.DeviceIndex(s, 0);
    }
  }
  Number(grid);
  AddHosts(grid.mesh(), several_ranks);
}

DeviceClasses DeviceClasses::Singles(const Grid& grid, bool several_ranks) {
  DeviceClasses classes;
  for (int32_t d = 0; d < grid.mesh().num_devices(); ++d) classes.representative_.push_back(d);
  classes.Number(grid);
  classes.AddHosts(grid.mesh(), several_ranks);
  return classes;
}

DeviceClasses DeviceClasses::OfRank(const Grid& grid, int32_t rank, bool several_ranks) {
  DeviceClasses classes(grid, several_ranks);
  const auto own = [&](int32_t d) { return grid.mesh().devices()[d].rank == rank; };
  bool all = true;
  for (int32_t d = 0; d < grid.mesh().num_devices(); ++d) {
    all = all && own(d);
    if (!own(d)) continue;
    classes.representative_[d] = d;
    classes.representative_[classes.host_[d]] = classes.host_[d];
  }
  if (all) return Singles(grid, several_ranks);
  classes.of_rank_ = true;
  for (int64_t s = 0; s < grid.num_stages(); ++s) {
    classes.members_[s].clear();
    for (int64_t i = 0; i < grid.stage(s).num_devices(); ++i) {
      const bool wanted = own(grid.DeviceIndex(s, i));
      classes.slots_[s][i] = wanted ? static_cast<int32_t>(classes.members_[s].size()) : -1;
      if (wanted || i == 0) classes.members_[s].push_back(static_cast<int32_t>(i));
    }
  }
  return classes;
}

bool DeviceClasses::Wanted(int64_t stage, int64_t i) const {
  return !of_rank_ || slots_[stage][i] >= 0;
}

void DeviceClasses::AddHosts(const Mesh& mesh, bool several_ranks) {
  const std::vector<DeviceId>& ids = mesh.devices();
  const bool one_rank =
      std::all_of(ids.begin(), ids.end(), [&](DeviceId id) { return id.rank == ids[0].rank; });
  const auto devices = static_cast<int32_t>(ids.size());
  for (int32_t d = 0; d < devices; ++d) host_.push_back(d);
  if (one_rank && !several_ranks) return;
  auto next = devices;
  for (int32_t d = 0; d < devices; ++d) {
    if (!IsHost(ids[d].kind)) host_[d] = next++;
  }
  through_hosts_ = next > devices;
  for (int32_t d = 0; d < devices; ++d) {
    if (host_[d] != d) representative_.push_back(host_[representative_[d]]);
  }
}

void DeviceClasses::Number(const Grid& grid) {
  num_classes_ = 0;
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
    if (s < grid.num_groups()) num_classes_ += static_cast<int>(slot.size());
  }
}

}  // namespace sluice
