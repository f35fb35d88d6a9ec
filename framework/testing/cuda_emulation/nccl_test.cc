// The emulated NCCL: what its calls compute, and the mistakes that it tells of.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "framework/tensor/dtype.h"
#include "framework/testing/cuda_emulation/emulation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::cuda_emulation {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr int kRanks = 3;

class NcclTest : public ::testing::Test {
 protected:
  NcclTest() {
    Reset(uint64_t{3});
    for (int rank = 0; rank < kRanks; ++rank) {
      cudaSetDevice(rank);
      cudaStream_t stream = nullptr;
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
      streams_.push_back(stream);
    }
    all_ = NewCommunicator(kRanks);
  }
  ~NcclTest() override {
    for (const ncclComm_t each : all_) {
      if (each != nullptr) ncclCommDestroy(each);
    }
    EXPECT_THAT(TakeErrors(), IsEmpty());
  }

  // Of ranks on devices 0, 1, ..
  std::vector<ncclComm_t> NewCommunicator(int ranks) {
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::vector<ncclComm_t> made(ranks);
    ncclGroupStart();
    for (int rank = 0; rank < ranks; ++rank) {
      cudaSetDevice(rank);
      EXPECT_EQ(ncclCommInitRank(&made[rank], ranks, id, rank), ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    return made;
  }

  template <typename T>
  T* Device(int rank, const std::vector<T>& values) {
    cudaSetDevice(rank);
    void* made = nullptr;
    EXPECT_EQ(cudaMalloc(&made, values.size() * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(made, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return static_cast<T*>(made);
  }
  template <typename T>
  std::vector<T> Read(int rank, const T* from, size_t count) {
    cudaSetDevice(rank);
    EXPECT_EQ(cudaStreamSynchronize(streams_[rank]), cudaSuccess);
    std::vector<T> values(count);
    EXPECT_EQ(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

  // call(rank) for all, as a group.
  void Grouped(const std::function<ncclResult_t(int)>& call) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(call(rank), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  void Synchronize() {
    for (int rank = 0; rank < kRanks; ++rank) {
      cudaSetDevice(rank);
      cudaStreamSynchronize(streams_[rank]);
    }
  }
  void ExpectError(const std::string& words) {
    EXPECT_THAT(TakeErrors(), Contains(HasSubstr(words)));
  }

  std::vector<cudaStream_t> streams_;
  std::vector<ncclComm_t> all_;
};

TEST_F(NcclTest, SumsInTheOrderOfRanks) {
  // In another order 1 is lost beside 1e8.
  const std::vector<std::vector<float>> values = {{1e8f, 1}, {-1e8f, 2}, {1, 4}};
  std::vector<float*> at;
  for (int rank = 0; rank < kRanks; ++rank) at.push_back(Device(rank, values[rank]));
  Grouped([&](int rank) {
    return ncclAllReduce(at[rank], at[rank], 2, ncclFloat32, ncclSum, all_[rank], streams_[rank]);
  });
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_THAT(Read(rank, at[rank], 2), ElementsAre(1, 7));
}

TEST_F(NcclTest, OtherFoldsAndTypes) {
  std::vector<int32_t*> i32;
  std::vector<uint16_t*> bf16, sum;
  for (int rank = 0; rank < kRanks; ++rank) {
    i32.push_back(Device<int32_t>(rank, {rank + 2, -rank}));
    bf16.push_back(Device<uint16_t>(rank, {FloatToBFloat16(rank == 0 ? 256 : 1)}));
    sum.push_back(Device<uint16_t>(rank, {0}));
  }
  const auto fold = [&](ncclRedOp_t op) {
    std::vector<int32_t*> result;
    for (int rank = 0; rank < kRanks; ++rank) result.push_back(Device<int32_t>(rank, {0, 0}));
    Grouped([&](int rank) {
      return ncclAllReduce(i32[rank], result[rank], 2, ncclInt32, op, all_[rank], streams_[rank]);
    });
    return Read(1, result[1], 2);
  };
  EXPECT_THAT(fold(ncclProd), ElementsAre(24, 0));
  EXPECT_THAT(fold(ncclMax), ElementsAre(4, 0));
  EXPECT_THAT(fold(ncclMin), ElementsAre(2, -2));
  EXPECT_THAT(fold(ncclAvg), ElementsAre(3, -1));
  // Each hop rounds: 257 is no bf16.
  Grouped([&](int rank) {
    return ncclAllReduce(bf16[rank], sum[rank], 1, ncclBfloat16, ncclSum, all_[rank],
                         streams_[rank]);
  });
  EXPECT_EQ(BFloat16ToFloat(Read(2, sum[2], 1)[0]), 256);
  Grouped([&](int rank) {
    return ncclAllReduce(bf16[rank], sum[rank], 1, ncclBfloat16, ncclAvg, all_[rank],
                         streams_[rank]);
  });
  EXPECT_EQ(BFloat16ToFloat(Read(2, sum[2], 1)[0]), 85.5f);
}

TEST_F(NcclTest, GathersScattersAndBroadcasts) {
  std::vector<float*> one, three, spread, rooted;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto value = static_cast<float>(rank + 1);
    one.push_back(Device<float>(rank, {value}));
    three.push_back(Device<float>(rank, {0, 0, 0}));
    spread.push_back(Device<float>(rank, {0}));
    rooted.push_back(Device<float>(rank, {-1}));
  }
  Grouped([&](int rank) {
    return ncclAllGather(one[rank], three[rank], 1, ncclFloat32, all_[rank], streams_[rank]);
  });
  EXPECT_THAT(Read(2, three[2], 3), ElementsAre(1, 2, 3));
  Grouped([&](int rank) {
    return ncclReduceScatter(three[rank], spread[rank], 1, ncclFloat32, ncclSum, all_[rank],
                             streams_[rank]);
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(Read(rank, spread[rank], 1)[0], 3 * (rank + 1));
  }
  Grouped([&](int rank) {
    return ncclReduce(one[rank], rooted[rank], 1, ncclFloat32, ncclSum, 1, all_[rank],
                      streams_[rank]);
  });
  EXPECT_EQ(Read(0, rooted[0], 1)[0], -1);
  EXPECT_EQ(Read(1, rooted[1], 1)[0], 6);
  Grouped([&](int rank) {
    // Only the root's is read.
    return ncclBroadcast(rank == 2 ? one[rank] : nullptr, rooted[rank], 1, ncclFloat32, 2,
                         all_[rank], streams_[rank]);
  });
  EXPECT_EQ(Read(0, rooted[0], 1)[0], 3);
}

// As pipelines and uneven splits do.
TEST_F(NcclTest, SendsMeetReceivesInOrder) {
  std::vector<float*> from, to;
  for (int rank = 0; rank < kRanks; ++rank) {
    from.push_back(Device<float>(rank, {rank + 1.0f, rank + 10.0f}));
    to.push_back(Device<float>(rank, {0, 0}));
  }
  Grouped([&](int rank) {
    const int next = (rank + 1) % kRanks, before = (rank + 2) % kRanks;
    EXPECT_EQ(ncclSend(from[rank], 1, ncclFloat32, next, all_[rank], streams_[rank]), ncclSuccess);
    EXPECT_EQ(ncclRecv(to[rank], 1, ncclFloat32, before, all_[rank], streams_[rank]), ncclSuccess);
    EXPECT_EQ(ncclSend(from[rank] + 1, 1, ncclFloat32, next, all_[rank], streams_[rank]),
              ncclSuccess);
    return ncclRecv(to[rank] + 1, 1, ncclFloat32, before, all_[rank], streams_[rank]);
  });
  EXPECT_THAT(Read(0, to[0], 2), ElementsAre(3, 12));
  EXPECT_THAT(Read(1, to[1], 2), ElementsAre(1, 10));
}

// A thread a rank needs no groups, and all may be given before any waits.
TEST_F(NcclTest, AThreadARank) {
  std::vector<float*> at;
  for (int rank = 0; rank < kRanks; ++rank) at.push_back(Device<float>(rank, {1}));
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      cudaSetDevice(rank);
      ncclComm_t mine = nullptr;
      EXPECT_EQ(ncclCommInitRank(&mine, kRanks, id, rank), ncclSuccess);
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(ncclAllReduce(at[rank], at[rank], 1, ncclFloat32, ncclSum, mine, streams_[rank]),
                  ncclSuccess);
      }
      EXPECT_EQ(cudaStreamSynchronize(streams_[rank]), cudaSuccess);
      EXPECT_EQ(ncclCommFinalize(mine), ncclSuccess);
      EXPECT_EQ(ncclCommDestroy(mine), ncclSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Read(2, at[2], 1)[0], 27);
}

TEST_F(NcclTest, SplitsByColorAndKey) {
  std::vector<ncclComm_t> parts(kRanks);
  ncclGroupStart();
  for (int rank = 0; rank < kRanks; ++rank) {
    const int color = rank == 1 ? NCCL_SPLIT_NOCOLOR : 7;
    EXPECT_EQ(ncclCommSplit(all_[rank], color, -rank, &parts[rank], nullptr), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(parts[1], nullptr);
  int count = 0, rank = -1, device = -1;
  EXPECT_EQ(ncclCommCount(parts[0], &count), ncclSuccess);
  EXPECT_EQ(ncclCommUserRank(parts[0], &rank), ncclSuccess);
  EXPECT_EQ(ncclCommCuDevice(parts[2], &device), ncclSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(rank, 1);  // the greater key
  EXPECT_EQ(device, 2);
  for (const int each : {0, 2}) ncclCommDestroy(parts[each]);
}

// ---- Beginning ----

TEST_F(NcclTest, TwoRanksOfADeviceAreRefused) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t made[2] = {};
  cudaSetDevice(0);
  ncclGroupStart();
  for (int rank = 0; rank < 2; ++rank) ncclCommInitRank(&made[rank], 2, id, rank);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  ExpectError("two ranks have one device");
  for (const ncclComm_t each : made) ncclCommDestroy(each);
}

TEST_F(NcclTest, ArgumentsOfBeginningAreLookedAt) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t made = nullptr;
  EXPECT_EQ(ncclCommInitRank(&made, 2, id, 2), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("rank 2 of 2"));
  EXPECT_EQ(ncclCommInitRank(&made, 0, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommSplit(all_[0], -2, 0, &made, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommSplit(all_[0], 0, 0, nullptr, nullptr), ncclInvalidArgument);
  ncclConfig_t empty = {};
  EXPECT_EQ(ncclCommInitRankConfig(&made, 2, id, 0, &empty), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("NCCL_CONFIG_INITIALIZER"));
}

TEST_F(NcclTest, WhoDoesNotBlockPolls) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t made[2] = {};
  cudaSetDevice(0);
  EXPECT_EQ(ncclCommInitRankConfig(&made[0], 2, id, 0, &config), ncclInProgress);
  ncclResult_t error = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(made[0], &error), ncclSuccess);
  EXPECT_EQ(error, ncclInProgress);
  float* const at = Device<float>(0, {1});
  EXPECT_EQ(ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, made[0], streams_[0]), ncclInvalidUsage);
  ExpectError("is used before all its ranks have come");
  EXPECT_EQ(ncclCommInitRankConfig(&made[1], 2, id, 0, &config), ncclInvalidArgument);
  cudaSetDevice(1);
  EXPECT_EQ(ncclCommInitRankConfig(&made[1], 2, id, 1, &config), ncclInProgress);
  EXPECT_EQ(ncclCommGetAsyncError(made[0], &error), ncclSuccess);
  EXPECT_EQ(error, ncclSuccess);
  for (const ncclComm_t each : made) ncclCommDestroy(each);
}

TEST_F(NcclTest, NothingBeginsInAGroupWithCollectives) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  float* const at = Device<float>(0, {1});
  ncclComm_t made = nullptr;
  ncclGroupStart();
  ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, all_[0], streams_[0]);
  EXPECT_EQ(ncclCommInitRank(&made, 1, id, 0), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);  // there is none
  ncclGroupStart();
  EXPECT_EQ(ncclCommInitRank(&made, 1, id, 0), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, all_[0], streams_[0]), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  ncclCommDestroy(made);
}

// Nothing reaches a stream before the outermost group ends.
TEST_F(NcclTest, GroupsMayNest) {
  float* const at = Device<float>(0, {1});
  ncclGroupStart();
  ncclGroupStart();
  ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, all_[0], streams_[0]);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaSuccess);
  for (int rank = 1; rank < kRanks; ++rank) {
    float* const other = Device<float>(rank, {1});
    ncclAllReduce(other, other, 1, ncclFloat32, ncclSum, all_[rank], streams_[rank]);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(Read(0, at, 1)[0], kRanks);
}

// ---- Calls ----

// Each rank calls with its own count, type, op and root.
struct Part {
  size_t count = 1;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  bool gathers = false;
};

TEST_F(NcclTest, RanksMustSayTheSameAtAPosition) {
  const std::vector<std::pair<Part, std::string>> other = {
      {{.count = 2}, "calls ncclReduce of 2 f32, sum, root 0, another rank ncclReduce of 1 f32"},
      {{.type = ncclInt32}, "calls ncclReduce of 1 i32"},
      {{.op = ncclMax}, "calls ncclReduce of 1 f32, maximum"},
      {{.root = 1}, "calls ncclReduce of 1 f32, sum, root 1"},
      {{.gathers = true}, "calls ncclAllGather of 1 f32"},
  };
  for (const auto& [part, words] : other) {
    std::vector<ncclComm_t> mine = NewCommunicator(kRanks);
    std::vector<float*> from, to;
    for (int rank = 0; rank < kRanks; ++rank) {
      from.push_back(Device<float>(rank, {1, 2}));
      to.push_back(Device<float>(rank, {0, 0, 0}));
    }
    Grouped([&, part = part](int rank) {
      const Part says = rank == 1 ? part : Part();
      return says.gathers ? ncclAllGather(from[rank], to[rank], says.count, says.type, mine[rank],
                                          streams_[rank])
                          : ncclReduce(from[rank], to[rank], says.count, says.type, says.op,
                                       says.root, mine[rank], streams_[rank]);
    });
    ExpectError(words);
    Synchronize();  // nothing hangs
    ncclResult_t error = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(mine[2], &error), ncclSuccess);
    EXPECT_EQ(error, ncclInvalidUsage);
    for (const ncclComm_t each : mine) ncclCommDestroy(each);
  }
}

TEST_F(NcclTest, PairsMustSayTheSameAmount) {
  float* const from = Device<float>(0, {1, 2});
  float* const to = Device<float>(1, {0, 0});
  ncclGroupStart();
  ncclSend(from, 2, ncclFloat32, 1, all_[0], streams_[0]);
  ncclRecv(to, 1, ncclFloat32, 0, all_[1], streams_[1]);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  ExpectError("0 from rank 0 to 1: rank 1 calls ncclRecv of 1 f32, another rank ncclSend of 2 f32");
  Synchronize();
}

TEST_F(NcclTest, ArgumentsOfCallsAreLookedAt) {
  float* const at = Device<float>(0, {1, 2, 3, 4});
  const auto reduce = [&](const float* send, float* receive, size_t count, ncclDataType_t type,
                          int op, int root, int stream) {
    return ncclReduce(send, receive, count, type, static_cast<ncclRedOp_t>(op), root, all_[0],
                      streams_[stream]);
  };
  EXPECT_EQ(reduce(nullptr, at, 1, ncclFloat32, ncclSum, 0, 0), ncclInvalidArgument);
  EXPECT_EQ(reduce(at, at, 1, ncclFloat16, ncclSum, 0, 0), ncclInvalidArgument);
  EXPECT_EQ(reduce(at, at, 1, ncclFloat32, 5, 0, 0), ncclInvalidArgument);
  EXPECT_EQ(reduce(at, at, 1, ncclFloat32, ncclSum, kRanks, 0), ncclInvalidArgument);
  EXPECT_EQ(reduce(at, at, 1, ncclFloat32, ncclSum, 0, 1), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(all_[0]), HasSubstr("the stream is of device 1"));
  EXPECT_EQ(ncclAllReduce(at, at + 1, 2, ncclFloat32, ncclSum, all_[0], streams_[0]),
            ncclInvalidUsage);
  ExpectError("buffers overlap, and not as in place");
  // In place for rank 0 is the first part.
  EXPECT_EQ(ncclAllGather(at + 1, at, 1, ncclFloat32, all_[0], streams_[0]), ncclInvalidUsage);
  ExpectError("ncclAllGather of 1 f32: buffers overlap");
  EXPECT_EQ(ncclReduceScatter(at, at + 1, 1, ncclFloat32, ncclSum, all_[0], streams_[0]),
            ncclInvalidUsage);
  ExpectError("ncclReduceScatter of 1 f32, sum: buffers overlap");
}

// In place where each rank has its own part.
TEST_F(NcclTest, InPlaceByParts) {
  std::vector<float*> at;
  for (int rank = 0; rank < kRanks; ++rank) {
    at.push_back(Device<float>(rank, {1, 2, static_cast<float>(rank)}));
  }
  Grouped([&](int rank) {
    return ncclReduceScatter(at[rank], at[rank] + rank, 1, ncclFloat32, ncclSum, all_[rank],
                             streams_[rank]);
  });
  Grouped([&](int rank) {
    return ncclAllGather(at[rank] + rank, at[rank], 1, ncclFloat32, all_[rank], streams_[rank]);
  });
  EXPECT_THAT(Read(1, at[1], 3), ElementsAre(3, 6, 3));
}

TEST_F(NcclTest, OneThreadMustGroupItsRanks) {
  std::vector<float*> at;
  for (int rank = 0; rank < kRanks; ++rank) {
    at.push_back(Device<float>(rank, {1}));
    ncclAllReduce(at[rank], at[rank], 1, ncclFloat32, ncclSum, all_[rank], streams_[rank]);
  }
  Synchronize();
  ExpectError("one thread calls for ranks 0 and 1 without a group");
}

// Two communicators of the same devices, in another order on one of them.
TEST_F(NcclTest, DevicesMustAgreeOnTheOrderOfCommunicators) {
  for (const bool agree : {true, false}) {
    std::vector<ncclComm_t> other = NewCommunicator(kRanks);
    std::vector<float*> at;
    for (int rank = 0; rank < kRanks; ++rank) at.push_back(Device<float>(rank, {1}));
    const auto call = [&](ncclComm_t with, int rank) {
      ncclGroupStart();
      ncclAllReduce(at[rank], at[rank], 1, ncclFloat32, ncclSum, with, streams_[rank]);
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    };
    for (int rank = 0; rank < kRanks; ++rank) {
      const bool turned = rank == 1 && !agree;
      call(turned ? other[rank] : all_[rank], rank);
      call(turned ? all_[rank] : other[rank], rank);
    }
    if (agree) {
      Synchronize();
      EXPECT_THAT(TakeErrors(), IsEmpty());
    } else {
      const std::vector<std::string> errors = TakeErrors();
      EXPECT_THAT(errors, Contains(AllOf(HasSubstr("NCCL: device 1 is given"),
                                         HasSubstr("they may wait for each other"))));
      for (ncclComm_t& each : all_) ncclCommAbort(std::exchange(each, nullptr));
      for (const ncclComm_t each : other) ncclCommAbort(each);
      Synchronize();
      continue;
    }
    for (const ncclComm_t each : other) ncclCommDestroy(each);
  }
}

TEST_F(NcclTest, WhatNobodyMeetsIsToldAtTheEnd) {
  std::vector<ncclComm_t> mine = NewCommunicator(2);
  float* const at = Device<float>(0, {1});
  EXPECT_EQ(ncclSend(at, 1, ncclFloat32, 1, mine[0], streams_[0]), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, mine[0], streams_[0]), ncclSuccess);
  for (const ncclComm_t each : mine) ncclCommDestroy(each);
  EXPECT_THAT(TakeErrors(),
              UnorderedElementsAre(HasSubstr("nobody received"), HasSubstr("rank 1 never came")));
  Reset(uint64_t{3});  // drops what waits for ever
  streams_.clear();
}

TEST_F(NcclTest, AnAbortEndsWhatWaits) {
  float* const at = Device<float>(0, {1});
  EXPECT_EQ(ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, all_[0], streams_[0]), ncclSuccess);
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaErrorNotReady);
  EXPECT_EQ(ncclCommAbort(std::exchange(all_[0], nullptr)), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  ncclResult_t error = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(all_[1], &error), ncclSuccess);
  EXPECT_EQ(error, ncclRemoteError);
  for (ncclComm_t& each : all_) {
    if (each != nullptr) ncclCommAbort(std::exchange(each, nullptr));
  }
}

