// What kernels are written with: indices, shuffles, votes, atomics, vectors, bfloat16.
#include <cuda_bf16.h>
#include <cuda_dynamic_shared.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "framework/testing/cuda_emulation/test_kernels.h"

namespace sluice::cuda_emulation {
namespace {

__global__ void Indices3(uint32_t* p) {
  const uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  p[block * blockDim.x * blockDim.y * blockDim.z + thread] =
      block << 16 | threadIdx.x << 8 | threadIdx.y << 4 | threadIdx.z;
}

__global__ void Shuffles(int* p) {
  const int lane = static_cast<int>(threadIdx.x);
  p[lane] = __shfl_sync(~0u, lane, 5);
  p[32 + lane] = __shfl_xor_sync(~0u, lane, 9);
  p[64 + lane] = __shfl_down_sync(~0u, lane, 3);
  p[96 + lane] = __shfl_up_sync(~0u, lane, 3);
  p[128 + lane] = __shfl_sync(~0u, lane, 5, 8);
  p[160 + lane] = __shfl_xor_sync(~0u, lane, 9, 8);
  p[192 + lane] = __shfl_down_sync(~0u, lane, 3, 16);
  p[224 + lane] = __shfl_up_sync(~0u, lane, 3, 16);
  p[256 + lane] = static_cast<int>(__shfl_xor_sync(~0u, lane * 0x100000001ll, 1) >> 32);
  p[288 + lane] = static_cast<int>(__ballot_sync(~0u, lane % 3 == 0));
}

// Halves of a warp that never meet.
__global__ void HalfWarps(int* p) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < 16) {
    p[lane] = __shfl_xor_sync(0xffffu, lane, 1);
  } else {
    for (int i = 0; i < 3; ++i) p[lane] = __shfl_xor_sync(0xffff0000u, lane, 2);
  }
}

__global__ void Atomics(int* sum, unsigned long long* most, unsigned* first) {
  atomicAdd(sum, 2);
  atomicMax(most, static_cast<unsigned long long>(threadIdx.x) << 32);
  atomicCAS(first, 0u, 7u);
}

__global__ void Vectors(const float* p, float* q) {
  const uint4 v = reinterpret_cast<const uint4*>(p)[threadIdx.x];
  float4 w = make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z),
                         __uint_as_float(v.w));
  w.w = __ldg(p);
  reinterpret_cast<float4*>(q)[threadIdx.x] = w;
}

template <typename T>
__device__ T FirstOfBlock(T value) {
  __shared__ T first;
  if (threadIdx.x == 0) first = value;
  __syncthreads();
  return first;
}
// Shared memory of templates and of kernels, each of its own.
template <typename T>
__global__ void SharedOfTemplates(T* p) {
  __shared__ T own[32];
  own[threadIdx.x] = p[threadIdx.x];
  p[threadIdx.x] = FirstOfBlock(own[threadIdx.x]);
}

struct Table {
  float values[1000];
};
__global__ void ArgumentsByValue(Table table, float* p) {
  for (int i = 0; i < 10; ++i) p[threadIdx.x] = table.values[threadIdx.x * 31 + i];
}

