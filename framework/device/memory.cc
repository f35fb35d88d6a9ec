#include "framework/device/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"

namespace sluice {
namespace {
constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
constexpr int64_t kSmallPage = 4096;
}  // namespace

absl::StatusOr<Memory> Memory::Allocate(int64_t bytes) {
  SLUICE_CHECK_GE(bytes, 0);
  Memory memory;
  if (bytes == 0) return memory;
  memory.mapped_ = static_cast<size_t>(bytes) + 2 * kHugePage;
  void* mapping = mmap(nullptr, memory.mapped_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes of device memory: ", std::strerror(errno)));
  }
  memory.mapping_ = mapping;
  const uintptr_t start = (reinterpret_cast<uintptr_t>(mapping) + kHugePage - 1) & ~(kHugePage - 1);
  memory.data_ = reinterpret_cast<std::byte*>(start);
  memory.bytes_ = bytes;
  // Only advice: without huge pages the same bytes are slower to touch.
  madvise(memory.data_, (static_cast<size_t>(bytes) + kHugePage - 1) & ~(kHugePage - 1),
          MADV_HUGEPAGE);
  volatile std::byte* touch = memory.data_;
  for (int64_t i = 0; i < bytes; i += kSmallPage) touch[i] = std::byte{0};
  return memory;
}

Memory::~Memory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

}  // namespace sluice