TEST_F(NcclTest, CommunicatorsEnd) {
  float* const at = Device<float>(0, {1});
  EXPECT_EQ(ncclCommFinalize(all_[0]), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, all_[0], streams_[0]), ncclInvalidUsage);
  const ncclComm_t gone = std::exchange(all_[0], nullptr);
  EXPECT_EQ(ncclCommDestroy(gone), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(gone), ncclInvalidArgument);
  EXPECT_EQ(ncclCommAbort(gone), ncclInvalidArgument);
  int number = 0;
  ncclResult_t error = ncclSuccess;
  ncclComm_t part = nullptr;
  EXPECT_EQ(ncclCommGetAsyncError(gone, &error), ncclInvalidArgument);
  EXPECT_EQ(ncclCommCount(gone, &number), ncclInvalidArgument);
  EXPECT_EQ(ncclCommUserRank(gone, &number), ncclInvalidArgument);
  EXPECT_EQ(ncclCommCuDevice(gone, &number), ncclInvalidArgument);
  EXPECT_EQ(ncclCommSplit(gone, 0, 0, &part, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, gone, streams_[0]), ncclInvalidArgument);
}

// ---- Buffers ----

TEST_F(NcclTest, BuffersAreInUseUntilTheEnd) {
  std::vector<float*> at, to;
  for (int rank = 0; rank < kRanks; ++rank) {
    at.push_back(Device<float>(rank, {1}));
    to.push_back(Device<float>(rank, {1}));
  }
  cudaSetDevice(1);
  cudaStream_t beside = nullptr;
  cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking);
  for (float* const reused : {at[1], to[1]}) {
    Grouped([&](int rank) {
      return ncclAllReduce(at[rank], to[rank], 1, ncclFloat32, ncclSum, all_[rank], streams_[rank]);
    });
    cudaSetDevice(1);
    cudaMemsetAsync(reused, 0, 4, beside);  // not ordered after the collective
    Synchronize();
    cudaSetDevice(1);
    cudaStreamSynchronize(beside);
    ExpectError("ncclAllReduce of 1 f32, sum");
  }
}

