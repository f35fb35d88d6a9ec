// What a stream has captured, it gives again in another step: random ops draw that step's numbers,
// and what a kernel finds wrong is told of that step. What fails late is named, replayed or not.
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/device/device.h"
#include "framework/kernels/cuda/support.h"
#include "framework/testing/cuda_emulation/emulation.h"
#include "framework/testing/cuda_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kElements = 256, kBytes = kElements * 4;

class ReplayTest : public testing::Test {
 protected:
  void SetUp() override {
    BeginCudaOrder(/*seed=*/1, /*checks=*/true);
    auto devices = CudaSupport().open({{DeviceKind::kCuda, 3 * kBytes, "0:0"}});
    ASSERT_EQ(devices.status(), absl::OkStatus());
    device_ = std::move((*devices)[0]);
    stream_ = device_->OpenStream(nullptr);
    std::vector<float> ones(kElements, 1.0f);
    device_->CopyIn(0, {reinterpret_cast<const std::byte*>(ones.data()), kBytes});
  }
  void TearDown() override { EXPECT_THAT(TakeCudaErrors(), IsEmpty()); }

  std::unique_ptr<Kernel> Prepare(const std::string& op, const std::string& attributes,
                                  std::vector<Shard> inputs, Shard output,
                                  const std::string& scope = "") {
    KernelSpec spec;
    spec.op = op;
    spec.attributes = attributes;
    spec.device = DeviceKind::kCuda;
    spec.inputs = std::move(inputs);
    spec.outputs = {output};
    spec.updates.resize(spec.inputs.size());
    auto kernel = CudaSupport().prepare(spec, stream_);
    EXPECT_EQ(kernel.status(), absl::OkStatus());
    EXPECT_EQ((*kernel)->scratch(), 0);
    return CudaSupport().place(*std::move(kernel), spec,
                               {"program p", absl::StrCat("device 0", scope)}, stream_);
  }
  absl::Status Launch(Kernel* kernel, int64_t step, std::vector<std::byte*> operands) {
    KernelContext context;
    context.step = step;
    context.stream = stream_;
    return kernel->Launch(context, operands.data(), nullptr);
  }
  void WaitUntilDone() {
    const Fence fence = stream_->Record();
    while (!device_->Done(fence)) {
    }
  }
  std::vector<float> Read(int64_t offset) {
    WaitUntilDone();
    std::vector<float> values(kElements);
    device_->CopyOut(offset, {reinterpret_cast<std::byte*>(values.data()), kBytes});
    return values;
  }

  std::unique_ptr<Device> device_;
  Stream* stream_ = nullptr;
};

TEST_F(ReplayTest, DrawsTheNumbersOfItsStep) {
  const Shard row = Shard::Whole(DType::kF32, {kElements});
  const auto dropout = Prepare("dropout", "rate=0.5 key=7", {row}, row);
  std::byte* const memory = device_->memory();
  std::vector<std::vector<float>> plain, replayed;
  for (const int64_t step : {3, 4}) {
    ASSERT_EQ(Launch(dropout.get(), step, {memory, memory + kBytes}), absl::OkStatus());
    plain.push_back(Read(kBytes));
  }
  ASSERT_NE(plain[0], plain[1]);
  const auto capture = stream_->Capture([&] {
    return Launch(dropout.get(), /*step=*/4, {memory, memory + kBytes});
  });
  ASSERT_EQ(capture.status(), absl::OkStatus());
  for (const int64_t step : {3, 4}) {
    stream_->Replay(*capture, step);
    replayed.push_back(Read(kBytes));
  }
  EXPECT_EQ(replayed, plain);
}

