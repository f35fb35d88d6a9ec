// The kinds of devices that there are, by the names that stand in meshes, plans and errors. They
// are numbered as in plan.proto.
#ifndef SLUICE_FRAMEWORK_BASE_DEVICE_KIND_H_
#define SLUICE_FRAMEWORK_BASE_DEVICE_KIND_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace sluice {

// 32 bits wide, so that structs of a kind and numbers have no padding that would be hashed.
enum class DeviceKind : int32_t {
  kCpu,
  kCuda,
  kNull,   // for tests: has no memory, computes nothing, counts everything
  kAsync,  // for tests: a CPU in a memory space of its own, whose streams run late (device/async.h)
};

// "cpu"; empty for a number that is no kind.
constexpr absl::string_view DeviceKindName(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kNull:
      return "null";
    case DeviceKind::kAsync:
      return "async";
  }
  return "";
}

// Such a device's instructions address the memory of its rank's host, and have ended when they
// return. All others have a memory space of their own, and run on streams with fences.
constexpr bool IsHost(DeviceKind kind) {
  return kind == DeviceKind::kCpu || kind == DeviceKind::kNull;
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_DEVICE_KIND_H_
