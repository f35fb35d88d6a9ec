// What calls of the runtime return: devices, memory, launches, errors, host functions, libraries.
#include <cuda_dynamic_shared.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "framework/testing/cuda_emulation/test_kernels.h"

namespace sluice::cuda_emulation {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

__global__ void Set(float* p) { p[threadIdx.x] = 1; }
__global__ void Never(float* p) { p[0] = SharedMemory<float>()[0]; }

class RuntimeCallsTest : public EmulationTest {};

TEST_F(RuntimeCallsTest, Devices) {
  int count = 0, device = -1, value = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 8);
  EXPECT_EQ(cudaSetDevice(8), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(7), cudaSuccess);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 7);
  std::thread([] {
    int others = -1;
    EXPECT_EQ(cudaGetDevice(&others), cudaSuccess);
    EXPECT_EQ(others, 0);
  }).join();
  cudaDeviceProp properties;
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 7), cudaSuccess);
  EXPECT_STREQ(properties.name, "Emulated CUDA device");
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.sharedMemPerBlockOptin, size_t{227} << 10);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 7),
            cudaSuccess);
  EXPECT_EQ(value, 227 << 10);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMinor, 8),
            cudaErrorInvalidDevice);
  EXPECT_EQ(cudaRuntimeGetVersion(&value), cudaSuccess);
  EXPECT_EQ(value, 13000);
}

TEST_F(RuntimeCallsTest, OptionsOfTheReset) {
  Options options;
  options.devices = 2;
  options.bytes_per_device = 1 << 20;
  options.major = 8;
  Reset(options);
  int count = 0;
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  float* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1000), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total, size_t{1} << 20);
  EXPECT_EQ(free, total - 1000);
  float* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 1 << 20), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&more, 1 << 20), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, total);
}

TEST_F(RuntimeCallsTest, Memory) {
  float* const memory = NewFloats(3);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaFree(memory + 1), cudaErrorInvalidValue);
  float* host = nullptr;
  EXPECT_EQ(cudaHostAlloc(&host, 64, 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(zeros_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned_), cudaErrorInvalidValue);
  std::vector<char> pageable(100);
  EXPECT_EQ(cudaHostRegister(pageable.data(), 100, 0), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(pageable.data() + 50, 100, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(pageable.data() + 50), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaHostUnregister(pageable.data()), cudaSuccess);
  float* mapped = nullptr;
  void* on_device = nullptr;
  EXPECT_EQ(cudaHostAlloc(&mapped, 64, cudaHostAllocMapped), cudaSuccess);
  EXPECT_EQ(cudaHostGetDevicePointer(&on_device, mapped, 0), cudaSuccess);
  EXPECT_EQ(on_device, mapped);
}

TEST_F(RuntimeCallsTest, Copies) {
  for (size_t i = 0; i < kFloats; ++i) pinned_[i] = static_cast<float>(i);
  ASSERT_EQ(cudaMemcpy(zeros_, pinned_, kBytes, cudaMemcpyHostToDevice), cudaSuccess);
  // Columns 2 and 3 of rows of 8 floats, into rows of 2.
  ASSERT_EQ(cudaMemcpy2DAsync(fresh_, 8, zeros_ + 2, 32, 8, 8, cudaMemcpyDeviceToDevice, first_),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  std::vector<float> result(16);
  ASSERT_EQ(cudaMemcpy(result.data(), fresh_, 64, cudaMemcpyDefault), cudaSuccess);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(result[i], i / 2 * 8 + i % 2 + 2);
  EXPECT_EQ(cudaMemcpy2DAsync(fresh_, 4, zeros_, 32, 8, 8, cudaMemcpyDefault, first_),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemcpyAsync(fresh_, zeros_, 4, cudaMemcpyHostToDevice, first_),
            cudaErrorInvalidValue);
  EXPECT_THAT(TakeError(), HasSubstr("does not go the way that its kind says"));
  EXPECT_EQ(cudaMemcpyAsync(nullptr, nullptr, 0, cudaMemcpyDefault, first_), cudaSuccess);
  EXPECT_EQ(GetStatistics().copies, 3);
  EXPECT_EQ(GetStatistics().copied_bytes, 256 + 64 + 64);
}

// Cards without a switch between them have eight peers each.
TEST(PeersTest, AreEightADevice) {
  Options options;
  options.devices = 10;
  Reset(options);
  ASSERT_EQ(cudaSetDevice(9), cudaSuccess);
  for (int peer = 0; peer < 8; ++peer) EXPECT_EQ(cudaDeviceEnablePeerAccess(peer, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(7, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(8, 0), cudaErrorTooManyPeers);
  EXPECT_EQ(cudaGetLastError(), cudaErrorTooManyPeers);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(9, 0), cudaSuccess) << "others have theirs";
}

TEST_F(RuntimeCallsTest, SeveralDevices) {
  ASSERT_EQ(cudaSetDevice(3), cudaSuccess);
  float* const theirs = NewFloats();
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  EXPECT_EQ(Launch(Set, {1, kFloats}, stream, theirs), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, first_), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(first_, event), cudaSuccess);
  EXPECT_EQ(cudaMemcpyPeerAsync(zeros_, 1, theirs, 3, kBytes, first_), cudaErrorInvalidValue);
  EXPECT_THAT(TakeError(), HasSubstr("of memory that is not theirs"));
  EXPECT_EQ(cudaMemcpyPeerAsync(zeros_, 0, theirs, 3, kBytes, first_), cudaSuccess);
  // A kernel's device is the current one.
  EXPECT_EQ(Launch(Set, {1, kFloats}, first_, zeros_), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(zeros_[kFloats - 1], 1);
  EXPECT_EQ(GetStatistics().staged_copies, 1);
  int can = 0, device = 0;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 3), cudaSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(3, 0), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaMemcpyPeerAsync(zeros_, 0, theirs, 3, kBytes, first_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(GetStatistics().staged_copies, 1);
  EXPECT_EQ(cudaStreamGetDevice(stream, &device), cudaSuccess);
  EXPECT_EQ(device, 3);
}

TEST_F(RuntimeCallsTest, LimitsOfLaunches) {
  const auto launch = [this](const dim3& blocks, const dim3& threads, size_t shared = 0) {
    return Launch(Never, {blocks, threads, shared}, first_, zeros_);
  };
  EXPECT_EQ(launch(1, 1025), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, dim3(32, 33)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, dim3(1, 1, 65)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(0, 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 65536), 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 32, (48 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(Never, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(Never, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10),
            cudaSuccess);
  EXPECT_EQ(launch(1, 32, (100 << 10) + 1), cudaErrorInvalidValue);
  cudaFuncAttributes attributes;
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, Never), cudaSuccess);
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 100 << 10);
  int blocks = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Never, 256, 0), cudaSuccess);
  EXPECT_EQ(blocks, 8);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Never, 256, 100 << 10),
            cudaSuccess);
  EXPECT_EQ(blocks, 2);
  EXPECT_EQ(GetStatistics().kernels, 0);
}

