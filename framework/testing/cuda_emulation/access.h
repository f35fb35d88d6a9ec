// Every access of what runs: a kernel's come by the calls that gcc puts beside its loads and
// stores, those of copies, fills and library calls as ranges.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_ACCESS_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "framework/testing/cuda_emulation/memory.h"
#include "framework/testing/cuda_emulation/operation.h"

namespace sluice::cuda_emulation {

// What a block may have at most, of which 48 KiB without being asked for.
constexpr size_t kSharedBytes = 227 << 10, kDefaultSharedBytes = 48 << 10;
#ifdef ADDRESS_SANITIZER
constexpr size_t kStackBytes = 512 << 10;  // its frames have room around each variable
#else
constexpr size_t kStackBytes = 64 << 10;
#endif

enum class AccessKind { kRead, kWrite, kAtomic };

// Whether this thread of the host is inside of a kernel whose accesses are checked. Others may run
// code that gcc has instrumented at the same time.
extern constinit thread_local bool inside_kernel __attribute__((tls_model("initial-exec")));

// While it lives, accesses are the emulation's own: its templates may be the copies that gcc has
// instrumented for a kernel's file.
class OutsideKernel {
 public:
  OutsideKernel() : was_inside_(inside_kernel) { inside_kernel = false; }
  ~OutsideKernel() { inside_kernel = was_inside_; }
  OutsideKernel(const OutsideKernel&) = delete;
  OutsideKernel& operator=(const OutsideKernel&) = delete;

 private:
  const bool was_inside_;
};

// What runs; one operation at a time does. All is set by the functions below.
struct Running {
  const Operation* operation = nullptr;
  uint32_t context = 1;             // of this block, between these barriers
  uint32_t first_of_block = 1;      // its first
  uint32_t first_of_operation = 1;  // that of the operation's first block
  uint32_t who = 0;                 // the thread, as in Record::who
  uintptr_t stack = 0;              // the lowest address of its stack
  uintptr_t device_memory = 0;      // of the operation's device
  size_t dynamic_shared_bytes = 0;
  bool in_kernel = false;
};
extern Running running;

void SetChecks(bool on);
bool ChecksAreOn();
// Forgets all that has run.
void ForgetAccesses();

void BeginOperation(const Operation& operation);
void EndOperation();
// The next block of the operation, and what comes after a barrier of this one.
void BeginBlock();
void PassBarrier();
void SetThread(uint32_t thread, uint32_t warp_barriers);
// Dynamic shared memory of a kernel that begins, which is not to have zeros that nobody wrote.
void PoisonShared(size_t dynamic_bytes);
void* DynamicSharedMemory();

// A range that a copy, a fill or a library reads or writes. False if it is not all in live
// allocations, or not in the operands of the operation: then it must not be done.
bool CheckRange(const void* begin, size_t bytes, AccessKind kind);

// An error that ends a kernel, as hardware does.
[[noreturn]] void Fault(int cuda_error, const std::string& what);
// "kernel Softmax, block 1,0,0, thread 5, stream 2 of device 0"
std::string WhatRuns();

// Of an atomic operation of a kernel.
void AtomicAccess(const void* address, size_t bytes);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_ACCESS_H_
