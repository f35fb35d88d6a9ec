#include "framework/sbp/mesh.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/tensor/shape.h"

namespace sluice {
namespace {

constexpr int64_t kMostDevices = int64_t{1} << 20;
constexpr absl::string_view kStageAxis = "pipe";
constexpr absl::string_view kTimeAxis = "micro";

bool IsAxisName(absl::string_view name) {
  if (name.empty() || !absl::ascii_isalpha(name[0])) return false;
  for (char c : name) {
    if (!absl::ascii_isalnum(c) && c != '_') return false;
  }
  return true;
}

absl::StatusOr<MeshAxis> ParseAxis(absl::string_view entry) {
  const std::vector<absl::string_view> fields = absl::StrSplit(entry, '=');
  if (fields.size() != 2 || !IsAxisName(fields[0])) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh: expected AXIS=SIZE, for example data=2, got \"", entry, "\"",
                     absl::StrContains(entry, ',') ? "; axes are separated by spaces" : ""));
  }
  if (fields[0] == kTimeAxis) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mesh: \"", entry, "\" is no axis of devices; use --micro_batches=", fields[1]));
  }
  MeshAxis axis;
  axis.name = std::string(fields[0]);
  if (!absl::SimpleAtoi(fields[1], &axis.size) || axis.size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mesh: axis ", axis.name, ": expected an integer of at least 1, got \"", fields[1], "\""));
  }
  if (axis.name == kStageAxis) axis.kind = AxisKind::kStage;
  return axis;
}

// The kinds behind "@", which the devices take in turn.
absl::StatusOr<std::vector<DeviceKind>> ParseKinds(absl::string_view entry) {
  std::vector<DeviceKind> kinds;
  for (absl::string_view name : absl::StrSplit(entry.substr(1), ',')) {
    int n = 0;
    while (!name.empty() && !DeviceKindName(DeviceKind{n}).empty() &&
           DeviceKindName(DeviceKind{n}) != name) {
      ++n;
    }
    kinds.push_back(DeviceKind{n});
    if (!name.empty() && !DeviceKindName(kinds.back()).empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("mesh: expected kinds of devices like @cuda, got \"", entry, "\""));
  }
  return kinds;
}

// "" of CPUs, else "@" and the fewest kinds that, taken in turn, are those of the devices.
std::string KindsText(const std::vector<DeviceId>& devices) {
  size_t period = 1;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].kind != devices[i % period].kind) period = i + 1;
  }
  if (devices.empty() || (period == 1 && devices[0].kind == DeviceKind::kCpu)) return "";
  return absl::StrCat(
      " @", absl::StrJoin(devices.begin(), devices.begin() + static_cast<int64_t>(period), ",",
                          [](std::string* out, DeviceId id) {
                            absl::StrAppend(out, DeviceKindName(id.kind));
                          }));
}

}  // namespace

absl::StatusOr<Mesh> Mesh::Parse(absl::string_view text) {
  Mesh mesh;
  int64_t devices = 1;
  std::vector<DeviceKind> kinds;
  for (absl::string_view entry :
       absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
    if (!kinds.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh: expected kinds of devices last, got \"", entry, "\" behind them"));
    }
    if (entry[0] == '@') {
      ASSIGN_OR_RETURN(kinds, ParseKinds(entry));
      continue;
    }
    ASSIGN_OR_RETURN(MeshAxis axis, ParseAxis(entry));
    if (mesh.FindAxis(axis.name) >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh: axis ", axis.name, " stands twice in \"", text, "\""));
    }
    if (axis.size > kMostDevices / devices) {
      return absl::InvalidArgumentError(absl::StrCat("mesh: expected at most ", kMostDevices,
                                                     " devices, got more in \"", text, "\""));
    }
    devices *= axis.size;
    mesh.axes_.push_back(std::move(axis));
  }
  if (mesh.axes_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh: expected AXIS=SIZE, and one device is data=1, got \"", text, "\""));
  }
  std::vector<DeviceId> ids;
  ids.reserve(devices);
  if (kinds.empty()) kinds.push_back(DeviceKind::kCpu);
  for (int64_t i = 0; i < devices; ++i) {
    ids.push_back({0, static_cast<int32_t>(i), kinds[i % kinds.size()]});
  }
  mesh.SetDevices(std::move(ids));
  return mesh;
}

void Mesh::SetDevices(std::vector<DeviceId> devices) {
  devices_hash_ = StableHash(devices.data(), devices.size() * sizeof(DeviceId));
  devices_ = std::make_shared<const std::vector<DeviceId>>(std::move(devices));
}

Mesh Mesh::Of(std::vector<MeshAxis> axes, std::vector<DeviceId> devices) {
  int64_t count = 1;
  for (const MeshAxis& axis : axes) count *= axis.size;
  SLUICE_CHECK_EQ(devices.size(), count) << "devices of a mesh";
  Mesh mesh;
  mesh.axes_ = std::move(axes);
  mesh.SetDevices(std::move(devices));
  return mesh;
}

int64_t Mesh::num_stages() const {
  for (const MeshAxis& axis : axes_) {
    if (axis.kind == AxisKind::kStage) return axis.size;
  }
  return 1;
}

Mesh Mesh::Stage(int64_t i) const {
  int stage_axis = -1;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (axes_[a].kind == AxisKind::kStage) stage_axis = static_cast<int>(a);
  }
  if (stage_axis < 0) return *this;
  SLUICE_CHECK(i >= 0 && i < axes_[stage_axis].size) << "stage " << i << " of " << ToString();
  Mesh stage;
  stage.axes_ = axes_;
  stage.axes_.erase(stage.axes_.begin() + stage_axis);
  int64_t inner = 1;
  for (size_t a = stage_axis + 1; a < axes_.size(); ++a) inner *= axes_[a].size;
  std::vector<DeviceId> ids;
  for (int64_t d = 0; d < num_devices(); ++d) {
    if (d / inner % axes_[stage_axis].size == i) ids.push_back(devices()[d]);
  }
  stage.SetDevices(std::move(ids));
  return stage;
}

Mesh Mesh::OverRanks(int64_t ranks) const {
  Mesh mesh = *this;
  std::vector<DeviceId> ids = devices();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Range range = Cut({0, num_devices()}, ranks, rank);
    for (int64_t d = range.begin; d < range.end; ++d) {
      ids[d].rank = static_cast<int32_t>(rank);
      ids[d].local = static_cast<int32_t>(d - range.begin);
    }
  }
  mesh.SetDevices(std::move(ids));
  return mesh;
}

int Mesh::FindAxis(absl::string_view name) const {
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (name == axes_[a].name) return static_cast<int>(a);
  }
  return -1;
}

int64_t Mesh::AxisSize(absl::string_view name) const {
  const int axis = FindAxis(name);
  return axis < 0 ? 1 : axes_[axis].size;
}

std::vector<int64_t> Mesh::Coordinates(int64_t device_index) const {
  std::vector<int64_t> coordinates(axes_.size());
  for (int a = static_cast<int>(axes_.size()) - 1; a >= 0; --a) {
    coordinates[a] = device_index % axes_[a].size;
    device_index /= axes_[a].size;
  }
  return coordinates;
}

std::string Mesh::ToString() const {
  const std::string axes = absl::StrJoin(axes_, " ", [](std::string* out, const MeshAxis& axis) {
    absl::StrAppend(out, axis.name, "=", axis.size);
  });
  return absl::StrCat(axes, KindsText(devices()));
}

}  // namespace sluice
