// Accesses that nothing orders, inside of a kernel: compute-sanitizer's racecheck, of device memory
// as well; and barriers, its synccheck.
#include <cuda_dynamic_shared.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "framework/testing/cuda_emulation/test_kernels.h"

namespace sluice::cuda_emulation {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

__global__ void SharedRace(float* p) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 1;
  __syncthreads();
  tile[threadIdx.x] += tile[(threadIdx.x + 1) % 64];
  __syncthreads();
  p[threadIdx.x] = tile[threadIdx.x];
}
__global__ void RaceInWarp(float* p, bool ordered) {
  __shared__ float tile[32];
  tile[threadIdx.x] = 1;
  __syncwarp();
  const float v = tile[31 - threadIdx.x];
  if (ordered) __syncwarp();
  tile[threadIdx.x] = 2;
  p[threadIdx.x] = v;
}
__global__ void AddOne(float* p) { p[threadIdx.x] += 1; }
__global__ void AddToFirst(float* p) { p[0] += 1; }
__global__ void HalfAtomic(int* p) {
  if (threadIdx.x > 0) {
    atomicAdd(p, 1);
  } else {
    *p = 0;
  }
}
__global__ void Atomic(int* p) { atomicAdd(p, 1); }
// Some threads read what thread 0 then writes, in the same interval or the next.
__global__ void ReadThenWrite(float* p, float* q, int first_reader, int readers,
                              bool same_interval) {
  const int thread = static_cast<int>(threadIdx.x);
  float v = 0;
  if (thread == 0 || (thread >= first_reader && thread < first_reader + readers)) v = p[0];
  if (!same_interval) __syncthreads();
  if (thread == 0) p[0] = 2;
  q[thread] = v;
}
// What the first warp has written when the second reads it.
__global__ void WrittenByAnotherWarp(float* q, bool with_barrier) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x < 32) tile[threadIdx.x] = 2;
  if (with_barrier) __syncthreads();
  q[threadIdx.x] = tile[threadIdx.x % 32];
}
// Block 1 reads what block 0 writes after barriers of its own, which order no other block.
__global__ void OtherBlockReads(float* p, float* q) {
  const float v = p[threadIdx.x];
  __syncthreads();
  q[blockIdx.x * 32 + threadIdx.x] = v + p[threadIdx.x];
  __syncthreads();
  if (blockIdx.x == 0) p[threadIdx.x] = 1;
}
// More intervals than eight bits count, with the same address at both ends.
__global__ void ManyBarriers(float* p) {
  __shared__ float first;
  if (threadIdx.x == 0) first = 1;
  for (int i = 0; i < 256; ++i) __syncthreads();
  p[threadIdx.x] = first;
}
__global__ void Divergent(float* p) {
  if (threadIdx.x < 20) __syncthreads();
  p[threadIdx.x] = 1;
}
__global__ void TwoBarriers(float* p) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  p[threadIdx.x] = 1;
}
__global__ void MissingLane(float* p) {
  if (threadIdx.x < 31) p[threadIdx.x] = __shfl_down_sync(~0u, 1.f, 1);
}
// Lane 3 waits for more lanes than the others of its half.
__global__ void DifferentMasks(float* p) {
  const unsigned mask = threadIdx.x < 16 && threadIdx.x != 3 ? 0xffffu : ~0u;
  p[threadIdx.x] = __shfl_xor_sync(mask, 1.f, 1);
}
__global__ void NotInMask(float* p) {
  __syncwarp(~(1u << 7));
  p[threadIdx.x] = 1;
}

class RaceTest : public EmulationTest {};

TEST_F(RaceTest, InSharedMemory) {
  ASSERT_EQ(Launch(SharedRace, {1, 64}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), AllOf(HasSubstr("kernel SharedRace"), HasSubstr("without order after"),
                                 HasSubstr("of the same block")));
}

TEST_F(RaceTest, InsideOfAWarp) {
  ASSERT_EQ(Launch(RaceInWarp, {1, 32}, first_, zeros_, true), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeErrors(), IsEmpty());
  ASSERT_EQ(Launch(RaceInWarp, {1, 32}, first_, zeros_, false), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("without order after"));
}

