// A function with a stack of its own, which can pause in the middle and be resumed later by the
// thread that made it. For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_FIBER_H_
#define SLUICE_FRAMEWORK_TESTING_FIBER_H_

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace sluice {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  // It has run to its end, or was never resumed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it pauses or ends. Not from inside.
  void Resume();
  // From inside: returns when it is resumed.
  void Pause();
  bool done() const { return done_; }
  bool running() const { return running_; }

 private:
  static void Enter(unsigned high, unsigned low);

  const std::function<void()> body_;
  std::byte* stack_;
  ucontext_t inside_, outside_;
  bool running_ = false, done_ = false;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_FIBER_H_
