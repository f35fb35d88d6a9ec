#include "framework/testing/allocations.h"

#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace sluice {
namespace {

// Constant-initialized: the first allocation of a process comes before any constructor.
struct Count {
  std::atomic<int64_t> calls{0}, largest{0};
};
Count own, library;
std::atomic<bool (*)()> inside_library{nullptr};

[[maybe_unused]] void Note(size_t bytes) {
  bool (*const inside)() = inside_library.load(std::memory_order_relaxed);
  Count& count = inside != nullptr && inside() ? library : own;
  count.calls.fetch_add(1, std::memory_order_relaxed);
  int64_t largest = count.largest.load(std::memory_order_relaxed);
  while (static_cast<int64_t>(bytes) > largest &&
         !count.largest.compare_exchange_weak(largest, static_cast<int64_t>(bytes))) {
  }
}

// The compiler may leave out memory that nobody looks at.
void* Seen(void* memory) {
  asm volatile("" : : "r"(memory) : "memory");
  return memory;
}

template <void* (*kGet)(size_t)>
void GetAndFree(size_t bytes) {
  std::free(Seen(kGet(bytes)));
}

void* Posix(size_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, 64, bytes) == 0 ? memory : nullptr;
}

constexpr std::align_val_t kAligned{128};

constexpr AllocationDoor kDoors[] = {
    {"malloc", GetAndFree<malloc>},
    {"calloc", GetAndFree<[](size_t n) { return calloc(n, 1); }>},
    {"realloc", GetAndFree<[](size_t n) { return realloc(nullptr, n); }>},
    {"reallocarray", GetAndFree<[](size_t n) { return reallocarray(nullptr, n, 1); }>},
    {"aligned_alloc", GetAndFree<[](size_t n) { return aligned_alloc(64, n); }>},
    {"posix_memalign", GetAndFree<Posix>},
    {"memalign", GetAndFree<[](size_t n) { return memalign(64, n); }>},
    {"valloc", GetAndFree<valloc>},
    {"pvalloc", GetAndFree<pvalloc>},
    {"new", [](size_t n) { ::operator delete(Seen(::operator new(n))); }},
    {"new[]", [](size_t n) { ::operator delete[](Seen(::operator new[](n))); }},
    {"nothrow new", [](size_t n) { ::operator delete(Seen(::operator new(n, std::nothrow))); }},
    {"nothrow new[]",
     [](size_t n) { ::operator delete[](Seen(::operator new[](n, std::nothrow))); }},
    {"aligned new",
     [](size_t n) { ::operator delete(Seen(::operator new(n, kAligned)), kAligned); }},
    {"aligned new[]",
     [](size_t n) { ::operator delete[](Seen(::operator new[](n, kAligned)), kAligned); }},
    {"aligned nothrow new",
     [](size_t n) {
       ::operator delete(Seen(::operator new(n, kAligned, std::nothrow)), kAligned);
     }},
    {"aligned nothrow new[]",
     [](size_t n) {
       ::operator delete[](Seen(::operator new[](n, kAligned, std::nothrow)), kAligned);
     }},
};

}  // namespace

void StartCountingAllocations(bool (*in_library)()) {
  inside_library.store(in_library);
  for (Count* count : {&own, &library}) {
    count->calls.store(0);
    count->largest.store(0);
  }
}

Allocations CountedAllocations() {
  return {own.calls.load(), library.calls.load(), own.largest.load(), library.largest.load()};
}

absl::Span<const AllocationDoor> AllocationDoors() { return kDoors; }

}  // namespace sluice

#if !defined(ADDRESS_SANITIZER) && !defined(THREAD_SANITIZER)
// The functions of glibc that give memory, each counted and then left to glibc, whose free takes
// back what any of them gave.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  sluice::Note(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
  sluice::Note(n * bytes);
  return __libc_calloc(n, bytes);
}
void* realloc(void* memory, size_t bytes) {
  sluice::Note(bytes);
  return __libc_realloc(memory, bytes);
}
void* reallocarray(void* memory, size_t n, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(n, bytes, &all)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(memory, all);
}
void* memalign(size_t alignment, size_t bytes) {
  sluice::Note(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
void* valloc(size_t bytes) { return memalign(static_cast<size_t>(getpagesize()), bytes); }
void* pvalloc(size_t bytes) {
  const size_t page = static_cast<size_t>(getpagesize());
  return memalign(page, (bytes + page - 1) / page * page);
}
}
#endif