class KernelLanguageTest : public EmulationTest {
 protected:
  template <typename T>
  static T* New(size_t n) {
    T* made = nullptr;
    EXPECT_EQ(cudaMalloc(&made, n * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemset(made, 0, n * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return made;
  }
};

TEST_F(KernelLanguageTest, IndicesOfThreeDimensions) {
  const dim3 blocks(2, 3, 2), threads(4, 2, 3);
  auto* const p = New<uint32_t>(12 * 24);
  ASSERT_EQ(Launch(Indices3, {blocks, threads}, first_, p), cudaSuccess);
  ASSERT_EQ(Finish(), cudaSuccess);
  for (uint32_t block = 0; block < 12; ++block) {
    for (uint32_t t = 0; t < 24; ++t) {
      EXPECT_EQ(p[block * 24 + t], block << 16 | t % 4 << 8 | t / 4 % 2 << 4 | t / 8);
    }
  }
}

TEST_F(KernelLanguageTest, ShufflesAndVotes) {
  int* const p = New<int>(320);
  ASSERT_EQ(Launch(Shuffles, {1, 32}, first_, p), cudaSuccess);
  ASSERT_EQ(Finish(), cudaSuccess);
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(p[lane], 5);
    EXPECT_EQ(p[32 + lane], lane ^ 9);
    EXPECT_EQ(p[64 + lane], lane + 3 < 32 ? lane + 3 : lane);
    EXPECT_EQ(p[96 + lane], lane >= 3 ? lane - 3 : lane);
    EXPECT_EQ(p[128 + lane], lane / 8 * 8 + 5);
    // A lane of a later group is out of reach, one of an earlier group is not.
    EXPECT_EQ(p[160 + lane], (lane ^ 9) / 8 > lane / 8 ? lane : lane ^ 9);
    EXPECT_EQ(p[192 + lane], lane % 16 + 3 < 16 ? lane + 3 : lane);
    EXPECT_EQ(p[224 + lane], lane % 16 >= 3 ? lane - 3 : lane);
    EXPECT_EQ(p[256 + lane], lane ^ 1);
    EXPECT_EQ(static_cast<uint32_t>(p[288 + lane]), 0x49249249u);
  }
}

TEST_F(KernelLanguageTest, PartsOfAWarpMeetApart) {
  int* const p = New<int>(32);
  for (int seed = 0; seed < 10; ++seed) {
    ASSERT_EQ(Launch(HalfWarps, {1, 32}, first_, p), cudaSuccess);
    ASSERT_EQ(Finish(), cudaSuccess);
    for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(p[lane], lane < 16 ? lane ^ 1 : lane ^ 2);
  }
}

TEST_F(KernelLanguageTest, AtomicsOfIntegers) {
  int* const sum = New<int>(1);
  auto* const most = New<unsigned long long>(1);
  auto* const first = New<unsigned>(1);
  ASSERT_EQ(Launch(Atomics, {4, 96}, first_, sum, most, first), cudaSuccess);
  ASSERT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(*sum, 4 * 96 * 2);
  EXPECT_EQ(*most, 95ull << 32);
  EXPECT_EQ(*first, 7u);
}

TEST_F(KernelLanguageTest, VectorsOfAnyType) {
  float* const p = New<float>(64);
  for (int i = 0; i < 64; ++i) p[i] = static_cast<float>(i + 1);
  ASSERT_EQ(Launch(Vectors, {1, 16}, first_, p, zeros_), cudaSuccess);
  ASSERT_EQ(Finish(), cudaSuccess);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(zeros_[i], i % 4 == 3 ? 1 : i + 1);
}

TEST_F(KernelLanguageTest, SharedVariablesOfTemplatesAndInlineFunctions) {
  auto* const floats = New<float>(32);
  auto* const words = New<uint64_t>(32);
  for (int i = 0; i < 32; ++i) {
    floats[i] = static_cast<float>(i + 2);
    words[i] = i + 3;
  }
  ASSERT_EQ(Launch(SharedOfTemplates<float>, {1, 32}, first_, floats), cudaSuccess);
  ASSERT_EQ(Launch(SharedOfTemplates<uint64_t>, {1, 32}, first_, words), cudaSuccess);
  ASSERT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(floats[31], 2);
  EXPECT_EQ(words[31], 3u);
}

TEST_F(KernelLanguageTest, ArgumentsAreCopiedAtTheLaunch) {
  Table table;
  for (int i = 0; i < 1000; ++i) table.values[i] = static_cast<float>(i);
  ASSERT_EQ(Launch(ArgumentsByValue, {1, 32}, first_, table, fresh_), cudaSuccess);
  table.values[9] = -1;
  ASSERT_EQ(Finish(), cudaSuccess);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(fresh_[i], i * 31 + 9);
}

TEST(FastDivisionTest, GivesZeroForADivisorThatIsTooLarge) {
  EXPECT_EQ(__fdividef(1, 3), 1.0f / 3);
  EXPECT_EQ(__fdividef(1, 0x1p126f), 0x1p-126f);
  EXPECT_EQ(__fdividef(1, 0x1.8p126f), 0);
  EXPECT_TRUE(std::isnan(__fdividef(1, std::nanf(""))));
}

TEST(Bfloat16Test, RoundsToNearestEven) {
  const auto rounded = [](uint32_t bits) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(__uint_as_float(bits)));
  };
  EXPECT_EQ(rounded(0x3f800000), 0x3f80);
  EXPECT_EQ(rounded(0x3f808000), 0x3f80);
  EXPECT_EQ(rounded(0x3f808001), 0x3f81);
  EXPECT_EQ(rounded(0x3f818000), 0x3f82);
  EXPECT_EQ(rounded(0x7f7fffff), 0x7f80);  // rounds to infinity
  EXPECT_EQ(rounded(0xff800000), 0xff80);
  EXPECT_EQ(rounded(0x80000001), 0x8000);
  // One NaN, whatever came.
  EXPECT_EQ(rounded(0x7f800001), 0x7fff);
  EXPECT_EQ(rounded(0xffc12345), 0x7fff);
  EXPECT_EQ(__bfloat162float(__ushort_as_bfloat16(0xc049)), -3.140625f);
  static_assert(sizeof(__nv_bfloat16) == 2);
}

}  // namespace
}  // namespace sluice::cuda_emulation
