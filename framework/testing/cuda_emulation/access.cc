#include "framework/testing/cuda_emulation/access.h"

#include <cuda_kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "framework/testing/cuda_emulation/block.h"
#include "framework/testing/cuda_emulation/reader_sets.h"
#include "framework/testing/cuda_emulation/runtime.h"
#include "framework/testing/cuda_emulation/symbols.h"
#include "framework/testing/cuda_emulation/traffic.h"

// Of the program, by the linker: constants lie between its beginning and its data. Of the data,
// kernels name none but shared variables: nvcc does not let them see the host's.
extern char __executable_start[], __data_start[], _end[];

namespace sluice::cuda_emulation {

constinit thread_local bool inside_kernel = false;
Running running;

namespace {

// Record::who, from bit 0: thread (10 bits), how many barriers of its warp it has passed (16),
// which of the two bytes (2), and:
constexpr uint32_t kThreadMask = 1023, kEpochShift = 10, kEpochMask = 0xffff, kBytesShift = 26;
// Of a write: it was atomic. Of a read: other lanes of the warp, other warps of the block, other
// blocks of the kernel, earlier operations (reader_sets.h) have read as well.
constexpr uint32_t kAtomicWrite = 1u << 28, kOtherLanes = 1u << 28, kOtherWarps = 1u << 29;
constexpr uint32_t kOtherBlocks = 1u << 30, kEarlierOperations = 1u << 31;

uint32_t WarpOf(uint32_t who) { return (who & kThreadMask) / 32; }
uint32_t EpochOf(uint32_t who) { return who >> kEpochShift & kEpochMask; }
uint32_t BytesOf(uint32_t who) { return who >> kBytesShift & 3; }

// Context of what was there before all: the first of the operations that have run.
constexpr uint32_t kBeforeAll = 1;

struct PastOperation {
  uint32_t first_context, stream, number;
  OperationName name;
};

// What has run, by first context.
struct Past {
  std::vector<PastOperation> operations;
  uint32_t last_context = kBeforeAll;
  ReaderSets reader_sets;
  // Contexts [ordered_begin, ordered_end) are of an operation that is before the one that runs.
  uint32_t ordered_begin = 0, ordered_end = 0;
  // What the operation that runs makes of a set and one more reader.
  std::unordered_map<uint64_t, uint32_t> grown_sets;
};
// Made by ForgetAccesses(), as the cells of shared memory are: who is first to call the runtime may
// do it while statics are made.
constinit Past* past = nullptr;

bool checks_on = true;
bool traffic_is_counted = false;
constinit Traffic* traffic = nullptr;  // made when it is first counted
// The operand that the last access was in.
uintptr_t operand_begin = 0, operand_end = ~uintptr_t{0};
bool operand_written = true;

alignas(128) char dynamic_shared[kSharedBytes];
constinit Cell* dynamic_cells = nullptr;
constinit Cell* static_cells = nullptr;

uintptr_t StaticBegin() { return reinterpret_cast<uintptr_t>(__data_start) & ~uintptr_t{1}; }
size_t StaticBytes() { return reinterpret_cast<uintptr_t>(_end) - StaticBegin(); }

size_t IndexOf(uint32_t context) {
  size_t low = 0, high = past->operations.size();
  while (low + 1 < high) {
    const size_t middle = (low + high) / 2;
    (past->operations[middle].first_context <= context ? low : high) = middle;
  }
  return low;
}

bool IsBefore(size_t index) {
  const PastOperation& operation = past->operations[index];
  return running.operation->clock[operation.stream] >= operation.number;
}

// Of a context of an earlier operation: whether that is before the one that runs.
__attribute__((noinline)) bool FindOrder(uint32_t context) {
  const OutsideKernel outside;
  const size_t index = IndexOf(context);
  if (!IsBefore(index)) return false;
  past->ordered_begin = past->operations[index].first_context;
  past->ordered_end = index + 1 < past->operations.size()
                          ? past->operations[index + 1].first_context
                          : running.first_of_operation;
  return true;
}
inline bool Ordered(uint32_t context) {
  if (context - past->ordered_begin < past->ordered_end - past->ordered_begin) return true;
  return FindOrder(context);
}

// The readers of `set` and of a context, less those that are before the operation that runs: who
// is after it is after them.
uint32_t GrownSet(uint32_t set, uint32_t context) {
  const OutsideKernel outside;
  const auto added = static_cast<uint32_t>(IndexOf(context));
  const uint64_t key = static_cast<uint64_t>(set) << 32 | added;
  if (const auto found = past->grown_sets.find(key); found != past->grown_sets.end()) {
    return found->second;
  }
  ReaderSets::Set readers = past->reader_sets[set];
  readers.push_back(added);
  readers.erase(std::remove_if(readers.begin(), readers.end(), IsBefore), readers.end());
  return past->grown_sets[key] = past->reader_sets.NumberOf(std::move(readers));
}

std::string NameOf(const OperationName& name) {
  std::string text = name.kind;
  if (name.function != nullptr) text += " " + FunctionName(name.function);
  if (!name.detail.empty()) text += " " + name.detail;
  return text;
}

__attribute__((cold, noinline)) void ReportAccess(const std::string& what, uintptr_t address,
                                                  const std::string& other = "") {
  const OutsideKernel outside;
  if (ReportsAreFull()) return;
  char text[40];
  std::snprintf(text, sizeof(text), " at %p", reinterpret_cast<void*>(address));
  Report(WhatRuns() + " " + what + text + other);
}

__attribute__((cold, noinline)) [[noreturn]] void FaultAt(int cuda_error, const char* what,
                                                          uintptr_t address) {
  char text[40];
  std::snprintf(text, sizeof(text), " at %p", reinterpret_cast<void*>(address));
  Fault(cuda_error, std::string(what) + text);
}

__attribute__((cold, noinline)) void ReportConflict(const char* what, const char* earlier,
                                                    uintptr_t address, const Record& record) {
  const OutsideKernel outside;
  if (ReportsAreFull()) return;
  std::string other = std::string("; ") + earlier + " by ";
  if (record.context >= running.first_of_block) {
    other += "thread " + std::to_string(record.who & kThreadMask) + " of the same block";
  } else if (record.context >= running.first_of_operation) {
    other += "another block";
  } else {
    const PastOperation& operation = past->operations[IndexOf(record.context)];
    other += NameOf(operation.name) + " in stream " + std::to_string(operation.stream);
  }
  ReportAccess(what, address, other);
}

// Whether the running thread's access and an earlier one, one of them a write, are in no order.
bool Conflicts(const Record& earlier) {
  if (earlier.context >= running.first_of_operation) {
    if (earlier.context < running.first_of_block) return true;
    if (earlier.context != running.context) return false;  // a barrier of the block was between
    const uint32_t who = earlier.who;
    if (WarpOf(who) != WarpOf(running.who)) return true;
    if (EpochOf(who) != EpochOf(running.who)) return false;
    return (who & kThreadMask) != (running.who & kThreadMask);
  }
  return !Ordered(earlier.context);
}

// The same of reads, which a cell holds more than one of.
bool ConflictsWithReads(const Cell& cell, uint32_t bytes) {
  const Record& read = cell.read;
  // Which of two bytes others have read is not known.
  const bool others_count = bytes == 3;
  if (read.context >= running.first_of_operation) {
    if ((read.who & kOtherBlocks) && others_count) return true;
    if (read.context == running.context && others_count) {
      if (read.who & kOtherWarps) return true;
      if ((read.who & kOtherLanes) && EpochOf(read.who) == EpochOf(running.who)) return true;
    }
  }
  if (Conflicts(read)) return true;
  if (read.who & kEarlierOperations) {
    const OutsideKernel outside;
    for (const uint32_t index : past->reader_sets[*EarlierReadersOf(&cell)]) {
      if (!IsBefore(index)) return true;
    }
  }
  return false;
}

uint32_t WithEarlierOperations(Cell& cell, uint32_t who, bool unordered) {
  uint32_t& set = *EarlierReadersOf(&cell);
  const uint32_t old_set = (cell.read.who & kEarlierOperations) ? set : 0;
  if (old_set == 0 && !unordered) return who;
  const uint32_t grown = GrownSet(old_set, cell.read.context);
  if (grown == 0) return who;
  set = grown;
  return who | kEarlierOperations;
}

// What the cell says of its readers when the running thread is one more. Void if shared memory has
// it from a block before.
void AddRead(Cell& cell, uint32_t bytes, bool is_shared) {
  const Record old = cell.read;
  uint32_t who = running.who | bytes << kBytesShift;
  if (old.context == running.context) {
    who |= old.who & (3u << kBytesShift | kOtherWarps | kOtherBlocks | kEarlierOperations);
    if (WarpOf(old.who) != WarpOf(who)) {
      who |= kOtherWarps;
    } else if (EpochOf(old.who) == EpochOf(who)) {
      if ((old.who & kOtherLanes) || ((old.who ^ who) & kThreadMask)) who |= kOtherLanes;
    }
  } else if (is_shared || old.context == 0) {
    // Other blocks have memory of their own.
  } else if (old.context >= running.first_of_operation) {
    who |= old.who & (kOtherBlocks | kEarlierOperations);
    if (old.context < running.first_of_block) who |= kOtherBlocks;
  } else {
    who = WithEarlierOperations(cell, who, !Ordered(old.context));
  }
  cell.read = {running.context, who};
}

__attribute__((cold, noinline)) void ReadUnwritten(Cell& cell, uintptr_t address, bool is_shared) {
  const OutsideKernel outside;
  const Allocation* const allocation =
      is_shared ? nullptr : TheRuntime().memory.Find(reinterpret_cast<void*>(address), 1);
  if (allocation == nullptr || !allocation->trusted) {
    ReportAccess(
        is_shared ? "reads uninitialized shared memory" : "reads uninitialized device memory",
        address);
  }
  // Once is enough.
  cell.write = {is_shared ? running.context : kBeforeAll, running.who};
}

// Of one cell, of which the access is to `bytes`.
void CheckCell(Cell& cell, uint32_t bytes, uintptr_t address, AccessKind kind, bool is_shared) {
  const bool reads = kind != AccessKind::kWrite, is_atomic = kind == AccessKind::kAtomic;
  // Contexts from here on count; those of shared memory are the block's alone.
  const uint32_t first = is_shared ? running.first_of_block : 1;
  Record& write = cell.write;
  if (write.context < first) {
    if (reads) ReadUnwritten(cell, address, is_shared);
  } else if ((BytesOf(write.who) & bytes) &&
             !(write.context == running.context &&
               ((write.who ^ running.who) & kThreadMask) == 0) &&
             !(is_atomic && (write.who & kAtomicWrite)) && Conflicts(write)) {
    ReportConflict(
        reads ? "reads without order after a write" : "writes without order after a write",
        "written", address, write);
  }
  if (kind == AccessKind::kRead) return AddRead(cell, bytes, is_shared);
  if (cell.read.context >= first && (BytesOf(cell.read.who) & bytes) &&
      ConflictsWithReads(cell, bytes)) {
    ReportConflict("writes without order after a read", "read", address, cell.read);
  }
  write = {running.context, running.who | bytes << kBytesShift | (is_atomic ? kAtomicWrite : 0)};
  if (cell.read.context != 0) cell.read.context = 0;
}

bool AreEqual(const Cell& a, const Cell& b) {
  return a.write.context == b.write.context && a.write.who == b.write.who &&
         a.read.context == b.read.context && a.read.who == b.read.who;
}

void CheckCells(Cell* cell, uintptr_t address, size_t size, AccessKind kind, bool is_shared) {
  const uintptr_t end = address + size;
  if ((address | size) & 1) {
    for (; address < end; ++cell) {
      const uint32_t bytes = (address & 1) ? 2 : (end - address >= 2 ? 3 : 1);
      CheckCell(*cell, bytes, address, kind, is_shared);
      address += bytes == 3 ? 2 : 1;
    }
    return;
  }
  Cell before = *cell;
  CheckCell(*cell, 3, address, kind, is_shared);
  // What has the same history has the same future, unless it is in a table.
  const Cell* after = (before.read.who | cell->read.who) & kEarlierOperations ? nullptr : cell;
  while ((address += 2) < end) {
    ++cell;
    if (after != nullptr && AreEqual(*cell, before)) {
      *cell = *after;
      continue;
    }
    before = *cell;
    CheckCell(*cell, 3, address, kind, is_shared);
    after = (before.read.who | cell->read.who) & kEarlierOperations ? nullptr : cell;
  }
}

__attribute__((noinline)) bool FindOperand(uintptr_t address, size_t size, bool is_write) {
  const OperandRanges* const operands = running.operation->operands.get();
  if (operands == nullptr) return true;
  const OutsideKernel outside;
  for (const OperandRange& operand : *operands) {
    if (address < operand.begin || address + size > operand.end) continue;
    if (is_write && !operand.written) continue;
    operand_begin = operand.begin;
    operand_end = operand.end;
    operand_written = operand.written;
    return true;
  }
  return false;
}
// The next access is likely to be to the same operand.
inline bool IsInOperands(uintptr_t address, size_t size, bool is_write) {
  if (address >= operand_begin && address + size <= operand_end && (operand_written || !is_write)) {
    return true;
  }
  return FindOperand(address, size, is_write);
}

// Where a kernel's access is to neither its stack nor memory of its device.
__attribute__((noinline)) void AccessElsewhere(uintptr_t address, size_t size, AccessKind kind) {
  const uintptr_t dynamic = address - reinterpret_cast<uintptr_t>(dynamic_shared);
  if (dynamic < kSharedBytes) {
    if (dynamic + size > running.dynamic_shared_bytes) {
      FaultAt(cudaErrorIllegalAddress, "touches memory outside of dynamic shared memory", address);
    }
    return CheckCells(dynamic_cells + dynamic / 2, address, size, kind, true);
  }
  if (address - StaticBegin() < StaticBytes()) {
    return CheckCells(static_cells + (address - StaticBegin()) / 2, address, size, kind, true);
  }
  if (kind == AccessKind::kRead && address >= reinterpret_cast<uintptr_t>(__executable_start) &&
      address < reinterpret_cast<uintptr_t>(__data_start)) {
    return;
  }
  if (!InMemory(address)) {
    FaultAt(cudaErrorIllegalAddress, "touches host memory", address);
  }
  if (RegionOf(address) != kHostRegion) {
    FaultAt(cudaErrorIllegalAddress, "touches memory of another device", address);
  }
  {
    const OutsideKernel outside;
    const Allocation* const allocation =
        TheRuntime().memory.Find(reinterpret_cast<void*>(address), size);
    if (allocation == nullptr || !allocation->mapped) {
      FaultAt(cudaErrorIllegalAddress, "touches host memory that is not mapped", address);
    }
  }
  CheckCells(CellOf(address), address, size, kind, false);
}

bool IsAllAllocated(uintptr_t address, size_t size) {
  while (size > 16) {
    const size_t part = std::min(size, kGranule - address % kGranule);
    if (address % kGranule + part > GranuleOf(address)) return false;
    address += part;
    size -= part;
  }
  return size == 0 || IsAllocated(address, size);
}

__attribute__((noinline)) void CountAccess(uintptr_t address, size_t size, AccessKind kind) {
  const OutsideKernel outside;
  traffic->Touch(address, size, kind != AccessKind::kWrite, kind != AccessKind::kRead);
}

__attribute__((noinline)) void CheckedAccess(uintptr_t address, size_t size, AccessKind kind) {
  if (address - running.device_memory >= kRegionBytes) return AccessElsewhere(address, size, kind);
  if (size <= 16 ? !IsAllocated(address, size) : !IsAllAllocated(address, size)) {
    FaultAt(cudaErrorIllegalAddress,
            kind == AccessKind::kRead ? "reads outside of an allocation"
                                      : "writes outside of an allocation",
            address);
  }
  if (!IsInOperands(address, size, kind != AccessKind::kRead)) {
    ReportAccess(kind == AccessKind::kRead ? "reads outside of its instruction's operands"
                                           : "writes outside of its instruction's operands",
                 address);
  }
  if (traffic_is_counted) CountAccess(address, size, kind);
  CheckCells(CellOf(address), address, size, kind, false);
}

// That the address is a multiple of the size is for -fsanitize=alignment, which knows the types of
// what gcc has put together or taken apart.
inline void KernelAccess(const void* p, size_t size, AccessKind kind) {
  if (!inside_kernel) return;
  const auto address = reinterpret_cast<uintptr_t>(p);
  if (address - running.stack >= kStackBytes) CheckedAccess(address, size, kind);
}

}  // namespace

void SetChecks(bool on) {
  std::unique_lock<std::mutex> lock(TheRuntime().mutex);
  if (on && !checks_on) {
    TheRuntime().DrainAll(lock);
    TheRuntime().memory.Trust();
  }
  checks_on = on;
}

bool ChecksAreOn() { return checks_on; }

void CountTraffic(bool on) {
  const std::unique_lock<std::mutex> lock(TheRuntime().mutex);
  if (traffic == nullptr) traffic = new Traffic();
  traffic_is_counted = on;
}

std::vector<KernelTraffic> TakeTraffic() {
  const std::unique_lock<std::mutex> lock(TheRuntime().mutex);
  return traffic == nullptr ? std::vector<KernelTraffic>() : traffic->Take();
}

void ForgetAccesses() {
  if (past == nullptr) {
    past = new Past();
    dynamic_cells = MakeCells(kSharedBytes);
    static_cells = MakeCells(StaticBytes());
  }
  *past = Past();
  past->operations.push_back({kBeforeAll, 0, 0, {"memory", nullptr, "of before"}});
  running = Running();
  ForgetCells(dynamic_cells, kSharedBytes);
  ForgetCells(static_cells, StaticBytes());
}

void BeginOperation(const Operation& operation) {
  running.operation = &operation;
  running.device_memory = kMemory + static_cast<size_t>(operation.device) * kRegionBytes;
  running.context = running.first_of_block = running.first_of_operation = ++past->last_context;
  running.who = 0;
  past->operations.push_back({running.context, operation.stream, operation.number, operation.name});
  past->ordered_begin = past->ordered_end = 0;
  past->grown_sets.clear();
  operand_begin = 0;
  operand_end = operation.operands == nullptr ? ~uintptr_t{0} : 0;
  operand_written = true;
}

void EndOperation() {
  const void* const kernel = running.operation->name.function;
  if (traffic_is_counted && kernel != nullptr) traffic->EndLaunch(FunctionName(kernel));
  running.operation = nullptr;
}

void PassBarrier() {
  if (++past->last_context == 0) {
    std::fprintf(stderr, "CUDA emulation: more blocks and barriers than are counted; Reset()\n");
    std::abort();
  }
  running.context = past->last_context;
}

void BeginBlock() {
  PassBarrier();
  running.first_of_block = running.context;
}

void SetThread(uint32_t thread, uint32_t warp_barriers) {
  running.who = thread | (warp_barriers & kEpochMask) << kEpochShift;
}

void PoisonShared(size_t dynamic_bytes) {
  running.dynamic_shared_bytes = dynamic_bytes;
  std::memset(dynamic_shared, 0xff, dynamic_bytes);
}

void* DynamicSharedMemory() { return dynamic_shared; }

bool CheckRange(const void* begin, size_t bytes, AccessKind kind) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  if (bytes == 0 || !InMemory(address)) return true;
  const bool is_write = kind != AccessKind::kRead;
  if (!IsAllAllocated(address, bytes)) {
    ReportAccess(is_write ? "writes outside of an allocation" : "reads outside of an allocation",
                 address);
    return false;
  }
  if (!checks_on || RegionOf(address) == kHostRegion) return true;
  if (!IsInOperands(address, bytes, is_write)) {
    ReportAccess(is_write ? "writes outside of its instruction's operands"
                          : "reads outside of its instruction's operands",
                 address);
  }
  CheckCells(CellOf(address), address, bytes, kind, false);
  return true;
}

