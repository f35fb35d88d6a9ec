// Lowering for representatives: whether devices of a class do the same, and what that is in a
// boxing.
#include <array>
#include <set>
#include <tuple>

#include "framework/base/hash.h"
#include "framework/compiler/boxing_writes.h"
#include "framework/compiler/lower.h"

namespace sluice {

// Do all devices of a class hold shards of the same extents?
void Boxer::CheckExtents(const NdSbp& sbp, const TensorType& type, int32_t stage) {
  if (grid_.Even(sbp, type.shape)) return;
  for (int64_t d = 0; d < grid_.stage(stage).num_devices(); ++d) {
    StableHasher hash;
    for (int64_t extent : grid_.ShardAt(sbp, type, stage, d).local) hash.Add(extent);
    Differ(grid_.DeviceIndex(stage, d), hash.digest());
  }
}

const Boxer::Outline& Boxer::OutlineOf(const Boxing& boxing, const At& at, int32_t stage) {
  const auto [found, fresh] = outlines_.emplace(&boxing, Outline());
  Outline& outline = found->second;
  if (!fresh) return outline;
  std::vector<std::pair<int, int>> roles;
  outline.holds =
      boxing.share ? CheckAxes(boxing, at.stage, stage) : CheckRoles(boxing, at, &roles);
  if (!outline.holds) return outline;
  if (boxing.share) {
    for (const BoxingBuffer& buffer : boxing.buffers) roles.push_back({buffer.role, 0});
  }
  std::vector<int32_t> devices;
  std::map<std::pair<int32_t, std::pair<int, int>>, int> represented;  // buffers
  for (size_t b = 0; b < boxing.buffers.size(); ++b) {
    devices.push_back(grid_.FindDevice(boxing.buffers[b].device));
    if (classes_.representative(devices[b]) == devices[b]) {
      represented[{devices[b], roles[b]}] = static_cast<int>(b);
    }
  }
  const int64_t element = SizeOf(graph_.tensor(at.tensor).type.dtype);
  for (const BoxingStep& step : boxing.steps) {
    std::vector<Outline::Write>& writes = outline.steps.emplace_back();
    for (const BoxingWrite& write : step.writes) {
      const int32_t device = devices[write.buffer];
      if (classes_.representative(device) != device) continue;
      Outline::Write& mine = writes.emplace_back();
      mine.write = &write;
      std::tie(mine.bytes, mine.wire_bytes) = CountBytes(boxing, write, element);
      std::set<int> seen;
      for (const BoxingRegion& region : write.regions) {
        for (int source : region.sources) {
          const int buffer =
              represented.at({classes_.representative(devices[source]), roles[source]});
          if (seen.insert(buffer).second) mine.reads.push_back(buffer);
        }
      }
    }
  }
  return outline;
}

// Do all devices of a class do the same in a boxing, and are they read alike? What a buffer is to
// its device is the step and the place among the device's writes in it; where regions lie in it may
// differ.
bool Boxer::CheckRoles(const Boxing& boxing, const At& at,
                       std::vector<std::pair<int, int>>* roles) {
  using Deed = std::array<int64_t, 6>;
  std::vector<std::set<Deed>> deeds(classes_.num_devices());
  roles->assign(boxing.buffers.size(), {-1, 0});
  const int64_t element = SizeOf(graph_.tensor(at.tensor).type.dtype);
  const auto device_of = [&](int buffer) {
    return grid_.FindDevice(boxing.buffers[buffer].device);
  };
  for (size_t s = 0; s < boxing.steps.size(); ++s) {
    std::map<int32_t, int> writes;
    for (const BoxingWrite& write : boxing.steps[s].writes) {
      const int32_t device = device_of(write.buffer);
      const int step = static_cast<int>(s), ordinal = writes[device]++;
      (*roles)[write.buffer] = {step, ordinal};
      const auto [bytes, wire_bytes] = CountBytes(boxing, write, element);
      deeds[device].insert({0, step, ordinal, bytes, wire_bytes,
                            2 * Elements(boxing.buffers[write.buffer]) +
                                (OffsetInPlace(boxing, write) >= 0 ? 1 : 0)});
      for (const BoxingRegion& region : write.regions) {
        for (int source : region.sources) {
          const int32_t other = device_of(source);
          const auto& from = (*roles)[source];
          deeds[device].insert(
              {1, step, ordinal, classes_.representative(other), from.first, from.second});
          deeds[other].insert(
              {2, step, ordinal, classes_.representative(device), from.first, from.second});
        }
      }
    }
  }
  for (int buffer : boxing.destinations) {
    deeds[device_of(buffer)].insert({3, (*roles)[buffer].first, (*roles)[buffer].second, 0, 0, 0});
  }
  bool alike = true;
  for (int32_t d = 0; d < classes_.num_devices(); ++d) {
    alike &= deeds[d] == deeds[classes_.representative(d)];
  }
  for (int32_t d = 0; d < classes_.num_devices() && !alike; ++d) {
    StableHasher hash;
    for (const Deed& deed : deeds[d]) {
      for (int64_t value : deed) hash.Add(value);
    }
    Differ(d, hash.digest());
  }
  return alike;
}

// The same for a share, whose shards are even: devices are alike that have equal classes along each
// axis of the path, and on the other mesh, and are first along an axis both or neither where the
// first alone holds a value.
bool Boxer::CheckAxes(const Boxing& boxing, int32_t from_stage, int32_t to_stage) {
  std::vector<uint64_t> signatures(classes_.num_devices());
  const auto add = [&](int32_t device, uint64_t value) {
    StableHasher hash;
    hash.Add(static_cast<int64_t>(signatures[device])).Add(static_cast<int64_t>(value));
    signatures[device] = hash.digest();
  };
  for (const BoxingAxis& along : boxing.axes) {
    const int32_t stage = along.at_destination ? to_stage : from_stage;
    const Mesh& mesh = grid_.stage(stage);
    const int64_t size = mesh.axes()[along.axis].size;
    int64_t stride = 1;
    for (size_t a = along.axis + 1; a < mesh.axes().size(); ++a) stride *= mesh.axes()[a].size;
    for (int64_t first = 0; first < mesh.num_devices(); ++first) {
      if (first / stride % size != 0) continue;
      std::set<int32_t> classes;
      for (int64_t j = 0; j < size; ++j) {
        classes.insert(classes_.representative(grid_.DeviceIndex(stage, first + j * stride)));
      }
      StableHasher hash;
      for (int32_t each : classes) hash.Add(int64_t{each});
      for (int64_t j = 0; j < size; ++j) {
        const int32_t device = grid_.DeviceIndex(stage, first + j * stride);
        add(device, hash.digest());
        if (along.first_differs) add(device, j == 0 ? 1 : 2);
      }
    }
  }
  for (int64_t i = 0; from_stage != to_stage && i < grid_.stage(to_stage).num_devices(); ++i) {
    const int32_t a = grid_.DeviceIndex(from_stage, i), b = grid_.DeviceIndex(to_stage, i);
    add(a, static_cast<uint64_t>(classes_.representative(b)));
    add(b, static_cast<uint64_t>(classes_.representative(a)));
  }
  bool alike = true;
  for (int32_t d = 0; d < classes_.num_devices(); ++d) {
    alike &= signatures[d] == signatures[classes_.representative(d)];
  }
  for (int32_t d = 0; d < classes_.num_devices() && !alike; ++d) Differ(d, signatures[d]);
  return alike;
}

void Boxer::Differ(int32_t device, uint64_t signature) {
  StableHasher hash;
  hash.Add(static_cast<int64_t>(differences_[device])).Add(static_cast<int64_t>(signature));
  differences_[device] = hash.digest();
}

}  // namespace sluice
