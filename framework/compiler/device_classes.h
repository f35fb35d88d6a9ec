// Devices that do the same are one class, which one of them represents: the first. Lowering makes
// tasks for representatives alone, and what they read of others they read of those devices'
// representatives. Order, bytes, proof and predicted time of that representative program hold for
// all devices: every wait of the full program maps to one of the representative program, so every
// cycle maps to a closed walk with the same tokens. So the cost of compiling follows the number of
// classes, not of devices.
//
// Classes begin as the stages of the mesh; whoever finds two devices of a class that differ, in the
// extents of a shard or in what they do in a boxing, splits it and begins again.
#ifndef SLUICE_FRAMEWORK_COMPILER_DEVICE_CLASSES_H_
#define SLUICE_FRAMEWORK_COMPILER_DEVICE_CLASSES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/compiler/grid.h"

namespace sluice {

class DeviceClasses {
 public:
  // One class a stage. Keeps nothing of the grid.
  explicit DeviceClasses(const Grid& grid);
  // Each device its own class.
  static DeviceClasses Singles(const Grid& grid);

  int num_devices() const { return static_cast<int>(representative_.size()); }
  int num_classes() const { return num_classes_; }
  // Of a device of the mesh: the first device of its class.
  int32_t representative(int32_t device) const { return representative_[device]; }
  absl::Span<const int32_t> representatives() const { return representative_; }

  // The representatives, ascending; and what stands for them in a key.
  const std::vector<DeviceId>& represented() const { return represented_; }
  uint64_t represented_hash() const { return represented_hash_; }

  // The representatives of a stage, as places in it, ascending.
  absl::Span<const int32_t> members(int64_t stage) const { return members_[stage]; }
  // Of the i-th device of a stage: the place of its representative among members(stage).
  int32_t slot(int64_t stage, int64_t i) const { return slots_[stage][i]; }

  // Separates devices of one class that have different signatures; false if there are none.
  bool Split(const Grid& grid, absl::Span<const uint64_t> by_device);

 private:
  DeviceClasses() = default;
  void Number(const Grid& grid);

  std::vector<int32_t> representative_;
  std::vector<std::vector<int32_t>> members_, slots_;  // by stage
  std::vector<DeviceId> represented_;
  uint64_t represented_hash_ = 0;
  int num_classes_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_DEVICE_CLASSES_H_
