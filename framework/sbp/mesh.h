// A Mesh names the axes of a grid of devices: "data=4 model=2 pipe=2". The last axis is innermost,
// on neighbouring devices. Devices that are no CPUs are named behind the axes: "data=4 @cuda", or,
// where tests mix them, kinds that the devices take in turn: "data=4 @cpu,async". Pure values; any
// thread.
#ifndef SLUICE_FRAMEWORK_SBP_MESH_H_
#define SLUICE_FRAMEWORK_SBP_MESH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/machine/machine.h"

namespace sluice {

// kStage: pipeline stages, no SBP axis. kSpace: everything else.
enum class AxisKind : uint8_t { kSpace, kStage };

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  AxisKind kind = AxisKind::kSpace;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

class Mesh {
 public:
  // The axis called "pipe" is of stages, all others of space; "micro" is refused here (it is an
  // option of the run). Errors name the entry, what was expected and what came.
  static absl::StatusOr<Mesh> Parse(absl::string_view text);
  // A mesh of space axes over given devices (row-major), for tests and sub-meshes.
  static Mesh Of(std::vector<MeshAxis> axes, std::vector<DeviceId> devices);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  const std::vector<DeviceId>& devices() const { return *devices_; }  // row-major over axes
  int64_t num_devices() const { return static_cast<int64_t>(devices_->size()); }
  // Equal for equal devices, and for others but for an accident of 64 bits.
  uint64_t devices_hash() const { return devices_hash_; }
  int64_t num_stages() const;
  // The sub-mesh at pipe=i, without that axis; the mesh itself if it has none.
  Mesh Stage(int64_t i) const;
  // Index of a named axis, or -1.
  int FindAxis(absl::string_view name) const;
  int64_t AxisSize(absl::string_view name) const;  // 1 for an axis that is not there
  // The same devices, in order, dealt out to so many ranks: the first of them get one more where
  // the number does not divide, and those beyond the last device none.
  Mesh OverRanks(int64_t ranks) const;
  // Coordinates of the i-th device along all axes.
  std::vector<int64_t> Coordinates(int64_t device_index) const;
  std::string ToString() const;

  friend bool operator==(const Mesh& a, const Mesh& b) {
    return a.axes_ == b.axes_ && (a.devices_ == b.devices_ || *a.devices_ == *b.devices_);
  }

 private:
  void SetDevices(std::vector<DeviceId> devices);

  std::vector<MeshAxis> axes_;
  std::shared_ptr<const std::vector<DeviceId>> devices_ =
      std::make_shared<const std::vector<DeviceId>>();  // of all copies; there may be thousands
  uint64_t devices_hash_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_MESH_H_
