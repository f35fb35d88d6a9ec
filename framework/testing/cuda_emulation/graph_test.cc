// Captures, what they may not hold (errors 900 to 908), and graphs that are launched again.
#include <cuda_runtime.h>

#include <functional>
#include <thread>
#include <vector>

#include "framework/device/cuda_operand_watch.h"
#include "framework/testing/cuda_emulation/test_kernels.h"

namespace sluice::cuda_emulation {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

__global__ void Set(float* p, float value) { p[threadIdx.x] = value; }
__global__ void Add(const float* p, float* q) { q[threadIdx.x] += p[threadIdx.x]; }
__global__ void NeverBefore(float* p) { p[threadIdx.x] = 1; }

class GraphTest : public EmulationTest {
 protected:
  void SetUp() override {
    EmulationTest::SetUp();
    // Kernels are loaded before any capture.
    cudaFuncAttributes attributes;
    EXPECT_EQ(cudaFuncGetAttributes(&attributes, Set), cudaSuccess);
    EXPECT_EQ(cudaFuncGetAttributes(&attributes, Add), cudaSuccess);
  }
  void SetFloats(float* p, float value, cudaStream_t stream) {
    EXPECT_EQ(Launch(Set, {1, kFloats}, stream, p, value), cudaSuccess);
  }
  void AddFloats(const float* p, float* q, cudaStream_t stream) {
    EXPECT_EQ(Launch(Add, {1, kFloats}, stream, p, q), cudaSuccess);
  }
  void BeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
  }
  cudaError_t EndCapture(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    EXPECT_EQ(error != cudaSuccess, graph == nullptr);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return error;
  }
  cudaGraphExec_t Instantiate(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(cudaGraphUpload(exec, stream), cudaSuccess);
    return exec;
  }
  // Captures `p += 1` by way of a fork, and the join unless it is to be left out.
  cudaGraphExec_t CaptureFork(bool with_join_wait = true) {
    const cudaEvent_t fork = NewEvent(), join = NewEvent();
    BeginCapture(first_);
    SetFloats(fresh_, 1, first_);
    EXPECT_EQ(cudaEventRecord(fork, first_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(second_, fork), cudaSuccess);
    if (!with_join_wait) AddFloats(fresh_, zeros_, first_);
    AddFloats(fresh_, zeros_, second_);
    EXPECT_EQ(cudaEventRecord(join, second_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(first_, join), cudaSuccess);
    return Instantiate(first_);
  }
};

TEST_F(GraphTest, ACaptureRunsNothingAndALaunchAll) {
  const cudaGraphExec_t exec = CaptureFork();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(GetStatistics().kernels, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(exec, first_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  EXPECT_EQ(zeros_[0], 3);
  EXPECT_EQ(GetStatistics().kernels, 6);
  EXPECT_EQ(GetStatistics().launches, 2);
  EXPECT_EQ(GetStatistics().graph_launches, 3);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

// Also when streams that nothing orders launch it, but for what they share with others.
TEST_F(GraphTest, ALaunchBeginsWhenTheOneBeforeHasEnded) {
  const cudaGraphExec_t exec = CaptureFork();
  EXPECT_EQ(cudaGraphLaunch(exec, first_), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, second_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(zeros_[0], 2);
  EXPECT_THAT(TakeErrors(), IsEmpty());
  AddFloats(zeros_, fresh_, first_);
  EXPECT_EQ(cudaGraphLaunch(exec, second_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("without order after"));
}

TEST_F(GraphTest, BranchesOfAGraphAreChecked) {
  const cudaGraphExec_t exec = CaptureFork(false);
  EXPECT_EQ(cudaGraphLaunch(exec, first_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("without order after"));
}

TEST_F(GraphTest, ArgumentsAndAddressesAreBakedIn) {
  float* buffer = NewFloats();
  float value = 4;
  BeginCapture(first_);
  SetFloats(buffer, value, first_);
  EXPECT_EQ(cudaMemcpyAsync(pinned_, buffer, kBytes, cudaMemcpyDeviceToHost, first_), cudaSuccess);
  const cudaGraphExec_t exec = Instantiate(first_);
  value = 5;
  EXPECT_EQ(cudaGraphLaunch(exec, first_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(pinned_[0], 4);
  // Pinned memory is looked at from the launch on, not from the capture.
  pinned_[0] = 1;
  EXPECT_EQ(cudaGraphLaunch(exec, first_), cudaSuccess);
  pinned_[0] = 1;
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("the host changed host memory"));
  EXPECT_EQ(cudaFree(buffer), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, first_), cudaErrorInvalidValue);
  EXPECT_THAT(TakeError(), HasSubstr("copy reads outside of an allocation"));
  EXPECT_EQ(Finish(), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeError(), HasSubstr("writes outside of an allocation"));
}

TEST_F(GraphTest, OperandsBelongToWhatWasCaptured) {
  const CudaOperand operand = {zeros_, 32, true};
  WatchCudaOperands(first_, {&operand, 1});
  BeginCapture(first_);
  SetFloats(zeros_, 1, first_);
  const cudaGraphExec_t exec = Instantiate(first_);
  WatchCudaOperands(first_, {});
  SetFloats(zeros_, 1, first_);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeErrors(), IsEmpty());
  EXPECT_EQ(cudaGraphLaunch(exec, first_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("outside of its instruction's operands"));
}

TEST_F(GraphTest, ExternalEventsAreOfEachLaunch) {
  const cudaEvent_t ready = NewEvent(), done = NewEvent();
  BeginCapture(first_);
  EXPECT_EQ(cudaStreamWaitEvent(first_, ready, cudaEventWaitExternal), cudaSuccess);
  AddFloats(fresh_, zeros_, first_);
  EXPECT_EQ(cudaEventRecordWithFlags(done, first_, cudaEventRecordExternal), cudaSuccess);
  const cudaGraphExec_t exec = Instantiate(first_);
  for (int i = 1; i <= 3; ++i) {
    SetFloats(fresh_, static_cast<float>(i), second_);
    EXPECT_EQ(cudaEventRecord(ready, second_), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(exec, first_), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(done), cudaSuccess);
    EXPECT_EQ(zeros_[0], i * (i + 1) / 2);
  }
}

TEST_F(GraphTest, StatusOfACapture) {
  cudaStreamCaptureStatus status;
  EXPECT_EQ(cudaStreamIsCapturing(first_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  BeginCapture(first_);
  EXPECT_EQ(cudaStreamIsCapturing(first_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(cudaStreamBeginCapture(first_, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamSynchronize(first_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamIsCapturing(first_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
  EXPECT_EQ(EndCapture(first_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(EndCapture(first_), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
}

// 900, and 901 from then on.
TEST_F(GraphTest, WhatACaptureCannotHold) {
  const std::vector<std::function<cudaError_t()>> forbidden = {
      [] {
        float* memory = nullptr;
        return cudaMalloc(&memory, 16);
      },
      [this] { return cudaFree(fresh_); },
      [this] { return cudaFreeHost(pinned_); },
      [this] { return cudaMemcpy(zeros_, pinned_, 4, cudaMemcpyHostToDevice); },
      [this] { return cudaMemset(zeros_, 0, 4); },
      [this] { return cudaStreamQuery(first_); },
      [] { return cudaDeviceSynchronize(); },
      [this] { return cudaStreamDestroy(first_); },
  };
  for (const auto& call : forbidden) {
    BeginCapture(first_);
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(Launch(Set, {1, 32}, first_, zeros_, 1), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(EndCapture(first_), cudaErrorStreamCaptureInvalidated);
  }
}

TEST_F(GraphTest, WhomTheModesForbid) {
  const auto malloc_of = [](bool other_thread, cudaStreamCaptureMode mode_of_thread) {
    cudaError_t error = cudaSuccess;
    const auto call = [&] {
      EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode_of_thread), cudaSuccess);
      float* memory = nullptr;
      error = cudaMalloc(&memory, 16);
      EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode_of_thread), cudaSuccess);
    };
    if (other_thread) {
      std::thread(call).join();
    } else {
      call();
    }
    return error == cudaSuccess;
  };
  constexpr auto kGlobal = cudaStreamCaptureModeGlobal, kLocal = cudaStreamCaptureModeThreadLocal,
                 kRelaxed = cudaStreamCaptureModeRelaxed;
  const struct {
    cudaStreamCaptureMode capture, thread;
    bool own_may, other_may;
  } cases[] = {
      {kGlobal, kGlobal, false, false}, {kGlobal, kLocal, false, true},
      {kGlobal, kRelaxed, true, true},  {kLocal, kGlobal, false, true},
      {kLocal, kLocal, false, true},    {kRelaxed, kGlobal, true, true},
  };
  for (const auto& each : cases) {
    for (const bool other : {false, true}) {
      const bool may = other ? each.other_may : each.own_may;
      BeginCapture(first_, each.capture);
      EXPECT_EQ(malloc_of(other, each.thread), may) << each.capture << each.thread << other;
      EXPECT_EQ(EndCapture(first_), may ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
    }
  }
}

// 902
TEST_F(GraphTest, TwoCapturesDoNotMeet) {
  const cudaEvent_t event = NewEvent();
  BeginCapture(first_);
  BeginCapture(second_);
  EXPECT_EQ(cudaEventRecord(event, first_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second_, event), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(EndCapture(first_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(EndCapture(second_), cudaErrorStreamCaptureInvalidated);
}

// 903, 904
TEST_F(GraphTest, ACaptureEndsWhereItBeganWithAllJoined) {
  for (const bool at_fork : {true, false}) {
    const cudaEvent_t fork = NewEvent();
    BeginCapture(first_);
    EXPECT_EQ(cudaEventRecord(fork, first_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(second_, fork), cudaSuccess);
    SetFloats(zeros_, 1, second_);
    if (at_fork) {
      EXPECT_EQ(EndCapture(second_), cudaErrorStreamCaptureUnmatched);
      EXPECT_EQ(EndCapture(first_), cudaErrorStreamCaptureInvalidated);
    } else {
      EXPECT_EQ(EndCapture(first_), cudaErrorStreamCaptureUnjoined);
    }
    SetFloats(zeros_, 1, second_);
    EXPECT_EQ(Finish(), cudaSuccess);
  }
}

// A join through a third stream is one.
TEST_F(GraphTest, JoinsMayBeIndirect) {
  const cudaStream_t third = NewStream();
  const cudaEvent_t fork = NewEvent(), to_third = NewEvent(), join = NewEvent();
  BeginCapture(first_);
  EXPECT_EQ(cudaEventRecord(fork, first_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second_, fork), cudaSuccess);
  SetFloats(zeros_, 1, second_);
  EXPECT_EQ(cudaEventRecord(to_third, second_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(third, to_third), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(join, third), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(first_, join), cudaSuccess);
  EXPECT_EQ(EndCapture(first_), cudaSuccess);
}

// 905
TEST_F(GraphTest, ACaptureDoesNotWaitForWorkOutside) {
  const cudaEvent_t outside = NewEvent();
  EXPECT_EQ(cudaEventRecord(outside, second_), cudaSuccess);
  BeginCapture(first_);
  EXPECT_EQ(cudaStreamWaitEvent(first_, outside), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(EndCapture(first_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(Finish(), cudaSuccess);
}

// 907
TEST_F(GraphTest, ACapturedEventIsNoFence) {
  const cudaEvent_t event = NewEvent();
  BeginCapture(first_);
  EXPECT_EQ(cudaEventRecord(event, first_), cudaSuccess);
  EXPECT_EQ(EndCapture(first_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second_, event), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorCapturedEvent);
  BeginCapture(first_);
  EXPECT_EQ(cudaEventRecord(event, first_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  EXPECT_EQ(EndCapture(first_), cudaErrorStreamCaptureInvalidated);
  // The next record makes it one again.
  EXPECT_EQ(cudaEventRecord(event, first_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
}

// 908
TEST_F(GraphTest, TheThreadThatBeganACaptureEndsIt) {
  for (const bool relaxed : {false, true}) {
    BeginCapture(first_, relaxed ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeThreadLocal);
    std::thread([&] {
      EXPECT_EQ(EndCapture(first_), relaxed ? cudaSuccess : cudaErrorStreamCaptureWrongThread);
    }).join();
    if (!relaxed) {
      EXPECT_EQ(EndCapture(first_), cudaErrorStreamCaptureInvalidated);
    }
  }
}

TEST_F(GraphTest, AGraphIsNotLaunchedIntoACapture) {
  const cudaGraphExec_t exec = CaptureFork();
  BeginCapture(first_);
  EXPECT_EQ(cudaGraphLaunch(exec, first_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(EndCapture(first_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(GraphTest, KernelsAreLoadedBeforeACapture) {
  BeginCapture(first_);
  EXPECT_EQ(Launch(NeverBefore, {1, 32}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(EndCapture(first_), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("kernel NeverBefore is used for the first time inside of a"));
}

}  // namespace
}  // namespace sluice::cuda_emulation
