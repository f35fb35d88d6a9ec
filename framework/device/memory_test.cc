#include "framework/device/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kBytes = (3 << 20) + 17;

TEST(MemoryTest, IsZeroAlignedAndWritable) {
  auto memory = Memory::Allocate(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->bytes(), kBytes);
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

TEST(MemoryTest, WhatIsSharedIsReadByAnotherProcess) {
  auto memory = Memory::AllocateShared(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->bytes(), kBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % (2 << 20), 0u);
  for (int64_t i = 0; i < kBytes; ++i) ASSERT_EQ(memory->data()[i], std::byte{0});
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto mapped = PeerMemory::Map(memory->mark());
    char word = 0;
    // What is written after it was mapped is seen, too.
    const bool is_told = read(told[0], &word, 1) == 1;
    const bool is_right = mapped.ok() && mapped->bytes().size() == kBytes &&
                          mapped->bytes()[0] == std::byte{0} &&
                          mapped->bytes()[kBytes - 1] == std::byte{7};
    _exit(is_told && is_right ? 0 : 1);
  }
  usleep(100000);
  memory->data()[kBytes - 1] = std::byte{7};
  ASSERT_EQ(write(told[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(told[0]);
  close(told[1]);
}

TEST(MemoryTest, WhatIsMappedStaysWhenItsOwnerIsGone) {
  auto memory = Memory::AllocateShared(kBytes);
  ASSERT_TRUE(memory.ok());
  memory->data()[5] = std::byte{9};
  const MemoryMark mark = memory->mark();
  const auto mapped = PeerMemory::Map(mark);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(ftruncate(mark.file, 0), -1);  // or the reader would be killed
  *memory = Memory();
  EXPECT_EQ(mapped->bytes()[5], std::byte{9});
  EXPECT_FALSE(PeerMemory::Map(mark).ok());
}

TEST(MemoryTest, AMarkThatDoesNotStandThereIsRefused) {
  const auto memory = Memory::AllocateShared(100);
  ASSERT_TRUE(memory.ok());
  const auto why = [](const MemoryMark& mark) {
    const auto mapped = PeerMemory::Map(mark);
    EXPECT_TRUE(absl::IsUnavailable(mapped.status())) << mapped.status();
    return std::string(mapped.status().message());
  };
  MemoryMark mark = memory->mark();
  mark.mark[3] ^= std::byte{1};
  EXPECT_NE(why(mark).find("has not the mark"), std::string::npos);
  mark = memory->mark();
  mark.bytes = int64_t{1} << 40;
  EXPECT_NE(why(mark).find("expected at least 1099511627776 bytes"), std::string::npos);
  mark = memory->mark();
  mark.file = 100000;
  EXPECT_NE(why(mark).find("No such file"), std::string::npos);
  mark.file = 0;  // whatever that is
  EXPECT_NE(why(mark).find("no memory that is shared"), std::string::npos);
  // One that anybody could cut short while it is read.
  mark.file = memfd_create("open", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(mark.file, 1 << 20), 0);
  EXPECT_NE(why(mark).find("no memory that is shared"), std::string::npos);
  close(mark.file);
}

TEST(MemoryTest, AFileThatMayNotBeSoLargeIsRefused) {
  signal(SIGXFSZ, SIG_IGN);  // as every program of ours does
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto memory = Memory::AllocateShared(kBytes);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(memory.status().message().find("cannot give a file 4194304 bytes"), std::string::npos);
}

TEST(MemoryTest, MemoryThatIsNotSharedHasNoFile) {
  const auto memory = Memory::Allocate(100);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->mark().file, -1);
  EXPECT_FALSE(PeerMemory::Map(memory->mark()).ok());
}

}  // namespace
}  // namespace sluice
