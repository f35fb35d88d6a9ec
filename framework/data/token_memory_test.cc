// Tokens of more than the memory that a process may have.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "framework/base/log.h"
#include "framework/data/text_dataset.h"
#include "framework/data/token_file.h"
#include "framework/testing/memory_limit.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kBytes = 128 * kMiB, kMemory = 40 * kMiB;
constexpr int64_t kLength = 64;

// Opens all of a file, looks at its last sample, and ends the process.
[[noreturn]] void LearnWithin(int64_t memory, const std::string& path, bool copy) noexcept {
  LimitMemory(memory);
  if (copy) {
    SLUICE_CHECK_OK(ReadTokenFile(path).status());
    _exit(0);
  }
  auto tokens = TokenSequence::Open({path}, {1000, "some"});
  SLUICE_CHECK_OK(tokens.status());
  SLUICE_CHECK_OK(tokens->Identify());
  const auto data = TokenFileDataset::Create("tokens", *std::move(tokens), kLength);
  SLUICE_CHECK_OK(data.status());
  std::vector<int32_t> values(kLength);
  const int64_t last = data->num_samples() - 1;
  SLUICE_CHECK_OK(
      data->Fill(1, {last}, 0, Box{{0, kLength}}, reinterpret_cast<std::byte*>(values.data())));
  SLUICE_CHECK_EQ(values.back(), 999);
  _exit(0);
}

TEST(TokenMemoryTest, TokensAreLearnedWhereTheyAre) {
  const std::string path = ::testing::TempDir() + "/large.bin";
  std::ofstream(path, std::ios::binary).close();
  std::filesystem::resize_file(path, kBytes - 2);  // a hole
  std::ofstream(path, std::ios::binary | std::ios::app) << "\xe7\x03";
  EXPECT_EXIT(LearnWithin(kMemory, path, /*copy=*/false), ::testing::ExitedWithCode(0), "");
  // A copy is too much for the process, which then has no memory to tell of it.
  EXPECT_EXIT(LearnWithin(kMemory, path, /*copy=*/true), ::testing::KilledBySignal(SIGABRT),
              "bad_alloc");
}

}  // namespace
}  // namespace sluice
