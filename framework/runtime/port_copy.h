// Copies between a shard on a device and the logical host tensor that the user feeds or fetches.
// The rows are found once, at load; a copy allocates nothing. Read-only after construction: any
// thread.
#ifndef SLUICE_FRAMEWORK_RUNTIME_PORT_COPY_H_
#define SLUICE_FRAMEWORK_RUNTIME_PORT_COPY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/tensor/shard.h"

namespace sluice {

class PortCopy {
 public:
  explicit PortCopy(const Shard& shard);
  // The box held at a micro-batch, out of the logical tensor into the dense part, and back.
  void Feed(const std::byte* logical, int32_t micro, std::byte* shard) const;
  void Fetch(const std::byte* shard, int32_t micro, std::byte* logical) const;

 private:
  std::vector<int64_t> rows_;  // bytes from the logical tensor's start, at micro-batch 0
  int64_t row_bytes_ = 0;
  int64_t micro_bytes_ = 0;  // what one micro-batch adds
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_PORT_COPY_H_
