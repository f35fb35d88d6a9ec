// Atomics of kernels. Threads of a kernel run one at a time, so plain loads and stores do.
#include <cuda_kernel.h>

#include <algorithm>

#include "framework/testing/cuda_emulation/access.h"

namespace sluice::cuda_emulation {
namespace {

template <typename T, typename Fn>
T Change(T* address, const Fn& fn) {
  AtomicAccess(address, sizeof(T));
  const T old = *address;
  *address = fn(old);
  return old;
}

template <typename T>
T Add(T* address, T value) {
  return Change(address, [value](T old) {
    return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(value));
  });
}

template <typename T>
T Max(T* address, T value) {
  return Change(address, [value](T old) { return std::max(old, value); });
}

template <typename T>
T CompareAndSwap(T* address, T compare, T value) {
  return Change(address, [=](T old) { return old == compare ? value : old; });
}

}  // namespace
}  // namespace sluice::cuda_emulation

using sluice::cuda_emulation::Add;
using sluice::cuda_emulation::CompareAndSwap;
using sluice::cuda_emulation::Max;

int atomicAdd(int* address, int value) { return Add(address, value); }
unsigned int atomicAdd(unsigned int* address, unsigned int value) { return Add(address, value); }
unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return Add(address, value);
}
int atomicMax(int* address, int value) { return Max(address, value); }
unsigned int atomicMax(unsigned int* address, unsigned int value) { return Max(address, value); }
long long atomicMax(long long* address, long long value) { return Max(address, value); }
unsigned long long atomicMax(unsigned long long* address, unsigned long long value) {
  return Max(address, value);
}
int atomicCAS(int* address, int compare, int value) {
  return CompareAndSwap(address, compare, value);
}
unsigned int atomicCAS(unsigned int* address, unsigned int compare, unsigned int value) {
  return CompareAndSwap(address, compare, value);
}
unsigned long long atomicCAS(unsigned long long* address, unsigned long long compare,
                             unsigned long long value) {
  return CompareAndSwap(address, compare, value);
}