TEST_F(NcclTest, BuffersMustBeInitialized) {
  std::vector<float*> at;
  for (int rank = 0; rank < kRanks; ++rank) {
    cudaSetDevice(rank);
    void* made = nullptr;
    cudaMalloc(&made, 4);
    at.push_back(static_cast<float*>(made));
  }
  Grouped([&](int rank) {
    return ncclAllReduce(at[rank], at[rank], 1, ncclFloat32, ncclSum, all_[rank], streams_[rank]);
  });
  Synchronize();
  ExpectError("ncclAllReduce of 1 f32, sum");
}

// A collective in which all get something of all is a point in time, too: what stands before it on
// one device is over when what follows it on another begins. A broadcast is none.
TEST_F(NcclTest, WhatIsBeforeOneMemberIsBeforeWhatFollowsEach) {
  for (const bool of_all : {true, false}) {
    std::vector<int*> at;
    for (int rank = 0; rank < kRanks; ++rank) at.push_back(Device<int>(rank, {1, 2, 3}));
    int* const seen = Device<int>(0, {0});
    int* const made = Device<int>(1, {0});
    cudaSetDevice(1);
    EXPECT_EQ(cudaMemsetAsync(made, 0, sizeof *made, streams_[1]), cudaSuccess);
    Grouped([&](int rank) {
      if (of_all) {
        return ncclAllReduce(at[rank], at[rank], 3, ncclInt32, ncclSum, all_[rank], streams_[rank]);
      }
      return ncclBroadcast(at[rank], at[rank], 3, ncclInt32, 0, all_[rank], streams_[rank]);
    });
    cudaSetDevice(0);
    EXPECT_EQ(cudaMemcpyAsync(seen, made, sizeof *made, cudaMemcpyDefault, streams_[0]),
              cudaSuccess);
    Synchronize();
    if (of_all) {
      EXPECT_THAT(TakeErrors(), IsEmpty());
    } else {
      EXPECT_THAT(TakeErrors(), Contains(HasSubstr("without order after a write")));
    }
  }
}

}  // namespace
}  // namespace sluice::cuda_emulation
