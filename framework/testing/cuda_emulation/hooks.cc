// The rest of what gcc calls where it has instrumented a file: for -fsanitize=thread besides loads
// and stores (access.cc), and for -fsanitize=alignment,bounds,signed-integer-overflow.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "framework/testing/cuda_emulation/access.h"
#include "framework/testing/cuda_emulation/runtime.h"

namespace sluice::cuda_emulation {
namespace {

// What the sanitizer's compiled-in descriptions of a place begin with.
struct Place {
  const char* file;
  uint32_t line, column;
};

std::string InWords(const Place& place) {
  if (place.file == nullptr) return "";
  return std::string(" in ") + place.file + ":" + std::to_string(place.line);
}

// Host code of the same files is checked by the sanitizers of its own tests.
void ReportUndefined(const void* data, const char* what) {
  if (!inside_kernel) return;
  const OutsideKernel outside;
  Report(WhatRuns() + " " + what + InWords(*static_cast<const Place*>(data)));
}

}  // namespace
}  // namespace sluice::cuda_emulation

using sluice::cuda_emulation::inside_kernel;
using sluice::cuda_emulation::ReportUndefined;

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

void __ubsan_handle_type_mismatch_v1(void* data, void* pointer) {
  if (!inside_kernel) return;
  (void)data;
  char text[40];
  std::snprintf(text, sizeof(text), "touches a misaligned address at %p", pointer);
  sluice::cuda_emulation::Fault(cudaErrorMisalignedAddress, text);
}
void __ubsan_handle_out_of_bounds(void* data, void*) {
  ReportUndefined(data, "indexes outside of an array");
}
void __ubsan_handle_add_overflow(void* data, void*, void*) {
  ReportUndefined(data, "has an integer overflow");
}
void __ubsan_handle_sub_overflow(void* data, void*, void*) {
  ReportUndefined(data, "has an integer overflow");
}
void __ubsan_handle_mul_overflow(void* data, void*, void*) {
  ReportUndefined(data, "has an integer overflow");
}
void __ubsan_handle_negate_overflow(void* data, void*) {
  ReportUndefined(data, "has an integer overflow");
}
void __ubsan_handle_divrem_overflow(void* data, void*, void*) {
  ReportUndefined(data, "has an integer overflow");
}

}  // extern "C"

// Atomics of host code in instrumented files: reference counts, guards of statics. The orders that
// they ask for are all given the strongest.
#define SLUICE_ATOMIC_HOOKS(bits, T)                                                             \
  extern "C" {                                                                                   \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                                       \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                              \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) {                                    \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                              \
  T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) {                                    \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                          \
  }                                                                                              \
  T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int) {                                   \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                           \
  }                                                                                              \
  T __tsan_atomic##bits##_fetch_sub(volatile T* p, T v, int) {                                   \
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                           \
  }                                                                                              \
  T __tsan_atomic##bits##_fetch_and(volatile T* p, T v, int) {                                   \
    return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);                                           \
  }                                                                                              \
  T __tsan_atomic##bits##_fetch_or(volatile T* p, T v, int) {                                    \
    return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);                                            \
  }                                                                                              \
  T __tsan_atomic##bits##_fetch_xor(volatile T* p, T v, int) {                                   \
    return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST);                                           \
  }                                                                                              \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T v, int, int) { \
    return __atomic_compare_exchange_n(p, expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
  }                                                                                              \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* expected, T v, int, int) {   \
    return __atomic_compare_exchange_n(p, expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
  }                                                                                              \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T v, int, int) {       \
    __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);         \
    return expected;                                                                             \
  }                                                                                              \
  }
SLUICE_ATOMIC_HOOKS(8, uint8_t)
SLUICE_ATOMIC_HOOKS(16, uint16_t)
SLUICE_ATOMIC_HOOKS(32, uint32_t)
SLUICE_ATOMIC_HOOKS(64, uint64_t)
#undef SLUICE_ATOMIC_HOOKS

extern "C" void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
extern "C" void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
