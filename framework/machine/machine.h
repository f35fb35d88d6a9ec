// A description of the machine that a plan is made for: peaks, bandwidths and latencies, and, where
// it was calibrated, the times of kernels, from which costs are counted. Pure values; integers out,
// so that every rank decides alike. docs/machine.md is the model of time and its limits.
#ifndef SLUICE_FRAMEWORK_MACHINE_MACHINE_H_
#define SLUICE_FRAMEWORK_MACHINE_MACHINE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/device_kind.h"
#include "framework/machine/kernel_times.h"

namespace sluice {

// One physical device: a process, an index within it, and of what kind it is.
struct DeviceId {
  int32_t rank = 0;
  int32_t local = 0;
  DeviceKind kind = DeviceKind::kCpu;
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
  friend auto operator<=>(const DeviceId&, const DeviceId&) = default;
};

std::string ToString(DeviceId device);  // "0:3"; "0:async3" if it is no CPU

// What joins two devices, the fastest first: memory that both address; memory that processes of a
// host share, or its loopback; the network between hosts. Of three devices the slowest link of
// their pairs joins two pairs at least.
enum class LinkKind : uint8_t { kProcess, kHost, kNetwork };
inline constexpr int kLinkKinds = 3;
absl::string_view LinkKindName(LinkKind kind);  // "process", "host", "network"

// One way: a message, and a port through which all bytes of a device come.
struct Link {
  int64_t latency_nanoseconds = 0;
  double bytes_per_second = 0;
  friend bool operator==(const Link&, const Link&) = default;
};

struct Machine {
  int64_t devices_per_rank = int64_t{1} << 30;  // devices that share one address space
  // Devices of a host, which ranks fill in order, where host_of_rank does not say.
  int64_t devices_per_host = int64_t{1} << 60;
  // Of a job, and so no part of the text form; empty: devices_per_host says.
  std::vector<int32_t> host_of_rank;
  double flops_per_second = 1e11;  // one device, f32 matmul
  double bf16_flops_per_second = 2e11;
  double memory_bytes_per_second = 2e10;  // one device
  std::array<Link, kLinkKinds> links = {{{2000, 1e10}, {10000, 5e9}, {30000, 1e9}}};
  int64_t launch_nanoseconds = 500;  // to start one instruction
  // Calibrated machines alone.
  int64_t cores = 0;             // that the devices of a process share; 0: each has its own
  int64_t cache_bytes = 0;       // that one core has to itself
  int64_t wake_nanoseconds = 0;  // more, for a message to a worker that sleeps
  std::vector<KernelTimes> kernels;

  // The CPU devices of one process, before calibration.
  static Machine Cpu();
  // "key=value" words, e.g. "flops_per_second=2e11 devices_per_host=4"; unnamed keep defaults.
  // Words of "kernel.<name>.<threads>" are KernelTimes.
  static absl::StatusOr<Machine> Parse(absl::string_view text);
  std::string ToString() const;

  // The same with the times of kernels for a device that has `devices` - 1 others beside it.
  Machine ForDevices(int64_t devices) const;

  bool HasKernel(absl::string_view kernel) const;
  // Time of an instruction: launch + the larger of arithmetic and memory time.
  int64_t ComputeNanoseconds(int64_t flops, int64_t bytes, bool bf16) const;
  // The same, from the times of the kernel where there are some for f32 and its sizes.
  int64_t KernelNanoseconds(absl::string_view kernel, absl::Span<const int64_t> sizes,
                            int64_t flops, int64_t bytes, bool bf16) const;
  // How much longer the kernel takes if it finds nothing in the cache; 0 where no time says so.
  int64_t ColdNanoseconds(absl::string_view kernel, absl::Span<const int64_t> sizes) const;
  int64_t LinkNanoseconds(int64_t bytes, LinkKind kind) const;  // without latency
  Link& link(LinkKind kind) { return links[static_cast<size_t>(kind)]; }
  const Link& link(LinkKind kind) const { return links[static_cast<size_t>(kind)]; }
  LinkKind LinkBetween(DeviceId a, DeviceId b) const;
  int64_t HostOf(DeviceId device) const;
  // What boxing is priced by, for ranks to compare: each link, and which ranks share a host.
  std::string LinksText() const;

 private:
  const KernelTimes* FindTimes(absl::string_view kernel, absl::Span<const int64_t> sizes,
                               bool cold) const;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_MACHINE_MACHINE_H_