TEST_F(RaceTest, TwoBlocksAtOneAddress) {
  ASSERT_EQ(Launch(AddOne, {1, 32}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeErrors(), IsEmpty());
  ASSERT_EQ(Launch(AddOne, {2, 32}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), AllOf(HasSubstr("without order after"), HasSubstr("by another block")));
}

TEST_F(RaceTest, LostUpdate) {
  ASSERT_EQ(Launch(AddToFirst, {1, 32}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("without order after"));
}

TEST_F(RaceTest, AtomicsAmongThemselvesOnly) {
  int* const counter = reinterpret_cast<int*>(zeros_);
  ASSERT_EQ(Launch(Atomic, {3, 64}, first_, counter), cudaSuccess);
  int sum = 0;
  ASSERT_EQ(Finish(), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(&sum, counter, sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(sum, 192);
  EXPECT_THAT(TakeErrors(), IsEmpty());
  ASSERT_EQ(Launch(HalfAtomic, {1, 32}, first_, counter), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("without order after"));
}

// Whichever of them was last.
TEST_F(RaceTest, AnyOfSeveralReaders) {
  for (int seed = 0; seed < 20; ++seed) {
    for (const auto& [first_reader, readers] : {std::pair(40, 1), {5, 1}, {1, 31}, {32, 32}}) {
      for (const bool same_interval : {false, true}) {
        Begin(seed);
        ASSERT_EQ(Launch(ReadThenWrite, {1, 64}, first_, zeros_, fresh_, first_reader, readers,
                         same_interval),
                  cudaSuccess);
        EXPECT_EQ(Finish(), cudaSuccess);
        EXPECT_EQ(TakeErrors().empty(), !same_interval) << first_reader;
      }
    }
  }
}

TEST_F(RaceTest, BetweenWarps) {
  for (int seed = 0; seed < 20; ++seed) {
    for (const bool with_barrier : {false, true}) {
      Begin(seed);
      ASSERT_EQ(Launch(WrittenByAnotherWarp, {1, 64}, first_, zeros_, with_barrier), cudaSuccess);
      EXPECT_EQ(Finish(), cudaSuccess);
      EXPECT_EQ(TakeErrors().empty(), with_barrier);
    }
  }
}

TEST_F(RaceTest, ReadersOfAnotherBlockAreNotForgottenAtBarriers) {
  for (int seed = 0; seed < 20; ++seed) {
    Begin(seed);
    ASSERT_EQ(Launch(OtherBlockReads, {2, 32}, first_, zeros_, fresh_), cudaSuccess);
    EXPECT_EQ(Finish(), cudaSuccess);
    EXPECT_THAT(TakeError(), HasSubstr("without order after"));
  }
}

TEST_F(RaceTest, AnyNumberOfBarriersOrders) {
  ASSERT_EQ(Launch(ManyBarriers, {2, 64}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  // The two blocks write the same.
  EXPECT_THAT(TakeError(), HasSubstr("by another block"));
  ASSERT_EQ(Launch(ManyBarriers, {1, 64}, first_, fresh_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
}

TEST_F(RaceTest, BarrierThatNotAllReach) {
  ASSERT_EQ(Launch(Divergent, {1, 64}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorLaunchFailure);
  EXPECT_THAT(TakeError(), AllOf(HasSubstr("barrier that not all threads reach: 20 of 64 wait"),
                                 HasSubstr("44 have ended")));
}

TEST_F(RaceTest, ThreadsThatMeetAtDifferentBarriers) {
  ASSERT_EQ(Launch(TwoBarriers, {1, 64}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("at different barriers, in lines "));
}

TEST_F(RaceTest, ShuffleWithoutALane) {
  ASSERT_EQ(Launch(MissingLane, {1, 32}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("shuffles from lane 31, which does not take part"));
}

TEST_F(RaceTest, LanesThatDoNotAgreeOnWhoMeets) {
  ASSERT_EQ(Launch(DifferentMasks, {1, 32}, first_, zeros_), cudaSuccess);
  Finish();
  EXPECT_THAT(TakeError(), HasSubstr("meets lanes of its warp that give another mask"));
  Begin(1);
  ASSERT_EQ(Launch(NotInMask, {1, 32}, first_, zeros_), cudaSuccess);
  Finish();
  EXPECT_THAT(TakeError(), HasSubstr("gives a mask without its own lane"));
}

// A softmax of rows, with a barrier left out or not. Checks find what values show by luck.
template <typename Fold>
__device__ float BlockFold(float v, float* scratch, bool with_barrier, const Fold& fold) {
  for (int d = 16; d > 0; d /= 2) v = fold(v, __shfl_xor_sync(~0u, v, d));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  if (with_barrier) __syncthreads();
  float result = scratch[0];
  for (unsigned w = 1; w < blockDim.x / 32; ++w) result = fold(result, scratch[w]);
  __syncthreads();
  return result;
}
__global__ void SoftmaxRows(const float* x, float* y, int width, bool with_barrier) {
  float* const scratch = SharedMemory<float>();
  x += static_cast<size_t>(blockIdx.x) * width;
  y += static_cast<size_t>(blockIdx.x) * width;
  float m = -INFINITY;
  for (int i = threadIdx.x; i < width; i += blockDim.x) m = fmaxf(m, x[i]);
  m = BlockFold(m, scratch, with_barrier, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) sum += expf(x[i] - m);
  sum = BlockFold(sum, scratch, true, [](float a, float b) { return a + b; });
  for (int i = threadIdx.x; i < width; i += blockDim.x) y[i] = expf(x[i] - m) / sum;
}
__global__ void Transpose(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[32][33];
  const int r = blockIdx.y * 32 + threadIdx.y, c = blockIdx.x * 32 + threadIdx.x;
  if (r < rows && c < columns) {
    tile[threadIdx.y][threadIdx.x] = x[static_cast<size_t>(r) * columns + c];
  }
  __syncthreads();
  const int tr = blockIdx.x * 32 + threadIdx.y, tc = blockIdx.y * 32 + threadIdx.x;
  if (tr < columns && tc < rows) {
    y[static_cast<size_t>(tr) * rows + tc] = tile[threadIdx.x][threadIdx.y];
  }
}

// How many of 20 seeds find something; with nothing left out, values are looked at too.
class PlantedFaultTest : public EmulationTest {
 protected:
  static constexpr int kRows = 37, kWidth = 301;

  int SeedsThatFind(bool with_barrier, bool with_event) {
    int found = 0;
    for (int seed = 0; seed < 20; ++seed) {
      Begin(seed);
      float* x = nullptr;
      EXPECT_EQ(cudaMallocHost(&x, 2 * kRows * kWidth * sizeof(float)), cudaSuccess);
      RunOnce(x, with_barrier, with_event);
      if (!TakeErrors().empty()) {
        ++found;
      } else {
        ExpectSoftmax(x, x + kRows * kWidth);
      }
    }
    return found;
  }

 private:
  void RunOnce(float* x, bool with_barrier, bool with_event) {
    constexpr size_t kNumbers = kRows * kWidth;
    for (size_t i = 0; i < kNumbers; ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 100;
    float *const dx = NewFloats(kNumbers), *const ds = NewFloats(kNumbers),
                 *const dt = NewFloats(kNumbers);
    const cudaEvent_t ready = NewEvent(), done = NewEvent();
    cudaMemcpyAsync(dx, x, kNumbers * 4, cudaMemcpyHostToDevice, second_);
    cudaEventRecord(ready, second_);
    if (with_event) cudaStreamWaitEvent(first_, ready, 0);
    EXPECT_EQ(Launch(SoftmaxRows, {kRows, 128, 64}, first_, dx, ds, kWidth, with_barrier),
              cudaSuccess);
    EXPECT_EQ(Launch(Transpose, {dim3((kWidth + 31) / 32, (kRows + 31) / 32), dim3(32, 32)}, first_,
                     ds, dt, kRows, kWidth),
              cudaSuccess);
    cudaEventRecord(done, first_);
    cudaStreamWaitEvent(second_, done, 0);
    cudaMemcpyAsync(x + kNumbers, dt, kNumbers * 4, cudaMemcpyDeviceToHost, second_);
    EXPECT_EQ(cudaStreamSynchronize(second_), cudaSuccess);
  }

  static void ExpectSoftmax(const float* x, const float* transposed) {
    for (int r = 0; r < kRows; ++r) {
      double m = -INFINITY, sum = 0;
      for (int c = 0; c < kWidth; ++c) m = std::fmax(m, x[r * kWidth + c]);
      for (int c = 0; c < kWidth; ++c) sum += std::exp(x[r * kWidth + c] - m);
      for (int c = 0; c < kWidth; ++c) {
        ASSERT_NEAR(transposed[c * kRows + r], std::exp(x[r * kWidth + c] - m) / sum, 1e-6);
      }
    }
  }
};

TEST_F(PlantedFaultTest, NothingIsFoundInWhatIsRight) { EXPECT_EQ(SeedsThatFind(true, true), 0); }

TEST_F(PlantedFaultTest, BarrierLeftOut) { EXPECT_EQ(SeedsThatFind(false, true), 20); }

TEST_F(PlantedFaultTest, EventLeftOut) { EXPECT_EQ(SeedsThatFind(true, false), 20); }

}  // namespace
}  // namespace sluice::cuda_emulation
