#include "framework/testing/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "framework/base/log.h"

namespace sluice {
namespace {

// As much as a session's thread needs to read and write checkpoints, several times.
constexpr size_t kStackBytes = size_t{512} << 10, kGuardBytes = 4096;

// Stacks are used again: their pages are there, and warm.
class StackPool {
 public:
  ~StackPool() {
    for (std::byte* stack : free_) munmap(stack, kStackBytes);
  }
  std::byte* Take() {
    if (!free_.empty()) {
      std::byte* const stack = free_.back();
      free_.pop_back();
      return stack;
    }
    void* const stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    SLUICE_CHECK(stack != MAP_FAILED);
    // Who needs more than a stack has ends here, and not in another's memory.
    SLUICE_CHECK_EQ(mprotect(stack, kGuardBytes, PROT_NONE), 0);
    return static_cast<std::byte*>(stack);
  }
  void Give(std::byte* stack) { free_.push_back(stack); }

 private:
  std::vector<std::byte*> free_;
};

StackPool& Stacks() {
  thread_local StackPool pool;
  return pool;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(Stacks().Take()) {
  SLUICE_CHECK_EQ(getcontext(&inside_), 0);
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = &outside_;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::Enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

Fiber::~Fiber() { Stacks().Give(stack_); }

// A context's function is given numbers of the size of an int alone.
void Fiber::Enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low);
  self->body_();
  self->done_ = true;
  self->running_ = false;
}

void Fiber::Resume() {
  SLUICE_CHECK(!running_ && !done_);
  running_ = true;
  SLUICE_CHECK_EQ(swapcontext(&outside_, &inside_), 0);
}

void Fiber::Pause() {
  SLUICE_CHECK(running_);
  running_ = false;
  SLUICE_CHECK_EQ(swapcontext(&inside_, &outside_), 0);
}

}  // namespace sluice
