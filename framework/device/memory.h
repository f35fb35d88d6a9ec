// The memory of a CPU device: mapped once in huge pages and touched, so that no step pays for first
// touch. Owned by the device; what lies in it is the plan's business. Any thread may read and write
// the bytes.
#ifndef SLUICE_FRAMEWORK_DEVICE_MEMORY_H_
#define SLUICE_FRAMEWORK_DEVICE_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice {

// By which processes of a host find a memory of each other that may be shared.
struct MemoryMark {
  int32_t process = 0;
  int32_t file = -1;  // a descriptor of that process; -1: the memory is not shared
  int64_t bytes = 0;
  std::array<std::byte, 16> mark = {};  // stands in the file, random
};

class Memory {
 public:
  Memory() = default;
  // Zeros, aligned to 2 MiB. The calling thread touches them: call it where they will be used.
  // ResourceExhausted names the bytes.
  static absl::StatusOr<Memory> Allocate(int64_t bytes);
  // The same as a file without a name, which other processes of this user can map to read; nobody
  // can make it shorter. ResourceExhausted, too, where files may not be so large.
  static absl::StatusOr<Memory> AllocateShared(int64_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  const MemoryMark& mark() const { return mark_; }

 private:
  static absl::StatusOr<Memory> Reserve(int64_t bytes, int64_t room);
  absl::Status MakeFile(int64_t room);

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  MemoryMark mark_;
};

// Memory of another process as it is there, to be read. It stays when that process ends.
class PeerMemory {
 public:
  // Unavailable says why it cannot be read here: another user, another host or namespace, a mark
  // that does not stand there, a file that can be made shorter.
  static absl::StatusOr<PeerMemory> Map(const MemoryMark& mark);
  ~PeerMemory();
  PeerMemory(PeerMemory&& other) noexcept;
  PeerMemory& operator=(PeerMemory&& other) noexcept;

  absl::Span<const std::byte> bytes() const { return bytes_; }

 private:
  PeerMemory() = default;

  absl::Span<const std::byte> bytes_;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_MEMORY_H_
