// The order of streams, events and the host, and what an asynchronous copy asks of host memory.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "framework/testing/cuda_emulation/test_kernels.h"

namespace sluice::cuda_emulation {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

__global__ void Set(float* p, float value) { p[threadIdx.x] = value; }
__global__ void Copy(const float* p, float* q) { q[threadIdx.x] = p[threadIdx.x]; }

__global__ void SetHalf(uint16_t* p) { *p = 1; }

class StreamOrderTest : public EmulationTest {
 protected:
  void SetFloats(float* p, cudaStream_t stream, float value = 1) {
    EXPECT_EQ(Launch(Set, {1, kFloats}, stream, p, value), cudaSuccess);
  }
  void CopyFloats(const float* from, float* to, cudaStream_t stream) {
    EXPECT_EQ(Launch(Copy, {1, kFloats}, stream, from, to), cudaSuccess);
  }
  cudaError_t ToHost(cudaStream_t stream) {
    return cudaMemcpyAsync(pinned_, zeros_, kBytes, cudaMemcpyDeviceToHost, stream);
  }
};

TEST_F(StreamOrderTest, ReadBeforeTheWritersEvent) {
  SetFloats(zeros_, first_);
  CopyFloats(zeros_, fresh_, second_);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), AllOf(HasSubstr("without order after a "), HasSubstr(" by kernel "),
                                 HasSubstr(" in stream ")));
}

TEST_F(StreamOrderTest, ReadAfterTheWritersEvent) {
  const cudaEvent_t written = NewEvent();
  SetFloats(zeros_, first_);
  EXPECT_EQ(cudaEventRecord(written, first_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second_, written), cudaSuccess);
  CopyFloats(zeros_, fresh_, second_);
  EXPECT_EQ(Finish(), cudaSuccess);
}

TEST_F(StreamOrderTest, EventThatIsRecordedTooEarly) {
  const cudaEvent_t written = NewEvent();
  EXPECT_EQ(cudaEventRecord(written, first_), cudaSuccess);
  SetFloats(zeros_, first_);
  EXPECT_EQ(cudaStreamWaitEvent(second_, written), cudaSuccess);
  CopyFloats(zeros_, fresh_, second_);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("without order after"));
}

TEST_F(StreamOrderTest, WriteBeforeReadersEnd) {
  CopyFloats(zeros_, fresh_, first_);
  SetFloats(zeros_, second_);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("without order after"));
}

// Waiting for all readers but one, whichever, is not enough.
TEST_F(StreamOrderTest, WriteAfterSeveralReaders) {
  constexpr int kReaders = 3, kNone = kReaders;
  for (int seed = 0; seed < 20; ++seed) {
    for (int left_out = 0; left_out <= kNone; ++left_out) {
      Begin(seed);
      for (int reader = 0; reader < kReaders; ++reader) {
        const cudaStream_t stream = NewStream();
        const cudaEvent_t read = NewEvent();
        CopyFloats(zeros_, NewFloats(), stream);
        EXPECT_EQ(cudaEventRecord(read, stream), cudaSuccess);
        if (reader != left_out) {
          EXPECT_EQ(cudaStreamWaitEvent(first_, read), cudaSuccess);
        }
      }
      // Part of what they read.
      EXPECT_EQ(Launch(SetHalf, {1, 1}, first_, reinterpret_cast<uint16_t*>(zeros_) + 1),
                cudaSuccess);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      EXPECT_EQ(TakeErrors().empty(), left_out == kNone) << seed << " " << left_out;
    }
  }
}

TEST_F(StreamOrderTest, TheHostOrdersWhatItHasWaitedFor) {
  SetFloats(zeros_, first_);
  EXPECT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  CopyFloats(zeros_, fresh_, second_);
  EXPECT_EQ(cudaStreamSynchronize(second_), cudaSuccess);
  const cudaEvent_t written = NewEvent();
  SetFloats(zeros_, first_);
  EXPECT_EQ(cudaEventRecord(written, first_), cudaSuccess);
  while (cudaEventQuery(written) == cudaErrorNotReady) {
  }
  SetFloats(zeros_, second_);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  SetFloats(zeros_, first_);
  EXPECT_EQ(Finish(), cudaSuccess);
}

