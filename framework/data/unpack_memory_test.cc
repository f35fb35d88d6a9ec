// A packed file of more than the memory that a process may have.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "framework/base/log.h"
#include "framework/data/pack_testing.h"
#include "framework/data/packed.h"
#include "framework/testing/memory_limit.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kText = 96 * kMiB, kMemory = 40 * kMiB;

// Unpacks all of it, and ends the process, also where there is no memory.
[[noreturn]] void UnpackWithin(int64_t memory, const std::string& path,
                               const SpoolOptions& options) noexcept {
  LimitMemory(memory);
  const absl::StatusOr<RandomAccessFile> file = OpenUnpacked(path, options);
  SLUICE_CHECK_OK(file.status());
  SLUICE_CHECK_EQ(file->size(), kText);
  char last = ' ';
  SLUICE_CHECK_OK(file->ReadAt(kText - 1, 1, &last));
  SLUICE_CHECK_EQ(last, 'z');
  _exit(0);
}

TEST(UnpackMemoryTest, WhatIsLargerThanMemoryIsUnpacked) {
  const std::string folder = ::testing::TempDir() + "/large";
  std::filesystem::create_directories(folder);
  {
    std::string text(kText, 'a');
    text.back() = 'z';
    std::ofstream(folder + "/a.gz", std::ios::binary) << Gzipped(text);
    std::ofstream(folder + "/a.zst", std::ios::binary) << Zstandard(text);
  }
  for (const char* name : {"/a.gz", "/a.zst"}) {
    // All in memory it is too much for the process, which then has none to tell of it.
    EXPECT_EXIT(UnpackWithin(kMemory, folder + name, {.most_in_memory = 1024 * kMiB}),
                ::testing::KilledBySignal(SIGABRT), "bad_alloc");
    EXPECT_EXIT(UnpackWithin(kMemory, folder + name, {.folder = folder}),
                ::testing::ExitedWithCode(0), "");
  }
}

}  // namespace
}  // namespace sluice
