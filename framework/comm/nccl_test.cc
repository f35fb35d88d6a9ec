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

  using Made = absl::StatusOr<std::unique_ptr<NcclCommunicators>>;

  // As a runtime does it: the first error aborts everything.
  Made MakeAll(const std::vector<CommunicatorGroup>& groups) {
    return NcclCommunicators::Make(groups, [this](const absl::Status& status) {
      all_->Abort();
      told_.set_value(status);
    });
  }
  void Connect(const std::vector<CommunicatorGroup>& groups) {
    auto made = MakeAll(groups);
    ASSERT_TRUE(made.ok()) << made.status();
    all_ = *std::move(made);
    const auto mine = all_->Introduce();
    ASSERT_TRUE(mine.ok()) << mine.status();
    const absl::Status connected = all_->Connect(*mine);
    ASSERT_TRUE(connected.ok()) << connected;
  }

  float* Make(int device, const std::vector<float>& values) {
    cudaSetDevice(device);
    void* made = nullptr;
    EXPECT_EQ(cudaMalloc(&made, values.size() * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(made, values.data(), values.size() * sizeof(float), cudaMemcpyDefault),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
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
  const Made made = MakeAll({{{0, 1}, {0, 0}}});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(std::string((*made)->Connect(*(*made)->Introduce()).message()),
              AllOf(HasSubstr("collectives of devices 0, 1: expected a card for each, got card "),
                    HasSubstr(" for devices 0 and 1; --reproducible makes copies of them")));
}

// Two processes with a card each; groups come in another order in the plan of each.
class NcclProcessesTest : public NcclTest {
 protected:
  NcclProcessesTest() {
    for (int process = 0; process < kDevices; ++process) {
      const int32_t first = process == 0 ? 0 : -1, second = process == 0 ? -1 : 1;
      std::vector<CommunicatorGroup> groups = {{{3, 7}, {first, second}},
                                               {{7, 3}, {second, first}}};
      if (process == 1) std::swap(groups[0], groups[1]);
      auto made = NcclCommunicators::Make(groups, [](const absl::Status&) {});
      EXPECT_TRUE(made.ok()) << made.status();
      processes_.push_back(*std::move(made));
      const auto mine = processes_.back()->Introduce();
      EXPECT_TRUE(mine.ok()) << mine.status();
      said_.push_back(*mine);
    }
  }
  ~NcclProcessesTest() override {
    OnEach([&](int process) { processes_[process].reset(); });
  }

  std::vector<std::unique_ptr<NcclCommunicators>> processes_;
  std::vector<std::string> said_;
};

TEST_F(NcclProcessesTest, MeetByWhatTheyHaveSaid) {
  // The process of a group's first device makes its id.
  EXPECT_THAT(said_[0], AllOf(HasSubstr("id 3,7 "), Not(HasSubstr("id 7,3 "))));
  EXPECT_THAT(said_[1], AllOf(HasSubstr("id 7,3 "), Not(HasSubstr("id 3,7 "))));
  OnEach([&](int process) {
    const absl::Status connected = processes_[process]->Connect(said_[0] + said_[1]);
    EXPECT_TRUE(connected.ok()) << connected;
  });
  const std::vector<float*> from = {Make(0, {1, 2}), Make(1, {10, 20})};
  const std::vector<float*> whole = {Make(0, {0, 0, 0, 0}), Make(1, {0, 0, 0, 0})};
  EXPECT_EQ(processes_[0]->Find({3, 7}, 7), nullptr);
  OnEach([&](int process) {
    NcclMember& member = *processes_[process]->Find({7, 3}, process == 0 ? 3 : 7);
    EXPECT_TRUE(
        member.AllGather(from[process], whole[process], 2, DType::kF32, streams_[process]).ok());
  });
  // By the order of the group's devices.
  EXPECT_THAT(Read(0, whole[0], 4), ElementsAre(10, 20, 1, 2));
  EXPECT_THAT(Read(1, whole[1], 4), ElementsAre(10, 20, 1, 2));
}

TEST_F(NcclProcessesTest, OneThatDoesNotComeIsWaitedForUntilAllIsAborted) {
  std::future<absl::Status> connected =
      std::async(std::launch::async, [&] { return processes_[0]->Connect(said_[0] + said_[1]); });
  EXPECT_EQ(connected.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  const auto begin = std::chrono::steady_clock::now();
  processes_[0]->Abort();
  EXPECT_EQ(std::string(connected.get().message()),
            "making a communicator of devices 3, 7: the job has ended meanwhile");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLimit);
}

TEST_F(NcclProcessesTest, WhatOthersSayIsChecked) {
  EXPECT_THAT(std::string(processes_[0]->Connect(said_[0]).message()),
              HasSubstr("expected the card of device 7"));
  std::string no_id = said_[1];
  no_id.erase(0, no_id.find("card"));
  EXPECT_THAT(std::string(processes_[0]->Connect(said_[0] + no_id).message()),
              HasSubstr("expected an id of 128 bytes for devices 7, 3, got none"));
  EXPECT_THAT(std::string(processes_[0]->Connect(said_[0] + "id 7,3 00\n" + no_id).message()),
              HasSubstr("expected an id of 128 bytes for devices 7, 3, got 1 bytes"));
  EXPECT_THAT(std::string(processes_[0]->Connect(said_[0] + "nothing").message()),
              HasSubstr("introductions of processes: expected"));
}

}  // namespace
}  // namespace sluice
