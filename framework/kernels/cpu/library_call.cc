#include "framework/kernels/cpu/library_call.h"

#include <xmmintrin.h>

// Of libgomp, which oneDNN brings; nothing of ours is compiled with -fopenmp.
extern "C" void omp_set_num_threads(int threads);

namespace sluice {

void InitKernelThread() {
  omp_set_num_threads(1);
  _mm_setcsr(0x1f80);
}

}  // namespace sluice
