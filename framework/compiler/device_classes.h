// Devices of a stage all do the same: lowering makes one list of items for the stage, and each of
// its devices has every item and every register of it, even where its shard is empty. So one device
// of a stage represents it: the first, because balanced cuts give it the largest shard of
// everything. Lowering makes tasks for representatives alone, and what they read of others they
// read of those devices' representatives. Order, bytes and proof of that representative program
// hold for all devices: every wait of the full program maps to one of the representative program,
// so every cycle maps to a closed walk with the same tokens. So the cost of compiling follows the
// number of stages, not of devices.
//
// A rank then makes the tasks of its own devices in the same way, beside those of representatives,
// which it drops again: they are what all devices of a stage have alike, where it has none itself.
//
// Devices that have a memory space of their own, in a job of several ranks, exchange in the memory
// of hosts whatever no collective does. For that each of them has a CPU of its own rank beside it,
// its host, which stands in the plan behind the devices of the mesh. So the hosts of a class are a
// class again, and do as much alike as its devices do, however devices are dealt over ranks.
#ifndef SLUICE_FRAMEWORK_COMPILER_DEVICE_CLASSES_H_
#define SLUICE_FRAMEWORK_COMPILER_DEVICE_CLASSES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/compiler/grid.h"

namespace sluice {

class DeviceClasses {
 public:
  // One class a stage. Keeps nothing of the grid. `several_ranks`: of the job; its mesh does
  // not tell where ranks have no device.
  explicit DeviceClasses(const Grid& grid, bool several_ranks = false);
  // Each device its own class.
  static DeviceClasses Singles(const Grid& grid, bool several_ranks = false);
  // The devices of a rank, each its own class, and the first of each stage; the others stand for
  // nobody and are foreign.
  static DeviceClasses OfRank(const Grid& grid, int32_t rank, bool several_ranks = false);

  int num_devices() const { return static_cast<int>(representative_.size()); }
  int num_classes() const { return num_classes_; }
  // The first device of a device's class. A plan may have more devices than the mesh, which hold
  // what the host feeds; those stand for themselves.
  int32_t representative(int32_t device) const {
    return device < num_devices() ? representative_[device] : device;
  }
  absl::Span<const int32_t> representatives() const { return representative_; }

  // Do devices exchange what no collective does in the memory of their hosts?
  bool through_hosts() const { return through_hosts_; }
  // The host of a device of the mesh: itself, if it is a CPU or has none.
  int32_t host(int32_t device) const { return host_[device]; }

  // Are the tasks of the i-th device of a stage wanted, or only what they have in common?
  bool Wanted(int64_t stage, int64_t i) const;

  // The representatives of a stage, as places in it, ascending. The first is always one.
  absl::Span<const int32_t> members(int64_t stage) const { return members_[stage]; }
  // Are there devices that stand for nobody?
  bool any_foreign() const { return of_rank_; }
  // By device of a stage; see slot().
  absl::Span<const int32_t> slots(int64_t stage) const { return slots_[stage]; }
  // Of the i-th device of a stage: the place of its representative among members(stage); -1 if the
  // device is foreign.
  int32_t slot(int64_t stage, int64_t i) const { return slots_[stage][i]; }

 private:
  DeviceClasses() = default;
  void Number(const Grid& grid);
  void AddHosts(const Mesh& mesh, bool several_ranks);

  std::vector<int32_t> representative_;
  std::vector<int32_t> host_;  // by device of the mesh
  bool through_hosts_ = false;
  std::vector<std::vector<int32_t>> members_, slots_;  // by stage
  bool of_rank_ = false;
  int num_classes_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_DEVICE_CLASSES_H_
