// RDMA, as those see it who do not speak with libibverbs: what a user may choose, and what two
// ranks tell each other so that each may read the other's memory. Pure.
#ifndef SLUICE_FRAMEWORK_COMM_VERBS_H_
#define SLUICE_FRAMEWORK_COMM_VERBS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

namespace sluice {

struct VerbsOptions {
  // "mlx5_0", or "mlx5_0:2" with a port. Empty: the first that has an active port.
  std::string device;
  // What is not answered within 4.096 us * 2^timeout is asked for again, so many times; then the
  // queue pair has failed. That costs speed and not the run, so it may be found soon: 1.9 s. Seven
  // times are for ever where soft-RoCE counts.
  uint8_t timeout = 16, retries = 6;
  // Reads that a queue pair has on their way at once, if the device takes so many; others wait.
  uint32_t most_posted = 256;
  // While reads are on their way the loop's thread looks for so long before it sleeps.
  std::chrono::microseconds poll{20};
};

// One end of a queue pair.
struct VerbsAddress {
  uint32_t queue_pair = 0, packet = 0;  // its number; that of its first packet; 24 bits each
  std::array<uint8_t, 16> gid = {};
  uint16_t lid = 0;
  uint8_t mtu = 1;    // an ibv_mtu: 1 to 5
  uint8_t reads = 0;  // that it serves at once
  friend bool operator==(const VerbsAddress&, const VerbsAddress&) = default;
};

// Memory of the sender, which whoever has the key may read by a queue pair of the sender's.
struct VerbsRegion {
  uint64_t address = 0, bytes = 0;
  uint32_t key = 0;
  friend bool operator==(const VerbsRegion&, const VerbsRegion&) = default;
};

// A rank has one for each of its devices.
inline constexpr uint32_t kMostVerbsRegions = 4096;

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_VERBS_H_
