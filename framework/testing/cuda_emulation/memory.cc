#include "framework/testing/cuda_emulation/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace sluice::cuda_emulation {
namespace {

constexpr size_t kPage = 4096;

void Map(uintptr_t begin, size_t bytes) {
  void* const wanted = reinterpret_cast<void*>(begin);
  void* const got = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != wanted) {
    std::fprintf(stderr, "CUDA emulation: cannot have %zu GiB of addresses at %p\n", bytes >> 30,
                 wanted);
    std::abort();
  }
  madvise(wanted, bytes, MADV_DONTDUMP);
}

// Gives pages back; they read as zeros then. Bytes around whole pages are left as they are.
void Discard(uintptr_t begin, size_t bytes) {
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage,
                  end = (begin + bytes) / kPage * kPage;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

void ClearCells(uintptr_t begin, size_t bytes) {
  const auto clear = [](void* p, size_t size) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    const size_t head = std::min(size, (kPage - at % kPage) % kPage);
    std::memset(p, 0, head);
    const size_t tail = (size - head) % kPage;
    std::memset(static_cast<char*>(p) + size - tail, 0, tail);
    Discard(at + head, size - head - tail);
  };
  const size_t cells = (bytes + 1) / 2;
  Cell* const first = CellOf(begin);
  clear(first, cells * sizeof(Cell));
  clear(EarlierReadersOf(first), cells * sizeof(uint32_t));
}

}  // namespace

Cell* MakeCells(size_t bytes) {
  void* const made = mmap(nullptr, (bytes + 1) / 2 * sizeof(Cell), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) std::abort();
  return static_cast<Cell*>(made);
}

void ForgetCells(Cell* cells, size_t bytes) {
  madvise(cells, (bytes + 1) / 2 * sizeof(Cell), MADV_DONTNEED);
}

Memory::Memory() {
  Map(kMemory, kMemoryBytes);
  Map(kCells, kMemoryBytes / 2 * sizeof(Cell));
  Map(kEarlierReaders, kMemoryBytes / 2 * sizeof(uint32_t));
  Map(kGranules, kMemoryBytes / kGranule * sizeof(uint16_t));
  FreeAll();
}

void* Memory::Allocate(int region, size_t bytes, bool mapped) {
  const uintptr_t begin = next_[region];
  const uintptr_t end = kMemory + (region + 1) * kRegionBytes;
  // A granule between allocations belongs to nobody.
  if (bytes >= kRegionBytes || end - begin < bytes + 2 * kGranule) return nullptr;
  next_[region] = (begin + bytes + kGranule - 1) / kGranule * kGranule + kGranule;
  for (size_t at = 0; at < bytes; at += kGranule) {
    GranuleOf(begin + at) = static_cast<uint16_t>(std::min(kGranule, bytes - at));
  }
  allocations_[begin] = {bytes, mapped, region == kHostRegion};
  allocated_[region] += bytes;
  void* const memory = reinterpret_cast<void*>(begin);
  std::memset(memory, 0xff, bytes);
  return memory;
}

void Memory::Release(uintptr_t begin, const Allocation& allocation) {
  std::memset(&GranuleOf(begin), 0,
              (allocation.bytes + kGranule - 1) / kGranule * sizeof(uint16_t));
  ClearCells(begin, allocation.bytes);
  Discard(begin, allocation.bytes);
  allocated_[RegionOf(begin)] -= allocation.bytes;
}

bool Memory::Free(void* begin) {
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(begin));
  if (found == allocations_.end()) return false;
  Release(found->first, found->second);
  allocations_.erase(found);
  return true;
}

void Memory::FreeAll() {
  for (const auto& [begin, allocation] : allocations_) Release(begin, allocation);
  allocations_.clear();
  for (int region = 0; region <= kMostDevices; ++region) {
    next_[region] = kMemory + region * kRegionBytes + kGranule;
  }
}

const Allocation* Memory::Find(const void* begin, size_t bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  auto found = allocations_.upper_bound(address);
  if (found == allocations_.begin()) return nullptr;
  --found;
  const size_t offset = address - found->first;
  const Allocation& allocation = found->second;
  if (offset > allocation.bytes || bytes > allocation.bytes - offset) return nullptr;
  return &allocation;
}

void Memory::Trust() {
  for (auto& [begin, allocation] : allocations_) {
    ClearCells(begin, allocation.bytes);
    allocation.trusted = true;
  }
}

}  // namespace sluice::cuda_emulation
