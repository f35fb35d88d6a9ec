// A description of the machine that a plan is made for: peaks, bandwidths and latencies, from
// which costs are counted. Pure values; integers out, so that every rank decides alike.
#ifndef SLUICE_FRAMEWORK_MACHINE_MACHINE_H_
#define SLUICE_FRAMEWORK_MACHINE_MACHINE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// One physical device: a process and an index within it.
struct DeviceId {
  int32_t rank = 0;
  int32_t local = 0;
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
  friend auto operator<=>(const DeviceId&, const DeviceId&) = default;
};

std::string ToString(DeviceId device);  // "0:3"

struct Machine {
  int64_t devices_per_rank = int64_t{1} << 30;  // devices that share one address space
  int64_t devices_per_node = int64_t{1} << 30;  // devices joined by inner links
  double flops_per_second = 1e11;               // one device, f32 matmul
  double bf16_flops_per_second = 2e11;
  double memory_bytes_per_second = 2e10;  // one device
  double inner_bytes_per_second = 1e10;   // a port between two devices of a node
  double outer_bytes_per_second = 1e9;    // a port between nodes
  int64_t launch_nanoseconds = 500;       // to start one instruction
  int64_t latency_nanoseconds = 2000;     // one message to another device

  // The CPU devices of one process, before calibration.
  static Machine Cpu();
  // "key=value" words, e.g. "flops_per_second=2e11 devices_per_node=4"; unnamed keep defaults.
  static absl::StatusOr<Machine> Parse(absl::string_view text);
  std::string ToString() const;

  // Time of an instruction: launch + the larger of arithmetic and memory time.
  int64_t ComputeNanoseconds(int64_t flops, int64_t bytes, bool bf16) const;
  int64_t LinkNanoseconds(int64_t bytes, bool between_nodes) const;  // without latency
  int64_t NodeOf(DeviceId device) const;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_MACHINE_MACHINE_H_
