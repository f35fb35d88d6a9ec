#include "framework/device/memory.h"

#include <cstring>
#include <utility>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(MemoryTest, IsZeroAlignedAndWritable) {
  auto memory = Memory::Allocate((3 << 20) + 17);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->bytes(), (3 << 20) + 17);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % (2 << 20), 0u);
  for (int64_t i = 0; i < memory->bytes(); i += 1001) {
    ASSERT_EQ(memory->data()[i], std::byte{0});
  }
  std::memset(memory->data(), 7, memory->bytes());
  EXPECT_EQ(memory->data()[memory->bytes() - 1], std::byte{7});
}

TEST(MemoryTest, MovesItsBytes) {
  auto memory = Memory::Allocate(100);
  ASSERT_TRUE(memory.ok());
  std::byte* data = memory->data();
  Memory other = *std::move(memory);
  EXPECT_EQ(other.data(), data);
  Memory third;
  third = std::move(other);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.bytes(), 100);
}

TEST(MemoryTest, NothingIsNoMapping) {
  auto memory = Memory::Allocate(0);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->bytes(), 0);
}

TEST(MemoryTest, RefusesWhatNoMachineHas) {
  const auto memory = Memory::Allocate(int64_t{1} << 60);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(memory.status().message().find("1152921504606846976"), absl::string_view::npos);
}

}  // namespace
}  // namespace sluice
