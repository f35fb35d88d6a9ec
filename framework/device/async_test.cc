#include "framework/device/async.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using Devices = std::vector<std::unique_ptr<Device>>;

Devices Open(uint64_t seed, AsyncFault fault = AsyncFault::kNone) {
  const std::vector<DeviceSpec> specs(2, {DeviceKind::kAsync, 4096, "0:async"});
  auto devices = OpenDevices(specs, {seed, fault});
  EXPECT_TRUE(devices.ok()) << devices.status();
  return *std::move(devices);
}

AsyncStream* StreamOf(Device* device) {
  return static_cast<AsyncStream*>(device->OpenStream(nullptr));
}

// Appends the context, an int, to the list that is the state.
absl::Status Note(void* state, const void* context, std::byte* const*) {
  static_cast<std::vector<int>*>(state)->push_back(*static_cast<const int*>(context));
  return absl::OkStatus();
}

absl::Status CopyByte(void*, const void*, std::byte* const* operands) {
  *operands[1] = *operands[0];
  return absl::OkStatus();
}

void Finish(const Devices& devices, AsyncStream* stream) {
  const Fence fence = stream->Record();
  while (!devices[1]->Done(fence)) {
  }
}

TEST(AsyncTest, AStreamRunsLateAndInOrder) {
  Devices devices = Open(1);
  AsyncStream* stream = StreamOf(devices[0].get());
  std::vector<int> notes;
  EXPECT_EQ(stream->Record(), 0u);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream->Launch(&Note, &notes, i, {}, false).ok());
  EXPECT_TRUE(notes.empty());
  EXPECT_NE(stream->Record(), 0u);
  Finish(devices, stream);
  EXPECT_EQ(notes, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(stream->Record(), 0u);
}

TEST(AsyncTest, StreamsRunInManyOrdersUnlessTheyWait) {
  std::set<std::vector<int>> free, ordered;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    for (const bool wait : {false, true}) {
      Devices devices = Open(seed);
      AsyncStream *a = StreamOf(devices[0].get()), *b = StreamOf(devices[1].get());
      std::vector<int> notes;
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(a->Launch(&Note, &notes, i, {}, false).ok());
      if (wait) b->Wait(a->Record());
      for (int i = 20; i < 40; ++i) ASSERT_TRUE(b->Launch(&Note, &notes, i, {}, false).ok());
      Finish(devices, a);
      Finish(devices, b);
      ASSERT_EQ(notes.size(), 40u);
      (wait ? ordered : free).insert(notes);
    }
  }
  ASSERT_EQ(ordered.size(), 1u);
  EXPECT_TRUE(std::is_sorted(ordered.begin()->begin(), ordered.begin()->end()));
  EXPECT_GT(free.size(), 10u);
}

TEST(AsyncTest, AFullQueueDoesWhatItHolds) {
  Devices devices = Open(1);
  AsyncStream *a = StreamOf(devices[0].get()), *b = StreamOf(devices[1].get());
  std::vector<int> notes;
  for (int i = 0; i < 2000; ++i) {
    b->Wait(a->Record());
    ASSERT_TRUE(a->Launch(&Note, &notes, i, {}, false).ok());
    a->Wait(b->Record());
    ASSERT_TRUE(b->Launch(&Note, &notes, i, {}, false).ok());
  }
  Finish(devices, a);
  Finish(devices, b);
  EXPECT_EQ(notes.size(), 4000u);
}

TEST(AsyncTest, OnlyItsOwnStreamsReachItsMemory) {
  Devices devices = Open(1);
  AsyncStream* stream = StreamOf(devices[0].get());
  std::byte *mine = devices[0]->memory(), *other = devices[1]->memory();
  const std::byte seven{7};
  devices[0]->CopyIn(5, {&seven, 1});
  std::byte* const within[] = {mine + 5, mine + 9};
  ASSERT_TRUE(stream->Launch(&CopyByte, nullptr, 0, within, false).ok());
  std::byte* const across[] = {mine + 9, other + 3};
  EXPECT_EQ(stream->Launch(&CopyByte, nullptr, 0, across, false).message(),
            "operand 1 lies outside of the device's memory");
  ASSERT_TRUE(stream->Launch(&CopyByte, nullptr, 0, across, true).ok());
  std::byte host{0};
  std::byte* const out[] = {other + 3, &host};
  ASSERT_TRUE(stream->Launch(&CopyByte, nullptr, 0, out, true).ok());
  Finish(devices, stream);
  EXPECT_EQ(host, seven);
  std::byte copied{0};
  devices[1]->CopyOut(3, absl::MakeSpan(&copied, 1));
  EXPECT_EQ(copied, seven);
  EXPECT_DEATH(host = *static_cast<volatile std::byte*>(mine + 5), "");
}

TEST(AsyncTest, TheFirstErrorIsKept) {
  Devices devices = Open(1);
  AsyncStream* stream = StreamOf(devices[0].get());
  const auto fail = [](void*, const void* context, std::byte* const*) {
    return absl::InternalError(
        std::string(1, static_cast<char>(*static_cast<const int*>(context))));
  };
  for (const int letter : {'a', 'b'}) {
    ASSERT_TRUE(stream->Launch(+fail, nullptr, letter, {}, false).ok());
  }
  EXPECT_TRUE(devices[0]->status().ok());
  Finish(devices, stream);
  EXPECT_EQ(devices[0]->status().message(), "a");
}

TEST(AsyncTest, KindsThatAreNotBuiltInAreNamed) {
  const DeviceSpec cuda = {DeviceKind::kCuda, 64, "0:cuda1"};
  const absl::Status status = OpenDevices({&cuda, 1}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("device 0:cuda1"));
}

}  // namespace
}  // namespace sluice
