// Communicators and their collectives on the emulation, each member on a thread of its own; and how
// what goes wrong in one ends all.
#include "framework/comm/nccl.h"

#include <cuda_runtime.h>

#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "framework/testing/cuda_emulation/emulation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kDevices = 2;
constexpr std::chrono::seconds kLimit(5);  // that a step has to end after an error

class NcclTest : public ::testing::Test {
 protected:
  NcclTest() {
    cuda_emulation::Reset(uint64_t{5});
    for (int device = 0; device < kDevices; ++device) {
      cudaSetDevice(device);
      cudaStream_t stream = nullptr;
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
      streams_.push_back(stream);
    }
  }
  ~NcclTest() override {
    all_.reset();
    EXPECT_THAT(cuda_emulation::TakeErrors(), IsEmpty());
  }

  // As a runtime does it: the first error aborts everything.
  void Connect(const std::vector<CommunicatorGroup>& groups) {
    auto made = NcclCommunicators::Connect(groups, [this](const absl::Status& status) {
      all_->Abort();
      told_.set_value(status);
    });
    ASSERT_TRUE(made.ok()) << made.status();
    all_ = *std::move(made);
  }

  float* Make(int device, const std::vector<float>& values) {
    cudaSetDevice(device);
    void* made = nullptr;
    EXPECT_EQ(cudaMalloc(&made, values.size() * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(made, values.data(), values.size() * sizeof(float), cudaMemcpyDefault),
              cudaSuccess);
    return static_cast<float*>(made);
  }
  std::vector<float> Read(int device, const float* from, size_t count) {
    cudaSetDevice(device);
    EXPECT_EQ(cudaStreamSynchronize(streams_[device]), cudaSuccess);
    std::vector<float> values(count);
    EXPECT_EQ(cudaMemcpy(values.data(), from, count * sizeof(float), cudaMemcpyDefault),
              cudaSuccess);
    return values;
  }

  // launch(device) on a thread of each device.
  void OnEach(const std::function<void(int)>& launch) {
    std::vector<std::thread> threads;
    for (int device = 0; device < kDevices; ++device) {
      threads.emplace_back([&, device] {
        cudaSetDevice(device);
        launch(device);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Whether what a stream was given ends in time.
  bool Ends(int device) {
    cudaSetDevice(device);
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    while (std::chrono::steady_clock::now() < limit) {
      if (cudaStreamQuery(streams_[device]) == cudaSuccess) return true;
      cudaGetLastError();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  std::vector<cudaStream_t> streams_;
  std::promise<absl::Status> told_;
  std::unique_ptr<NcclCommunicators> all_;
};

TEST_F(NcclTest, SumsScattersAndGathers) {
  Connect({{{3, 7}, {0, 1}}});
  EXPECT_EQ(all_->Find({3, 7}, 5), nullptr);
  EXPECT_EQ(all_->Find({3}, 3), nullptr);
  std::vector<float*> sums, parts, wholes;
  std::vector<float*> from = {Make(0, {1, 2, 3, 4}), Make(1, {10, 20, 30, 40})};
  for (int device = 0; device < kDevices; ++device) {
    sums.push_back(Make(device, {0, 0, 0, 0}));
    parts.push_back(Make(device, {0, 0}));
    wholes.push_back(Make(device, {0, 0, 0, 0}));
  }
  OnEach([&](int device) {
    NcclMember& member = *all_->Find({3, 7}, device == 0 ? 3 : 7);
    const cudaStream_t stream = streams_[device];
    EXPECT_TRUE(member.AllReduceSum(from[device], sums[device], 4, DType::kF32, stream).ok());
    EXPECT_TRUE(member.ReduceScatterSum(from[device], parts[device], 2, DType::kF32, stream).ok());
    EXPECT_TRUE(member.AllGather(parts[device], wholes[device], 2, DType::kF32, stream).ok());
  });
  for (int device = 0; device < kDevices; ++device) {
    EXPECT_THAT(Read(device, sums[device], 4), ElementsAre(11, 22, 33, 44));
    EXPECT_THAT(Read(device, wholes[device], 4), ElementsAre(11, 22, 33, 44));
  }
  EXPECT_THAT(Read(0, parts[0], 2), ElementsAre(11, 22));
  EXPECT_THAT(Read(1, parts[1], 2), ElementsAre(33, 44));
}

TEST_F(NcclTest, ACountThatDiffersEndsAllMembers) {
  Connect({{{0, 1}, {0, 1}}});
  const std::vector<float*> at = {Make(0, {1, 2, 3, 4}), Make(1, {1, 2, 3, 4})};
  OnEach([&](int device) {
    all_->Find({0, 1}, device)
        ->AllReduceSum(at[device], at[device], device == 0 ? 4 : 3, DType::kF32, streams_[device])
        .IgnoreError();
  });
  std::future<absl::Status> told = told_.get_future();
  ASSERT_EQ(told.wait_for(kLimit), std::future_status::ready);
  EXPECT_THAT(std::string(told.get().message()),
              AllOf(HasSubstr("devices 0, 1"), HasSubstr("NCCL says invalid usage")));
  EXPECT_TRUE(Ends(0));
  EXPECT_TRUE(Ends(1));
  EXPECT_THAT(cuda_emulation::TakeErrors(), Contains(AllOf(HasSubstr("ncclAllReduce of 4 f32"),
                                                           HasSubstr("ncclAllReduce of 3 f32"))));
}

TEST_F(NcclTest, TwoCollectivesInTwoOrdersAreFound) {
  Connect({{{0, 1}, {0, 1}}});
  const std::vector<float*> at = {Make(0, {1, 2, 3, 4}), Make(1, {1, 2, 3, 4})};
  OnEach([&](int device) {
    for (const int64_t count : {device == 0 ? 4 : 2, device == 0 ? 2 : 4}) {
      all_->Find({0, 1}, device)
          ->AllReduceSum(at[device], at[device], count, DType::kF32, streams_[device])
          .IgnoreError();
    }
  });
  ASSERT_EQ(told_.get_future().wait_for(kLimit), std::future_status::ready);
  EXPECT_TRUE(Ends(0));
  EXPECT_TRUE(Ends(1));
  EXPECT_THAT(cuda_emulation::TakeErrors(), Contains(HasSubstr("another rank ncclAllReduce")));
}

TEST_F(NcclTest, TwoGroupsInTwoOrdersAreFound) {
  Connect({{{0, 1}, {0, 1}}, {{1, 0}, {1, 0}}});
  const std::vector<float*> at = {Make(0, {1, 2}), Make(1, {3, 4})};
  const std::vector<std::vector<int32_t>> groups = {{0, 1}, {1, 0}};
  OnEach([&](int device) {
    for (const int g : {device, 1 - device}) {
      NcclMember& member = *all_->Find(groups[g], device);
      EXPECT_TRUE(
          member.AllReduceSum(at[device], at[device], 2, DType::kF32, streams_[device]).ok());
    }
  });
  EXPECT_THAT(cuda_emulation::TakeErrors(), Contains(HasSubstr("they may wait for each other")));
  // And they do, until somebody ends it.
  all_->Abort();
  EXPECT_TRUE(Ends(0));
  EXPECT_TRUE(Ends(1));
}

TEST_F(NcclTest, AMemberThatNeverComesHoldsNobodyUpOnceAllIsAborted) {
  Connect({{{0, 1}, {0, 1}}});
  float* const at = Make(0, {1, 2});
  NcclMember& member = *all_->Find({0, 1}, 0);
  EXPECT_TRUE(member.AllReduceSum(at, at, 2, DType::kF32, streams_[0]).ok());
  cudaSetDevice(0);
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaErrorNotReady);
  cudaGetLastError();
  const auto begin = std::chrono::steady_clock::now();
  all_->Abort();
  EXPECT_TRUE(Ends(0));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLimit);
  const absl::Status later = member.AllReduceSum(at, at, 2, DType::kF32, streams_[0]);
  EXPECT_EQ(later.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(later.message()),
              AllOf(HasSubstr("all_reduce of 2 f32"), HasSubstr("devices 0, 1")));
}

TEST_F(NcclTest, WhatTheLibraryRefusesIsSaidInItsWords) {
  Connect({{{0, 1}, {0, 1}}});
  const absl::Status refused =
      all_->Find({0, 1}, 0)->AllReduceSum(nullptr, nullptr, 2, DType::kF32, streams_[0]);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("all_reduce of 2 f32, devices 0, 1, at device 0"),
                    HasSubstr("NCCL says invalid argument: a buffer is null")));
}

TEST_F(NcclTest, DevicesThatShareACardAreRefused) {
  const auto made = NcclCommunicators::Connect({{{0, 1}, {0, 0}}}, nullptr);
  EXPECT_EQ(std::string(made.status().message()),
            "collectives of devices 0, 1: expected a card for each, got card 0 for devices 0 and "
            "1; --reproducible makes copies of them");
}

}  // namespace
}  // namespace sluice
