// The memory of the emulated devices, and pinned memory of the host: one range of addresses, a
// region each. An address is used once, so that use after free is seen; beside each two bytes lies
// a cell that says who touched them last (access.h).
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_MEMORY_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>

namespace sluice::cuda_emulation {

constexpr int kMostDevices = 16;
// The region after those of devices is the host's.
constexpr int kHostRegion = kMostDevices;
constexpr int kRegionShift = 35;
constexpr size_t kRegionBytes = size_t{1} << kRegionShift;
constexpr size_t kMemoryBytes = kRegionBytes * (kMostDevices + 1);

// Addresses that nothing else has on x86-64 Linux, and no shadow of AddressSanitizer's, the last of
// which ends at 0x10007fff8000: constants are cheaper to compare with, reports are always alike.
constexpr uintptr_t kMemory = 0x110000000000, kCells = 0x200000000000;
constexpr uintptr_t kEarlierReaders = 0x280000000000, kGranules = 0x2c0000000000;
constexpr size_t kGranule = 256;

// An access. context: which block it was of, counted over the process, and a new one for every
// barrier that the block passes; 0 is nobody. who: the thread and more, see access.cc.
struct Record {
  uint32_t context, who;
};
struct Cell {
  Record write, read;
};

// Of an address that InMemory().
inline bool InMemory(uintptr_t address) { return address - kMemory < kMemoryBytes; }
inline int RegionOf(uintptr_t address) {
  return static_cast<int>((address - kMemory) >> kRegionShift);
}
inline Cell* CellOf(uintptr_t address) {
  return reinterpret_cast<Cell*>(kCells) + (address - kMemory) / 2;
}
// The set of readers before the one that the cell names (reader_sets.h).
inline uint32_t* EarlierReadersOf(const Cell* cell) {
  return reinterpret_cast<uint32_t*>(kEarlierReaders) + (cell - reinterpret_cast<Cell*>(kCells));
}
// How many bytes of the address's granule are allocated.
inline uint16_t& GranuleOf(uintptr_t address) {
  return reinterpret_cast<uint16_t*>(kGranules)[(address - kMemory) / kGranule];
}
// Of at most 16 bytes, and any number.
inline bool IsAllocated(uintptr_t address, size_t bytes) {
  const size_t in_granule = address % kGranule;
  if (in_granule + bytes <= GranuleOf(address)) return true;
  const uintptr_t last = address + bytes - 1;
  return last / kGranule != address / kGranule && GranuleOf(address) == kGranule &&
         last % kGranule < GranuleOf(last);
}

struct Allocation {
  size_t bytes = 0;
  bool mapped = false;  // of the host: kernels may touch it
  // What was in it when checks came on counts as written.
  bool trusted = false;
};

// For memory elsewhere; pages are there from the first use.
Cell* MakeCells(size_t bytes);
void ForgetCells(Cell* cells, size_t bytes);

class Memory {
 public:
  Memory();

  // Null if the region has no addresses left. The bytes are NaN of every floating-point type.
  void* Allocate(int region, size_t bytes, bool mapped);
  // False if nothing begins there.
  bool Free(void* begin);
  // Addresses begin anew.
  void FreeAll();
  // The allocation that holds all of these bytes, or null.
  const Allocation* Find(const void* begin, size_t bytes) const;
  size_t allocated(int region) const { return allocated_[region]; }
  // Forgets every access, and trusts what is there.
  void Trust();

 private:
  void Release(uintptr_t begin, const Allocation& allocation);

  std::map<uintptr_t, Allocation> allocations_;
  uintptr_t next_[kMostDevices + 1];
  size_t allocated_[kMostDevices + 1] = {};
};

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_MEMORY_H_
