// The stream of a null device, which does nothing and counts everything: a plan can be run through
// the whole runtime without arithmetic and without memory. One worker writes the counts; others may
// look.
#ifndef SLUICE_FRAMEWORK_DEVICE_NULL_STREAM_H_
#define SLUICE_FRAMEWORK_DEVICE_NULL_STREAM_H_

#include <atomic>
#include <cstdint>

#include "framework/device/device.h"

namespace sluice {

class NullStream final : public Stream {
 public:
  NullStream() : Stream(nullptr) {}
  Fence Record() override { return 0; }
  void Wait(Fence) override {}

  void Count(int64_t flops, int64_t wire_bytes) {
    Add(1, &instructions_);
    Add(flops, &flops_);
    Add(wire_bytes, &wire_bytes_);
  }
  NullCounts counts() const {
    return {instructions_.load(std::memory_order_relaxed), flops_.load(std::memory_order_relaxed),
            wire_bytes_.load(std::memory_order_relaxed)};
  }

 private:
  static void Add(int64_t n, std::atomic<int64_t>* count) {
    count->store(count->load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::atomic<int64_t> instructions_{0}, flops_{0}, wire_bytes_{0};
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_NULL_STREAM_H_
