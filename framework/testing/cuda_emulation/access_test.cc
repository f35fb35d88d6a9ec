// What kernels must not touch: compute-sanitizer's memcheck and initcheck, and operands.
#include <cuda_dynamic_shared.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "framework/device/cuda_operand_watch.h"
#include "framework/testing/cuda_emulation/test_kernels.h"

namespace sluice::cuda_emulation {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

__global__ void Set(float* p) { p[threadIdx.x] = 1; }
__global__ void Copy(const float* p, float* q) { q[threadIdx.x] = p[threadIdx.x]; }
__global__ void SetBehind(float* p, int n) { p[threadIdx.x + n - 16] = 1; }
__global__ void Misaligned(float* p) {
  reinterpret_cast<float4*>(p + 1)[0] = make_float4(0, 0, 0, 0);
}
__global__ void MisalignedWord(unsigned char* p) { *reinterpret_cast<volatile int*>(p + 1) = 1; }
__global__ void MisalignedAtomic(unsigned char* p) {
  // Not by a cast that -fsanitize=alignment would see.
  int* counter;
  p += 2;
  memcpy(&counter, &p, sizeof(counter));
  atomicAdd(counter, 1);
}
__global__ void Overflow(float* p, int rows, int width) { p[rows * width * 4 + threadIdx.x] = 1; }
__global__ void WrongIndex(float* p, int k) {
  __shared__ float tile[4][32];
  tile[0][threadIdx.x + k] = 1;
  __syncthreads();
  p[threadIdx.x] = tile[0][threadIdx.x];
}
__global__ void UnwrittenShared(float* p) {
  __shared__ float tile[64];
  if (threadIdx.x < 60) tile[threadIdx.x] = 1;
  __syncthreads();
  p[threadIdx.x] = tile[threadIdx.x];
}
__global__ void DynamicShared(float* p) {
  float* const shared = SharedMemory<float>();
  shared[threadIdx.x] = 1;
  p[threadIdx.x] = shared[threadIdx.x];
}
__global__ void SharedOfLastBlock(float* p) {
  __shared__ float tile[32];
  if (blockIdx.x == 0) tile[threadIdx.x] = 1;
  p[blockIdx.x * 32 + threadIdx.x] = tile[threadIdx.x];
}
struct Triple {
  float a, b, c, d, e, f;
};
__global__ void CopyStruct(const Triple* from, Triple* to) { *to = *from; }

__global__ void AddFirst(const float* p, float* q) { q[threadIdx.x] = p[0] + p[threadIdx.x]; }
__global__ void AddTo(float* p) { atomicAdd(reinterpret_cast<int*>(p), 1); }

class AccessTest : public EmulationTest {};

TEST_F(AccessTest, WhatIsRightIsNoError) {
  EXPECT_EQ(Launch(Set, {1, 32}, first_, fresh_), cudaSuccess);
  EXPECT_EQ(Launch(Copy, {1, 32}, first_, fresh_, zeros_), cudaSuccess);
  EXPECT_EQ(Launch(DynamicShared, {1, 32, 128}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
}

TEST_F(AccessTest, OutsideOfAnAllocation) {
  ASSERT_EQ(Launch(SetBehind, {1, 32}, first_, zeros_, 64), cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeError(), AllOf(HasSubstr("kernel SetBehind (block 0, thread "),
                                 HasSubstr("writes outside of an allocation")));
}

TEST_F(AccessTest, AnErrorOfAddressEndsAllUntilTheReset) {
  ASSERT_EQ(Launch(SetBehind, {1, 32}, first_, zeros_, 64), cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorIllegalAddress);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorIllegalAddress);
  EXPECT_EQ(Launch(Set, {1, 32}, second_, zeros_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamQuery(second_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorIllegalAddress);
  TakeErrors();
  Begin(1);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(Launch(Set, {1, 32}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
}

TEST_F(AccessTest, UseAfterFree) {
  float* const freed = NewFloats();
  EXPECT_EQ(cudaFree(freed), cudaSuccess);
  ASSERT_EQ(Launch(Set, {1, 32}, first_, freed), cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeError(), HasSubstr("writes outside of an allocation"));
}

TEST_F(AccessTest, HostMemory) {
  std::vector<float> host(64);
  ASSERT_EQ(Launch(Set, {1, 32}, first_, host.data()), cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeError(), HasSubstr("touches host memory"));
}

TEST_F(AccessTest, PinnedMemoryIsForKernelsIfItIsMapped) {
  float* mapped = nullptr;
  ASSERT_EQ(cudaHostAlloc(&mapped, kBytes, cudaHostAllocMapped), cudaSuccess);
  mapped[5] = 5;
  ASSERT_EQ(Launch(Copy, {1, 32}, first_, mapped, zeros_), cudaSuccess);
  ASSERT_EQ(Launch(Set, {1, 32}, first_, mapped), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(mapped[31], 1);
  EXPECT_EQ(zeros_[5], 5);  // readable here, for it is all host memory
  ASSERT_EQ(Launch(Set, {1, 32}, first_, pinned_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeError(), HasSubstr("touches host memory that is not mapped"));
}

TEST_F(AccessTest, MemoryOfAnotherDevice) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  float* const others = NewFloats();
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(Launch(Set, {1, 32}, first_, others), cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeError(), HasSubstr("touches memory of another device"));
}

TEST_F(AccessTest, MisalignedVector) {
  ASSERT_EQ(Launch(Misaligned, {1, 1}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorMisalignedAddress);
  EXPECT_THAT(TakeError(), HasSubstr("touches a misaligned address"));
}

TEST_F(AccessTest, MisalignedWord) {
  ASSERT_EQ(Launch(MisalignedWord, {1, 1}, first_, reinterpret_cast<unsigned char*>(zeros_)),
            cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorMisalignedAddress);
  EXPECT_THAT(TakeError(), HasSubstr("touches a misaligned address"));
}

TEST_F(AccessTest, MisalignedAtomic) {
  ASSERT_EQ(Launch(MisalignedAtomic, {1, 1}, first_, reinterpret_cast<unsigned char*>(zeros_)),
            cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorMisalignedAddress);
  EXPECT_THAT(TakeError(), HasSubstr("touches a misaligned address"));
}

TEST_F(AccessTest, IndexThatOverflows) {
  ASSERT_EQ(Launch(Overflow, {1, 32}, first_, zeros_, 50000, 50000), cudaSuccess);
  Finish();
  EXPECT_THAT(TakeError(), AllOf(HasSubstr("integer overflow in "), HasSubstr("access_test.cc:")));
}

TEST_F(AccessTest, IndexOutsideOfASharedArray) {
  ASSERT_EQ(Launch(WrongIndex, {1, 32}, first_, zeros_, 8), cudaSuccess);
  Finish();
  EXPECT_THAT(TakeError(), HasSubstr("indexes outside of an array in "));
}

TEST_F(AccessTest, DynamicSharedMemoryThatWasNotAskedFor) {
  ASSERT_EQ(Launch(DynamicShared, {1, 64, 128}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeError(), HasSubstr("outside of dynamic shared memory"));
}

TEST_F(AccessTest, UninitializedDeviceMemory) {
  ASSERT_EQ(Launch(Copy, {1, 32}, first_, fresh_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(),
              AllOf(HasSubstr("kernel Copy"), HasSubstr("reads uninitialized device memory")));
}

TEST_F(AccessTest, UninitializedMemoryThatIsCopied) {
  ASSERT_EQ(cudaMemcpyAsync(pinned_, fresh_, kBytes, cudaMemcpyDeviceToHost, first_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(),
              AllOf(HasSubstr("copy"), HasSubstr("reads uninitialized device memory")));
}

TEST_F(AccessTest, UninitializedSharedMemory) {
  ASSERT_EQ(Launch(UnwrittenShared, {1, 64}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("reads uninitialized shared memory"));
}

TEST_F(AccessTest, SharedMemoryOfAnotherBlockIsUninitialized) {
  ASSERT_EQ(Launch(SharedOfLastBlock, {2, 32}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("reads uninitialized shared memory"));
}

TEST_F(AccessTest, StructsAreLookedAtWhole) {
  auto* const triples = reinterpret_cast<Triple*>(zeros_);
  ASSERT_EQ(Launch(CopyStruct, {1, 1}, first_, triples, triples + 1), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  // The last lies across the end.
  ASSERT_EQ(Launch(CopyStruct, {1, 1}, first_, triples, triples + kBytes / sizeof(Triple)),
            cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeError(), HasSubstr("writes outside of an allocation"));
}

TEST_F(AccessTest, CopiesAndFillsStayInsideAsWell) {
  EXPECT_EQ(cudaMemcpyAsync(zeros_ + 1, pinned_, kBytes, cudaMemcpyHostToDevice, first_),
            cudaErrorInvalidValue);
  EXPECT_THAT(TakeError(), HasSubstr("copy writes outside of an allocation"));
  EXPECT_EQ(cudaMemcpyAsync(pinned_, zeros_ + 1, kBytes, cudaMemcpyDeviceToHost, first_),
            cudaErrorInvalidValue);
  EXPECT_THAT(TakeError(), HasSubstr("copy reads outside of an allocation"));
  EXPECT_EQ(cudaMemsetAsync(zeros_ + 1, 0, kBytes, first_), cudaErrorInvalidValue);
  EXPECT_THAT(TakeError(), HasSubstr("fill writes outside of an allocation"));
}

TEST_F(AccessTest, AnInstructionKeepsToItsOperands) {
  float* const arena = NewFloats(256);
  EXPECT_EQ(cudaMemsetAsync(arena, 0, 256 * sizeof(float), first_), cudaSuccess);
  const auto watch = [&](bool written) {
    const CudaOperand operands[] = {{arena, 32 * 4, false}, {arena + 64, 32 * 4, written}};
    WatchCudaOperands(first_, operands);
  };
  watch(true);
  EXPECT_EQ(Launch(Copy, {1, 32}, first_, arena, arena + 64), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeErrors(), IsEmpty());
  EXPECT_EQ(Launch(Copy, {1, 32}, first_, arena, arena + 65), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), AllOf(HasSubstr("kernel Copy"),
                                 HasSubstr("writes outside of its instruction's operands")));
  EXPECT_EQ(Launch(Copy, {1, 32}, first_, arena + 4, arena + 64), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("reads outside of its instruction's operands"));
  watch(false);
  EXPECT_EQ(Launch(Copy, {1, 32}, first_, arena, arena + 64), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(arena, 0, 4, first_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("writes outside of its instruction's operands"));
  WatchCudaOperands(first_, {});
  EXPECT_EQ(Launch(Copy, {1, 32}, first_, arena, arena + 65), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
}

TEST_F(AccessTest, TrafficIsEachByteOnceALaunchAndWay) {
  CountTraffic(true);
  EXPECT_EQ(Launch(AddFirst, {1, 32}, first_, zeros_, fresh_), cudaSuccess);
  EXPECT_EQ(Launch(AddFirst, {1, 8}, first_, zeros_, fresh_), cudaSuccess);
  EXPECT_EQ(Launch(AddTo, {2, 32}, first_, zeros_), cudaSuccess);
  // Neither copies nor shared memory.
  EXPECT_EQ(Launch(SharedOfLastBlock, {1, 32}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(pinned_, zeros_, kBytes, cudaMemcpyDeviceToHost, first_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  CountTraffic(false);
  EXPECT_EQ(Launch(AddFirst, {1, 32}, first_, zeros_, fresh_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  std::vector<std::string> counted;
  for (const KernelTraffic& each : TakeTraffic()) {
    counted.push_back(each.kernel + " " + std::to_string(each.launches) + ": " +
                      std::to_string(each.loaded) + " + " + std::to_string(each.stored));
  }
  EXPECT_THAT(counted, testing::ElementsAre("AddFirst 2: 160 + 160", "AddTo 1: 4 + 4",
                                            "SharedOfLastBlock 1: 0 + 128"));
  EXPECT_THAT(TakeTraffic(), IsEmpty());
}

TEST_F(AccessTest, WithoutChecksNothingIsSeenAndLaterAllIsTrusted) {
  SetChecks(false);
  EXPECT_EQ(Launch(Copy, {1, 32}, first_, fresh_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  SetChecks(true);
  EXPECT_EQ(Launch(Copy, {1, 32}, first_, fresh_, zeros_), cudaSuccess);
  EXPECT_EQ(Launch(Copy, {1, 32}, second_, zeros_ + 32, fresh_ + 32), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeErrors(), IsEmpty());
  EXPECT_EQ(Launch(Copy, {1, 32}, first_, NewFloats(), zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("reads uninitialized device memory"));
}

}  // namespace
}  // namespace sluice::cuda_emulation
