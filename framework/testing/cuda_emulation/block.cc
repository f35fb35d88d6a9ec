#include "framework/testing/cuda_emulation/block.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "framework/testing/cuda_emulation/access.h"
#include "framework/testing/cuda_emulation/runtime.h"

// Saves what a call preserves and the stack's top, and goes on where another stack was left. 2 ns;
// swapcontext needs two system calls.
extern "C" void cuda_emulation_switch(void** saved_top, void* top);
asm(R"(
.text
.globl cuda_emulation_switch
.type cuda_emulation_switch, @function
cuda_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_emulation_switch, .-cuda_emulation_switch
)");
#if !defined(__x86_64__)
#error "the switch of stacks is written for x86-64"
#endif

// Kernels see them as constants.
extern "C" {
sluice::cuda_emulation::Indices cuda_emulation_indices;
}

namespace sluice::cuda_emulation {

extern const Indices kernel_indices __attribute__((alias("cuda_emulation_indices")));

namespace {

constexpr unsigned kMostThreads = 1024, kWarp = 32;

// A stack of its own. Threads run one after the other on one; only a thread that waits at a barrier
// keeps the stack, and others go on with another. So a kernel without barriers never switches.
struct Fiber {
  void* top;
  char* stack;
};

enum class State : uint8_t { kNew, kRuns, kAtBlockBarrier, kAtWarpBarrier, kEnded };
enum class Meeting : uint8_t { kBarrier, kShuffle, kBallot };

struct Thread {
  State state = State::kNew;
  Meeting meeting = Meeting::kBarrier;
  int line = 0;    // of the barrier
  int source = 0;  // lane of a shuffle
  uint32_t mask = 0;
  uint64_t value = 0;
  Fiber* fiber = nullptr;  // while it waits
};

struct Warp {
  uint32_t alive = 0, waiting = 0;  // lanes
  uint32_t barriers = 0;            // passed
};

struct Block {
  unsigned threads = 0, at_barrier = 0, ended = 0;
  // Threads are begun in the order (offset + stride * n) modulo a power of two: a permutation
  // without a table.
  unsigned span = 1, begun = 0, offset = 0, stride = 1;
  unsigned now = 0;  // the thread that runs
  bool must_end = false;
  Thread thread[kMostThreads];
  Warp warp[kMostThreads / kWarp];
  std::vector<unsigned> runnable;  // have waited
};

Block block;
const KernelRun* kernel_run = nullptr;
Xorshift* random_numbers = nullptr;
Fiber* fibers = nullptr;  // all, until the process ends
Fiber* fiber = nullptr;   // that runs
void* host_top = nullptr;
std::vector<Fiber*> free_fibers;
char* stacks = nullptr;

// Xorshift::Below divides, which is much for two draws at every barrier of every thread.
uint32_t Below(uint32_t n) {
  return static_cast<uint32_t>((random_numbers->Next() & 0xffffffff) * n >> 32);
}

void SetIndices(unsigned thread) {
  Indices& indices = cuda_emulation_indices;
  const uint3& size = indices.block_dim;
  block.now = thread;
  if (size.y * size.z == 1) {
    indices.thread = {thread, 0, 0};
  } else {
    indices.thread = {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
  }
  SetThread(thread, block.warp[thread / kWarp].barriers);
}

// ---- Stacks ----

// Where a fiber that never ran begins.
void RunThreads();

void Rewind(Fiber* f) {
  // Tops differ by some lines of the cache, or they would all fall into one set of it.
  const size_t number = static_cast<size_t>(f->stack - stacks) / kStackBytes;
  const size_t shift = number % 61 * 64;
  void** top = reinterpret_cast<void**>(f->stack + kStackBytes - shift) - 1;
  // As if called: the stack is 8 bytes off a multiple of 16 when a function begins.
  *--top = reinterpret_cast<void*>(RunThreads);
  constexpr int kSavedRegisters = 6;
  top -= kSavedRegisters;
  std::memset(top, 0, kSavedRegisters * sizeof(void*));
  f->top = top;
}

void MakeFibers() {
  constexpr size_t kBytes = kMostThreads * kStackBytes;
  stacks = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  madvise(stacks, kBytes, MADV_HUGEPAGE);
  fibers = new Fiber[kMostThreads];
  for (size_t i = kMostThreads; i-- > 0;) {
    fibers[i].stack = stacks + i * kStackBytes;
    Rewind(&fibers[i]);
    free_fibers.push_back(&fibers[i]);
  }
}

// From the host's stack to a fiber's, until it comes back.
void Resume(Fiber* f) {
  fiber = f;
  running.stack = reinterpret_cast<uintptr_t>(f->stack);
  cuda_emulation_switch(&host_top, f->top);
}

void BackToHost() {
  inside_kernel = false;
  cuda_emulation_switch(&fiber->top, host_top);
}

void Abandon(Fiber* f) {
  Rewind(f);
  free_fibers.push_back(f);
}

// ---- Barriers ----

void MakeRunnable(unsigned thread) {
  block.thread[thread].state = State::kRuns;
  block.runnable.push_back(thread);
}

void ReleaseBlock(int line) {
  for (unsigned i = 0; i < block.threads; ++i) {
    if (block.thread[i].line == line) continue;
    Report(WhatRuns() + " meets the threads of its block at different barriers, in lines " +
           std::to_string(line) + " and " + std::to_string(block.thread[i].line));
    break;
  }
  PassBarrier();
  block.at_barrier = 0;
  for (unsigned i = 0; i < block.threads; ++i) MakeRunnable(i);
}

// The lanes of `present` have met; gives each what it came for.
void Exchange(unsigned first, uint32_t present, uint32_t mask) {
  uint64_t values[kWarp] = {};
  uint32_t votes = 0;
  for (uint32_t lanes = present; lanes != 0; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    if (block.thread[first + lane].value != 0) votes |= 1u << lane;
  }
  for (uint32_t lanes = present; lanes != 0; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    Thread& thread = block.thread[first + lane];
    if (thread.mask != mask) {
      Report(WhatRuns() + " meets lanes of its warp that give another mask, in line " +
             std::to_string(thread.line));
    }
    int source = thread.source < 0 ? lane : thread.source;
    if (thread.meeting == Meeting::kShuffle && !(present & 1u << source)) {
      Report(WhatRuns() + " shuffles from lane " + std::to_string(source) +
             ", which does not take part, in line " + std::to_string(thread.line));
      source = lane;
    }
    values[lane] = thread.meeting == Meeting::kBallot ? votes : block.thread[first + source].value;
  }
  for (uint32_t lanes = present; lanes != 0; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    block.thread[first + lane].value = values[lane];
    MakeRunnable(first + lane);
  }
}

// If all lanes of a mask that have not ended are there.
void ReleaseWarp(unsigned number, uint32_t mask) {
  Warp& warp = block.warp[number];
  const uint32_t present = mask & warp.alive;
  if (present == 0 || present != (warp.waiting & mask)) return;
  Exchange(number * kWarp, present, mask);
  warp.waiting &= ~mask;
  ++warp.barriers;
}

uint64_t MeetWarp(Meeting meeting, uint32_t mask, uint64_t value, int source, int line) {
  inside_kernel = false;
  Thread& thread = block.thread[block.now];
  const unsigned lane = block.now % kWarp;
  thread.state = State::kAtWarpBarrier;
  if (!(mask & 1u << lane)) {
    Report(WhatRuns() + " gives a mask without its own lane, in line " + std::to_string(line));
    mask |= 1u << lane;
  }
  thread.meeting = meeting;
  thread.mask = mask;
  thread.value = value;
  thread.source = source;
  thread.line = line;
  block.warp[block.now / kWarp].waiting |= 1u << lane;
  ReleaseWarp(block.now / kWarp, mask);
  thread.fiber = fiber;
  BackToHost();
  return thread.value;
}

// Others may have waited for this lane alone.
void EndThread() {
  Thread& thread = block.thread[block.now];
  thread.state = State::kEnded;
  ++block.ended;
  const unsigned number = block.now / kWarp;
  Warp& warp = block.warp[number];
  warp.alive &= ~(1u << block.now % kWarp);
  for (uint32_t waiting = warp.waiting; waiting != 0; waiting &= waiting - 1) {
    const Thread& other = block.thread[number * kWarp + __builtin_ctz(waiting)];
    if (other.state == State::kAtWarpBarrier) ReleaseWarp(number, other.mask);
  }
}

// ---- Threads and blocks ----

bool HasNew() { return block.begun < block.span; }

void RunThreads() {
  for (;;) {
    while (HasNew()) {
      const unsigned thread = (block.offset + block.stride * block.begun++) & (block.span - 1);
      if (thread >= block.threads) continue;
      SetIndices(thread);
      block.thread[thread].state = State::kRuns;
      kernel_run->thread();
      inside_kernel = false;
      EndThread();
      if (!block.runnable.empty()) break;
    }
    free_fibers.push_back(fiber);
    BackToHost();
  }
}

void PrepareBlock() {
  const uint3& size = cuda_emulation_indices.block_dim;
  block.threads = size.x * size.y * size.z;
  block.at_barrier = block.ended = block.begun = 0;
  for (block.span = 1; block.span < block.threads; block.span *= 2) {
  }
  block.offset = static_cast<unsigned>(random_numbers->Next());
  block.stride = static_cast<unsigned>(random_numbers->Next()) | 1;
  block.runnable.clear();
  for (unsigned i = 0; i < block.threads; ++i) {
    block.thread[i].state = State::kNew;
    block.thread[i].fiber = nullptr;
  }
  for (unsigned w = 0; w * kWarp < block.threads; ++w) {
    const unsigned lanes = block.threads - w * kWarp;
    block.warp[w] = Warp();
    block.warp[w].alive = lanes >= kWarp ? ~0u : (1u << lanes) - 1;
  }
}

void AbandonThreads() {
  for (unsigned i = 0; i < block.threads; ++i) {
    Thread& thread = block.thread[i];
    if (thread.state != State::kEnded && thread.fiber != nullptr && thread.fiber != fiber) {
      Abandon(thread.fiber);
    }
  }
}

void ReportStuck() {
  unsigned waiting = 0;
  int line = 0;
  for (unsigned i = 0; i < block.threads; ++i) {
    const Thread& thread = block.thread[i];
    if (thread.state != State::kAtBlockBarrier && thread.state != State::kAtWarpBarrier) continue;
    ++waiting;
    line = thread.line;
  }
  Report(WhatRuns() + " has a barrier that not all threads reach: " + std::to_string(waiting) +
         " of " + std::to_string(block.threads) + " wait, one in line " + std::to_string(line) +
         "; " + std::to_string(block.ended) + " have ended");
}

// False if the kernel ended early.
bool RunBlock() {
  PrepareBlock();
  while (block.ended < block.threads) {
    const unsigned fresh = block.span - block.begun;
    const auto waited = static_cast<unsigned>(block.runnable.size());
    if (waited > 0 && (fresh == 0 || Below(fresh + waited) < waited)) {
      const unsigned chosen = Below(waited), thread = block.runnable[chosen];
      block.runnable[chosen] = block.runnable.back();
      block.runnable.pop_back();
      SetIndices(thread);
      Fiber* const its = block.thread[thread].fiber;
      block.thread[thread].fiber = nullptr;
      Resume(its);
    } else if (fresh > 0) {
      if (free_fibers.empty()) MakeFibers();
      Fiber* const next = free_fibers.back();
      free_fibers.pop_back();
      Resume(next);
    } else {
      ReportStuck();
      fiber = nullptr;
      AbandonThreads();
      TheRuntime().sticky = cudaErrorLaunchFailure;
      return false;
    }
    if (block.must_end) {
      AbandonThreads();
      Abandon(fiber);
      return false;
    }
  }
  return true;
}

}  // namespace

void RunKernel(const KernelRun& run, Xorshift* random) {
  kernel_run = &run;
  random_numbers = random;
  block.must_end = false;
  Indices& indices = cuda_emulation_indices;
  indices.block_dim = run.threads;
  indices.grid_dim = run.blocks;
  PoisonShared(run.shared_bytes);
  running.in_kernel = true;
  const uint64_t blocks = uint64_t{run.blocks.x} * run.blocks.y * run.blocks.z;
  uint64_t span = 1;
  while (span < blocks) span *= 2;
  const uint64_t offset = random->Next(), stride = random->Next() | 1;
  for (uint64_t n = 0; n < span; ++n) {
    const uint64_t i = (offset + stride * n) & (span - 1);
    if (i >= blocks) continue;
    BeginBlock();
    indices.block = {static_cast<unsigned>(i % run.blocks.x),
                     static_cast<unsigned>(i / run.blocks.x % run.blocks.y),
                     static_cast<unsigned>(i / run.blocks.x / run.blocks.y)};
    if (!RunBlock()) break;
  }
  running.in_kernel = false;
}

void EndKernel() {
  block.must_end = true;
  BackToHost();
  __builtin_unreachable();
}

void EnterKernel() { inside_kernel = ChecksAreOn(); }

// ---- What kernels call ----

void BlockBarrier(int line) {
  inside_kernel = false;
  Thread& thread = block.thread[block.now];
  thread.state = State::kAtBlockBarrier;
  thread.line = line;
  thread.fiber = fiber;
  if (++block.at_barrier == block.threads) ReleaseBlock(line);
  BackToHost();
  inside_kernel = ChecksAreOn();
}

void WarpBarrier(unsigned mask, int line) {
  MeetWarp(Meeting::kBarrier, mask, 0, -1, line);
  inside_kernel = ChecksAreOn();
}

uint64_t Shuffle(unsigned mask, uint64_t value, int source, int line) {
  const uint64_t result = MeetWarp(Meeting::kShuffle, mask, value, source, line);
  inside_kernel = ChecksAreOn();
  return result;
}

unsigned Ballot(unsigned mask, bool vote, int line) {
  const uint64_t result = MeetWarp(Meeting::kBallot, mask, vote ? 1 : 0, -1, line);
  inside_kernel = ChecksAreOn();
  return static_cast<unsigned>(result);
}

int Lane() { return static_cast<int>(block.now % kWarp); }

void* DynamicShared() { return DynamicSharedMemory(); }

}  // namespace sluice::cuda_emulation
