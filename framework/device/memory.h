// The memory of a CPU device: mapped once in huge pages and touched, so that no step pays for first
// touch. Owned by the device; what lies in it is the plan's business. Any thread may read and write
// the bytes.
#ifndef SLUICE_FRAMEWORK_DEVICE_MEMORY_H_
#define SLUICE_FRAMEWORK_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace sluice {

class Memory {
 public:
  Memory() = default;
  // Zeros, aligned to 2 MiB. The calling thread touches them: call it where they will be used.
  // ResourceExhausted names the bytes.
  static absl::StatusOr<Memory> Allocate(int64_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_MEMORY_H_