TEST_F(StreamOrderTest, AQueryIsNoOrderUnlessItSaysSo) {
  const cudaEvent_t written = NewEvent();
  SetFloats(zeros_, first_);
  EXPECT_EQ(cudaEventRecord(written, first_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(written), cudaErrorNotReady);
  SetFloats(zeros_, second_);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("without order after"));
}

TEST_F(StreamOrderTest, OrderIsOfTheSeed) {
  const auto run = [this](uint64_t seed) {
    Begin(seed);
    // No order is asked for, so values say who was last.
    SetFloats(zeros_, first_, 1);
    SetFloats(zeros_, second_, 2);
    EXPECT_EQ(Finish(), cudaSuccess);
    TakeErrors();
    return zeros_[0];
  };
  int sum = 0;
  for (int seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(run(seed), run(seed));
    sum += static_cast<int>(run(seed));
  }
  EXPECT_GT(sum, 20);
  EXPECT_LT(sum, 40);
}

TEST_F(StreamOrderTest, TheDefaultStreamsCallsOrderNoOther) {
  SetFloats(zeros_, first_);
  float host[kFloats];
  EXPECT_EQ(cudaMemcpy(host, zeros_, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), AllOf(HasSubstr("without order after")));
  // Pageable memory is staged when the call returns, and no more.
  std::fill_n(host, kFloats, 2.0f);
  EXPECT_EQ(cudaMemcpy(zeros_, host, kBytes, cudaMemcpyHostToDevice), cudaSuccess);
  std::fill_n(host, kFloats, 3.0f);
  SetFloats(zeros_, first_);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_THAT(TakeError(), AllOf(HasSubstr("without order after")));
  EXPECT_EQ(cudaMemcpy(zeros_, host, kBytes, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(zeros_[0], 3);
  EXPECT_EQ(cudaMemset(zeros_, 0, kBytes), cudaSuccess);
  SetFloats(zeros_, first_);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_THAT(TakeError(), AllOf(HasSubstr("without order after")));
}

TEST_F(StreamOrderTest, PinnedMemoryThatChangesBeforeItIsCopied) {
  std::memset(pinned_, 0, kBytes);
  EXPECT_EQ(cudaMemcpyAsync(zeros_, pinned_, kBytes, cudaMemcpyHostToDevice, first_), cudaSuccess);
  pinned_[kFloats - 1] = 2;
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("the host changed host memory"));
}

TEST_F(StreamOrderTest, WhatIsCopiedToTheHostIsNoNumberBefore) {
  std::memset(pinned_, 0, kBytes);
  EXPECT_EQ(ToHost(first_), cudaSuccess);
  EXPECT_TRUE(std::isnan(pinned_[0]) && std::isnan(pinned_[kFloats - 1]));
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(pinned_[0], 0);
  EXPECT_EQ(ToHost(first_), cudaSuccess);
  pinned_[0] = 1;
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("the host changed host memory"));
}

TEST_F(StreamOrderTest, PageableMemory) {
  std::vector<float> pageable(kFloats);
  EXPECT_EQ(cudaMemcpyAsync(zeros_, pageable.data(), kBytes, cudaMemcpyHostToDevice, first_),
            cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("asynchronous copy reads pageable host memory"));
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(pageable.data(), kBytes, cudaHostRegisterPortable), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(pageable.data(), zeros_, kBytes, cudaMemcpyDeviceToHost, first_),
            cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(pageable.data()), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(pageable.data(), zeros_, kBytes, cudaMemcpyDeviceToHost, first_),
            cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("asynchronous copy writes pageable host memory"));
  EXPECT_EQ(Finish(), cudaSuccess);
}

TEST_F(StreamOrderTest, PinnedMemoryThatIsGivenBackTooEarly) {
  EXPECT_EQ(ToHost(first_), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("before the host has waited for a copy"));
}