TEST_F(ReplayTest, ErrorsAreOfItsStep) {
  const std::vector<int32_t> ids = {0, 9, 1, 0};
  std::byte* const memory = device_->memory();
  device_->CopyIn(kBytes, {reinterpret_cast<const std::byte*>(ids.data()), 16});
  const auto lookup =
      Prepare("embedding", "", {Shard::Whole(DType::kF32, {4, 8}), Shard::Whole(DType::kI32, {4})},
              Shard::Whole(DType::kF32, {4, 8}));
  std::byte *const zeros = memory + 2 * kBytes, *const rows = zeros + 512;
  ASSERT_EQ(Launch(lookup.get(), 0, {memory, zeros, rows}), absl::OkStatus());
  WaitUntilDone();
  const auto capture = stream_->Capture([&] {
    return Launch(lookup.get(), 0, {memory, memory + kBytes, rows});
  });
  ASSERT_EQ(capture.status(), absl::OkStatus());
  stream_->Replay(*capture, 12);
  WaitUntilDone();
  EXPECT_THAT(std::string(device_->status().message()),
              HasSubstr("program p, step 12, device 0: embedding: expected ids in [0, 4), got 9"));
}

// The second of three kernels writes behind the device's memory. A card says only that something
// has failed; named is what had not been done, and no more than that.
class LateErrorTest : public ReplayTest {
 protected:
  void PrepareAll() {
    const Shard row = Shard::Whole(DType::kF32, {kElements});
    for (const char* scope :
         {", done (gelu)", ", first (gelu)", ", wrong (gelu)", ", last (gelu)"}) {
      kernels_.push_back(Prepare("gelu", "", {row}, row, scope));
    }
    std::byte* const memory = device_->memory();
    ASSERT_EQ(Launch(kernels_[0].get(), 1, {memory, memory + kBytes}), absl::OkStatus());
    WaitUntilDone();
    ASSERT_EQ(device_->status(), absl::OkStatus());
  }
  absl::Status LaunchThree() {
    std::byte* const memory = device_->memory();
    absl::Status status = Launch(kernels_[1].get(), 2, {memory, memory + kBytes});
    status.Update(Launch(kernels_[2].get(), 2, {memory, memory + (int64_t{1} << 40)}));
    status.Update(Launch(kernels_[3].get(), 2, {memory, memory + 2 * kBytes}));
    return status;
  }
  void ExpectNamed(const absl::Status& status) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorIllegalAddress"));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("under way on its card: device 0, first (gelu); device 0, wrong (gelu); "
                          "device 0, last (gelu)"));
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("done (gelu)")));
    EXPECT_FALSE(TakeCudaErrors().empty()) << "the emulation's own words";
  }

  std::vector<std::unique_ptr<Kernel>> kernels_;
};

TEST_F(LateErrorTest, WhatWasUnderWayIsNamed) {
  PrepareAll();
  ASSERT_EQ(LaunchThree(), absl::OkStatus());
  WaitUntilDone();
  ExpectNamed(device_->status());
}

TEST_F(LateErrorTest, WhatWasUnderWayInAGraphIsNamed) {
  PrepareAll();
  const auto capture = stream_->Capture([&] { return LaunchThree(); });
  ASSERT_EQ(capture.status(), absl::OkStatus());
  stream_->Replay(*capture, 2);
  WaitUntilDone();
  ExpectNamed(device_->status());
}

TEST_F(ReplayTest, AnErrorWhileCapturingIsTold) {
  const auto capture = stream_->Capture([] { return absl::InternalError("no such kernel"); });
  EXPECT_EQ(capture.status(), absl::InternalError("no such kernel"));
  const Shard row = Shard::Whole(DType::kF32, {kElements});
  const auto dropout = Prepare("dropout", "rate=0.5 key=7", {row}, row);
  std::byte* const memory = device_->memory();
  EXPECT_EQ(Launch(dropout.get(), 1, {memory, memory + kBytes}), absl::OkStatus())
      << "the capture has ended";
  WaitUntilDone();
}

// Of ten cards each has eight peers at most; what it copies from the ninth goes through the host.
TEST(OpenCudaDevicesTest, ACardMayHaveMorePeersThanItCanTouch) {
  cuda_emulation::Options options;
  options.devices = 10;
  cuda_emulation::Reset(options);
  std::vector<DeviceSpec> specs(10);
  for (int card = 0; card < 10; ++card) {
    specs[card].kind = DeviceKind::kCuda;
    specs[card].bytes = kBytes;
    specs[card].card = card;
  }
  const auto devices = CudaSupport().open(specs);
  ASSERT_EQ(devices.status(), absl::OkStatus());
  EXPECT_EQ(devices->size(), 10u);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace sluice