void Fault(int cuda_error, const std::string& what) {
  inside_kernel = false;
  Report(WhatRuns() + " " + what);
  TheRuntime().sticky = static_cast<cudaError_t>(cuda_error);
  EndKernel();
}

std::string WhatRuns() {
  if (running.operation == nullptr) return "the host";
  const Operation& operation = *running.operation;
  std::string text = NameOf(operation.name) + " (";
  if (running.in_kernel) {
    const uint3 block = kernel_indices.block;
    text += "block " + std::to_string(block.x);
    if (kernel_indices.grid_dim.y * kernel_indices.grid_dim.z > 1) {
      text += "," + std::to_string(block.y) + "," + std::to_string(block.z);
    }
    text += ", thread " + std::to_string(running.who & kThreadMask) + ", ";
  }
  return text + "stream " + std::to_string(operation.stream) + " of device " +
         std::to_string(operation.device) + ")";
}

void AtomicAccess(const void* address, size_t bytes) {
  if (!inside_kernel) return;
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) {
    FaultAt(cudaErrorMisalignedAddress, "touches a misaligned address",
            reinterpret_cast<uintptr_t>(address));
  }
  KernelAccess(address, bytes, AccessKind::kAtomic);
}

}  // namespace sluice::cuda_emulation

// What gcc calls with -fsanitize=thread.
using sluice::cuda_emulation::AccessKind;
using sluice::cuda_emulation::KernelAccess;