TEST_F(StreamOrderTest, CopiesOfHostMemoryInTwoStreams) {
  EXPECT_EQ(ToHost(first_), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(fresh_, pinned_, kBytes, cudaMemcpyHostToDevice, second_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeErrors(), Contains(HasSubstr("host memory without order after a copy that")));
  // By an event, host memory goes from one stream to the other without the host.
  const cudaEvent_t copied = NewEvent();
  EXPECT_EQ(ToHost(first_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(copied, first_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second_, copied), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(fresh_, pinned_, kBytes, cudaMemcpyHostToDevice, second_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(fresh_[0], 0);
}

TEST_F(StreamOrderTest, CopiesOfOtherColumnsAreNoConflict) {
  // Two columns of 8 floats in rows of 16.
  const auto copy_column = [this](int column, cudaStream_t stream) {
    return cudaMemcpy2DAsync(pinned_ + column * 8, 64, zeros_, 32, 32, 4, cudaMemcpyDeviceToHost,
                             stream);
  };
  EXPECT_EQ(copy_column(0, first_), cudaSuccess);
  EXPECT_EQ(copy_column(1, second_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeErrors(), IsEmpty());
  EXPECT_EQ(copy_column(0, first_), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2DAsync(pinned_ + 7, 64, zeros_, 32, 32, 3, cudaMemcpyDeviceToHost, second_),
            cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeErrors(),
              Contains(HasSubstr("writes host memory without order after a copy that writes")));
}

TEST_F(StreamOrderTest, EventsThatAreUsedWrongly) {
  const cudaEvent_t event = NewEvent();
  EXPECT_EQ(cudaStreamWaitEvent(first_, event), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("waits for an event that was never recorded"));
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("asked about that was never recorded"));
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("waits for an event that was never recorded"));
  SetFloats(zeros_, first_);
  EXPECT_EQ(cudaEventRecord(event, first_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, first_), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("recorded again before its last record is reached"));
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("destroyed before its last record is reached"));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(TakeError(), HasSubstr("an event is used that is not open"));
}

TEST_F(StreamOrderTest, AHostThatPollsGetsOn) {
  const cudaEvent_t last = NewEvent();
  for (int i = 0; i < 100; ++i) SetFloats(zeros_, first_);
  EXPECT_EQ(cudaEventRecord(last, first_), cudaSuccess);
  int polls = 0;
  while (cudaEventQuery(last) == cudaErrorNotReady) ++polls;
  EXPECT_EQ(polls, 101);  // one thing each time
  EXPECT_EQ(cudaStreamQuery(first_), cudaSuccess);
}

TEST_F(StreamOrderTest, AFullStreamIsServed) {
  for (int i = 0; i < 2000; ++i) SetFloats(zeros_, first_);
  EXPECT_GE(GetStatistics().kernels, 2000 - 512);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_EQ(GetStatistics().kernels, 2000);
}

TEST_F(StreamOrderTest, AClosedStreamEndsItsWork) {
  const cudaStream_t third = NewStream();
  const cudaEvent_t written = NewEvent();
  SetFloats(zeros_, third, 5);
  EXPECT_EQ(cudaEventRecord(written, third), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(third), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(written), cudaSuccess);
  EXPECT_EQ(zeros_[0], 5);
  EXPECT_EQ(Launch(Set, {1, 32}, third, zeros_, 1), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(TakeError(), HasSubstr("a stream is used that is not open"));
}

// What was after the one before it is not after it.
TEST_F(StreamOrderTest, AStreamInTheClosedOnesPlace) {
  for (int seed = 0; seed < 20; ++seed) {
    Begin(seed);
    const cudaStream_t third = NewStream();
    const cudaEvent_t written = NewEvent();
    SetFloats(fresh_, third);
    EXPECT_EQ(cudaEventRecord(written, third), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(first_, written), cudaSuccess);
    SetFloats(fresh_, first_);
    EXPECT_EQ(cudaStreamDestroy(third), cudaSuccess);
    // Until all has run, but the host has not been told so.
    while (GetStatistics().kernels < 2) EXPECT_EQ(cudaStreamQuery(first_), cudaErrorNotReady);
    SetFloats(zeros_, NewStream());
    SetFloats(zeros_, first_);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_THAT(TakeError(), HasSubstr("without order after"));
  }
}

}  // namespace
}  // namespace sluice::cuda_emulation
