// The four loops whose speed is what we call the limit of a memory: nothing but loads and stores.
// Compiled once for each instruction-set level, as kernels are; included by stream_loops.cc too, so
// no inline functions here.
#ifndef SLUICE_BENCH_STREAM_LOOPS_H_
#define SLUICE_BENCH_STREAM_LOOPS_H_

#include <stdint.h>

namespace sluice {

// n is a multiple of 64; arrays are aligned to 64 bytes. The streaming ones store past the caches.
struct StreamLoops {
  float (*read)(const float* a, int64_t n);
  void (*triad)(const float* a, const float* b, float* c, int64_t n);  // c = a + 3 b
  void (*triad_streaming)(const float* a, const float* b, float* c, int64_t n);
  void (*copy)(const float* a, float* c, int64_t n);
  void (*copy_streaming)(const float* a, float* c, int64_t n);
  void (*add)(const float* a, float* c, int64_t n);  // c += a
};

namespace v3 {
extern const StreamLoops kStreamLoops;
}  // namespace v3
namespace v4 {
extern const StreamLoops kStreamLoops;
}  // namespace v4

}  // namespace sluice

#endif  // SLUICE_BENCH_STREAM_LOOPS_H_
