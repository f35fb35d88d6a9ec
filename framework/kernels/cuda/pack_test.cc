// Packs hold the elements that lie at their address, and the emulation looks at all sixteen bytes:
// where they begin, whether they are there, whether somebody wrote them, and who else touches them.
#include "framework/kernels/cuda/pack.h"

#include <cuda_runtime.h>

#include <numeric>
#include <vector>

#include "framework/testing/cuda_emulation/test_kernels.h"

namespace sluice::cuda {
namespace {

using cuda_emulation::Launch;
using cuda_emulation::TakeErrors;
using testing::AllOf;
using testing::HasSubstr;

// A thread a pack.
template <typename T>
__global__ void CopyPacks(const T* from, T* to) {
  ComputeType<T> x[kPack<T>];
  Load(from + kPack<T> * threadIdx.x, x);
  Store(x, to + kPack<T> * threadIdx.x);
}
// Elements of which some are of a pack that another thread writes.
__global__ void PackAndElements(float* p) {
  if (threadIdx.x == 0) {
    const float x[4] = {1, 2, 3, 4};
    Store(x, p);
  } else {
    p[4 + threadIdx.x] = p[threadIdx.x];
  }
}

class PackTest : public cuda_emulation::EmulationTest {
 protected:
  template <typename T>
  cudaError_t Copy(const T* from, T* to, unsigned packs = 1) {
    EXPECT_EQ(Launch(CopyPacks<T>, {1, packs}, first_, from, to), cudaSuccess);
    return Finish();
  }
  // 64 words, whose elements are all bits that numbers have.
  template <typename T>
  void ExpectCopied() {
    std::vector<T> numbers(kBytes / sizeof(T));
    std::iota(numbers.begin(), numbers.end(), static_cast<T>(250));
    std::memcpy(pinned_, numbers.data(), kBytes);
    ASSERT_EQ(cudaMemcpyAsync(zeros_, pinned_, kBytes, cudaMemcpyHostToDevice, first_),
              cudaSuccess);
    ASSERT_EQ(
        Copy(reinterpret_cast<const T*>(zeros_), reinterpret_cast<T*>(fresh_), kBytes / kPackBytes),
        cudaSuccess);
    EXPECT_EQ(std::memcmp(fresh_, numbers.data(), kBytes), 0) << sizeof(T);
  }
};

TEST_F(PackTest, HoldsTheElementsAtItsAddress) {
  ExpectCopied<uint16_t>();
  ExpectCopied<float>();
  ExpectCopied<int32_t>();
  ExpectCopied<double>();
}

TEST_F(PackTest, AlignedIsWhatBeginsAtSixteenBytes) {
  EXPECT_TRUE(PackAligned(zeros_, zeros_ + 4));
  EXPECT_FALSE(PackAligned(zeros_, zeros_ + 2));
}

TEST_F(PackTest, MisalignedLoad) {
  EXPECT_EQ(Copy<float>(zeros_ + 2, fresh_), cudaErrorMisalignedAddress);
  EXPECT_THAT(TakeError(),
              AllOf(HasSubstr("CopyPacks"), HasSubstr("touches a misaligned address")));
}

TEST_F(PackTest, MisalignedStore) {
  auto* const halves = reinterpret_cast<uint16_t*>(zeros_);
  EXPECT_EQ(Copy<uint16_t>(halves, halves + 36), cudaErrorMisalignedAddress);
  EXPECT_THAT(TakeError(),
              AllOf(HasSubstr("CopyPacks"), HasSubstr("touches a misaligned address")));
}

TEST_F(PackTest, ReachesBeyondTheEnd) {
  float* const shorter = NewFloats(kFloats - 2);
  EXPECT_EQ(Copy<float>(zeros_, shorter + kFloats - 4), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeError(), HasSubstr("writes outside of an allocation"));
}

TEST_F(PackTest, HasElementsThatNobodyWrote) {
  ASSERT_EQ(cudaMemsetAsync(fresh_, 0, 12, first_), cudaSuccess);
  EXPECT_EQ(Copy<float>(fresh_, zeros_), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("reads uninitialized device memory"));
}

TEST_F(PackTest, IsWrittenWhileAnotherThreadReadsAnElement) {
  ASSERT_EQ(Launch(PackAndElements, {1, 4}, first_, zeros_), cudaSuccess);
  EXPECT_EQ(Finish(), cudaSuccess);
  EXPECT_THAT(TakeError(), HasSubstr("PackAndElements"));
}

}  // namespace
}  // namespace sluice::cuda