TEST_F(RuntimeCallsTest, StreamsThatWaitForTheDefaultStreamAreRefused) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, 0), cudaErrorInvalidValue);
  EXPECT_THAT(TakeError(), HasSubstr("waits for the default stream"));
  EXPECT_EQ(Launch(Set, {1, 32}, nullptr, zeros_), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(TakeError(), HasSubstr("the default stream is used"));
}

TEST_F(RuntimeCallsTest, NotReadyIsRememberedAsAnError) {
  const cudaEvent_t event = NewEvent();
  EXPECT_EQ(Launch(Set, {1, 32}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, first_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorNotReady);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady");
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
}

TEST_F(RuntimeCallsTest, TimeBetweenEvents) {
  cudaEvent_t start = nullptr, end = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&start, cudaEventDefault), cudaSuccess);
  EXPECT_EQ(cudaEventCreateWithFlags(&end, cudaEventDefault), cudaSuccess);
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(start, first_), cudaSuccess);
  EXPECT_EQ(Launch(Set, {1, 32}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(end, first_), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaSuccess);
  EXPECT_GE(ms, 0);
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, NewEvent()), cudaErrorInvalidResourceHandle);
}

TEST_F(RuntimeCallsTest, HostFunctionsRunInOrder) {
  EXPECT_EQ(Launch(Set, {1, 32}, first_, zeros_), cudaSuccess);
  struct Seen {
    float* p;
    float value;
  } seen = {zeros_, 0};
  EXPECT_EQ(cudaLaunchHostFunc(
                first_,
                [](void* data) {
                  auto& its = *static_cast<Seen*>(data);
                  its.value = its.p[0];
                },
                &seen),
            cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(seen.value, 1);
}

TEST_F(RuntimeCallsTest, HostFunctionsMayNotCallTheRuntime) {
  cudaError_t error = cudaSuccess;
  EXPECT_EQ(
      cudaLaunchHostFunc(
          first_, [](void* data) { *static_cast<cudaError_t*>(data) = cudaDeviceSynchronize(); },
          &error),
      cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(error, cudaErrorNotPermitted);
  EXPECT_THAT(TakeError(), HasSubstr("a host function calls the runtime"));
}

TEST_F(RuntimeCallsTest, HostFunctionsAreNotCalledAfterAnError) {
  int calls = 0;
  EXPECT_EQ(Launch(Set, {1, 1024}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(cudaLaunchHostFunc(
                first_, [](void* data) { ++*static_cast<int*>(data); }, &calls),
            cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeError(), StartsWith("kernel Set "));
  EXPECT_EQ(calls, 0);
}

// Its stream waits meanwhile, whoever serves.
TEST_F(RuntimeCallsTest, AHostFunctionMayWaitForAnotherThreadThatCallsTheRuntime) {
  struct Shared {
    std::atomic<bool> launched{false};
    const float* p = nullptr;
    float value = -1;
  } shared;
  shared.p = zeros_;
  EXPECT_EQ(cudaLaunchHostFunc(
                first_,
                [](void* data) {
                  auto& its = *static_cast<Shared*>(data);
                  while (!its.launched.load()) std::this_thread::yield();
                  its.value = its.p[0];
                },
                &shared),
            cudaSuccess);
  EXPECT_EQ(Launch(Set, {1, 32}, first_, zeros_), cudaSuccess);
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(Launch(Set, {1, 32}, second_, fresh_), cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(second_), cudaSuccess);
    }
    shared.launched = true;
  });
  EXPECT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  other.join();
  EXPECT_EQ(shared.value, 0);
  EXPECT_EQ(zeros_[0], 1);
}

TEST_F(RuntimeCallsTest, ThreadsMayCallAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      const cudaStream_t stream = NewStream();
      float* const memory = NewFloats();
      const cudaEvent_t event = NewEvent();
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(Launch(Set, {1, kFloats}, stream, memory), cudaSuccess);
        EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
        while (cudaEventQuery(event) == cudaErrorNotReady) {
        }
        EXPECT_EQ(memory[0], 1);
      }
      EXPECT_EQ(cudaFree(memory), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(GetStatistics().kernels, 200);
}

TEST_F(RuntimeCallsTest, CallsOfLibrariesAreCheckedAsKernelsAre) {
  LibraryCall add;
  add.name = "Add";
  // Every other row of four floats.
  add.accesses = {{zeros_, 16, false, 4, 32}, {fresh_, 16, true, 4, 32}};
  add.compute = [this] {
    for (int i = 0; i < 16; ++i) fresh_[i / 4 * 8 + i % 4] = zeros_[i / 4 * 8 + i % 4] + 1;
  };
  EXPECT_EQ(EnqueueLibraryCall(first_, add), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(fresh_[24 + 3], 1);
  EXPECT_THAT(TakeErrors(), IsEmpty());
  EXPECT_EQ(GetStatistics().library_calls, 1);
  // What lies between the rows was not written.
  add.accesses[0] = {fresh_, 20, false, 4, 32};
  EXPECT_EQ(EnqueueLibraryCall(first_, add), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), StartsWith("call of Add (stream"));
  EXPECT_EQ(EnqueueLibraryCall(second_, add), cudaSuccess);
  EXPECT_EQ(Launch(Set, {1, 32}, first_, fresh_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("without order after"));
  add.accesses[0] = {zeros_ + kFloats, 4, false, 1, 0};
  EXPECT_EQ(EnqueueLibraryCall(first_, add), cudaSuccess);
  EXPECT_EQ(Finish(), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeError(), HasSubstr("reads outside of an allocation"));
}

// As collectives are: each stream waits until all have come, which other threads may have to bring.
TEST_F(RuntimeCallsTest, CallsOfLibrariesMayWaitForEachOther) {
  int come = 0;
  std::vector<int> order;
  const auto call = [&](int rank) {
    LibraryCall result;
    result.name = "Meet";
    result.ready = [&come, rank] { return (come |= 1 << rank) == 3; };
    result.compute = [&order, rank] { order.push_back(rank); };
    return result;
  };
  EXPECT_EQ(EnqueueLibraryCall(first_, call(0)), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(first_), cudaErrorNotReady);
  std::thread other([&] {
    EXPECT_EQ(EnqueueLibraryCall(second_, call(1)), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(second_), cudaSuccess);
  });
  EXPECT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  other.join();
  EXPECT_EQ(order.size(), 2u);
}

TEST(EmulationDeathTest, ErrorsThatNobodyTakesFailTheProcess) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        Reset(1);
        ReportError("left");
        std::exit(0);
      },
      testing::ExitedWithCode(66), "errors that nobody took:\n  left");
}

}  // namespace
}  // namespace sluice::cuda_emulation
