// Host memory that goes from a device to another by no order but a collective's.
#include <cuda_runtime.h>
#include <nccl.h>

#include <future>
#include <thread>

#include "framework/testing/cuda_emulation/emulation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::cuda_emulation {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kRanks = 2;

// Of the rank that takes the memory over: it does so behind the collective, or before.
enum class Taken { kBehind, kBefore };

class NcclHostMemoryTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  // The host calls for all that rank 0 does, a sum and a copy into the memory, before it fills the
  // memory for rank 1, which copies it and sums then. Returns what rank 1 copied.
  int HandOver(Taken taken) {
    Reset(GetParam());
    int *pinned = nullptr, *sums[kRanks] = {}, *copied = nullptr;
    EXPECT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(int)), cudaSuccess);
    for (int rank = 0; rank < kRanks; ++rank) {
      cudaSetDevice(rank);
      EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&sums[rank]), sizeof(int)), cudaSuccess);
      EXPECT_EQ(cudaMemset(sums[rank], 0, sizeof(int)), cudaSuccess);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&copied), sizeof(int)), cudaSuccess);
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::promise<void> called;
    const auto rank = [&](int rank, auto work) {
      cudaSetDevice(rank);
      cudaStream_t stream = nullptr;
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
      ncclComm_t mine = nullptr;
      EXPECT_EQ(ncclCommInitRank(&mine, kRanks, id, rank), ncclSuccess);
      const auto sum = [&, rank] {
        EXPECT_EQ(ncclAllReduce(sums[rank], sums[rank], 1, ncclInt32, ncclSum, mine, stream),
                  ncclSuccess);
      };
      work(stream, sum);
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(ncclCommDestroy(mine), ncclSuccess);
    };
    std::thread first(rank, 0, [&](cudaStream_t stream, auto sum) {
      if (taken == Taken::kBehind) sum();
      EXPECT_EQ(cudaMemcpyAsync(pinned, sums[0], sizeof(int), cudaMemcpyDeviceToHost, stream),
                cudaSuccess);
      if (taken == Taken::kBefore) sum();
      called.set_value();
    });
    std::thread second(rank, 1, [&](cudaStream_t stream, auto sum) {
      called.get_future().wait();
      *pinned = 7;
      EXPECT_EQ(cudaMemcpyAsync(copied, pinned, sizeof(int), cudaMemcpyHostToDevice, stream),
                cudaSuccess);
      sum();
    });
    first.join();
    second.join();
    int seen = 0;
    EXPECT_EQ(cudaMemcpy(&seen, copied, sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
    return seen;
  }
};

TEST_P(NcclHostMemoryTest, IsTheOthersOnceAllHaveMet) {
  EXPECT_EQ(HandOver(Taken::kBehind), 7);
  EXPECT_THAT(TakeErrors(), IsEmpty());
}

TEST_P(NcclHostMemoryTest, IsNotBefore) {
  HandOver(Taken::kBefore);
  EXPECT_THAT(TakeErrors(), Contains(HasSubstr("host memory")));
}

INSTANTIATE_TEST_SUITE_P(Seeds, NcclHostMemoryTest, testing::Range<uint64_t>(1, 6));

}  // namespace
}  // namespace sluice::cuda_emulation