#define SLUICE_ACCESS_HOOKS(bytes)                                                             \
  extern "C" void __tsan_read##bytes(void* p) { KernelAccess(p, bytes, AccessKind::kRead); }   \
  extern "C" void __tsan_write##bytes(void* p) { KernelAccess(p, bytes, AccessKind::kWrite); } \
  extern "C" void __tsan_volatile_read##bytes(void* p) {                                       \
    KernelAccess(p, bytes, AccessKind::kRead);                                                 \
  }                                                                                            \
  extern "C" void __tsan_volatile_write##bytes(void* p) {                                      \
    KernelAccess(p, bytes, AccessKind::kWrite);                                                \
  }                                                                                            \
  extern "C" void __tsan_unaligned_read##bytes(void* p) {                                      \
    KernelAccess(p, bytes, AccessKind::kRead);                                                 \
  }                                                                                            \
  extern "C" void __tsan_unaligned_write##bytes(void* p) {                                     \
    KernelAccess(p, bytes, AccessKind::kWrite);                                                \
  }
SLUICE_ACCESS_HOOKS(1)
SLUICE_ACCESS_HOOKS(2)
SLUICE_ACCESS_HOOKS(4)
SLUICE_ACCESS_HOOKS(8)
SLUICE_ACCESS_HOOKS(16)
#undef SLUICE_ACCESS_HOOKS

extern "C" void __tsan_read_range(void* p, size_t bytes) {
  KernelAccess(p, bytes, AccessKind::kRead);
}
extern "C" void __tsan_write_range(void* p, size_t bytes) {
  KernelAccess(p, bytes, AccessKind::kWrite);
}
