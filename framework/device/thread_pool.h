// A ThreadPool runs the pieces of one kernel on the threads of one device. It is owned by the
// device and called by the one worker that runs the device's kernels.
#ifndef SLUICE_FRAMEWORK_DEVICE_THREAD_POOL_H_
#define SLUICE_FRAMEWORK_DEVICE_THREAD_POOL_H_

#include <cstdint>
#include <type_traits>

namespace sluice {

// fn(i) is called once for each i in [0, count), from any of the threads; Run returns when all have
// ended. With one thread: a plain loop.
class ThreadPool {
 public:
  using Function = void (*)(void* state, int64_t i);
  virtual ~ThreadPool() = default;
  virtual int threads() const = 0;
  virtual void Run(int64_t count, Function fn, void* state) = 0;

  template <typename F>
  void ForEach(int64_t count, F&& fn) {
    Run(
        count,
        [](void* state, int64_t i) { (*static_cast<std::remove_reference_t<F>*>(state))(i); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }
};

// The calling thread alone.
class SingleThreadPool : public ThreadPool {
 public:
  int threads() const override { return 1; }
  void Run(int64_t count, Function fn, void* state) override {
    for (int64_t i = 0; i < count; ++i) fn(state, i);
  }
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_THREAD_POOL_H_
