// Marks the calls into a library that allocates on its own, so that a test which counts allocations
// can tell whose one is: our code allocates nothing while kernels run.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_LIBRARY_CALL_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_LIBRARY_CALL_H_

namespace sluice {

class ScopedLibraryCall {
 public:
  ScopedLibraryCall() { ++depth_; }
  ~ScopedLibraryCall() { --depth_; }
  ScopedLibraryCall(const ScopedLibraryCall&) = delete;
  ScopedLibraryCall& operator=(const ScopedLibraryCall&) = delete;
  // Whether the calling thread is inside of one.
  static bool Active() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

// What every thread that runs CPU kernels must call first: one OpenMP thread for libraries (ours
// are the only threads), and floating point as the processor starts it (denormals are kept).
void InitKernelThread();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_LIBRARY_CALL_H_
