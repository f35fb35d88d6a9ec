// A log that is larger than the memory a process may have.
#include <unistd.h>
#include <zlib.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/hash.h"
#include "framework/testing/memory_limit.h"
#include "gtest/gtest.h"
#include "models/wide_and_deep/click_data.h"

namespace sluice {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kLines = 300000;  // of 247 bytes on average: 70 MiB, of which samples take 76
constexpr int64_t kMemory = 40 * kMiB;

std::string LineOf(int i) {
  const auto drawn = [i](int field) { return StableHash(absl::StrCat(i, " ", field)); };
  std::string line = absl::StrCat(drawn(0) % 4 == 0 ? 1 : 0);
  for (int c = 1; c <= 13; ++c) absl::StrAppend(&line, "\t", drawn(c) >> (64 - c));
  for (int c = 0; c < 26; ++c) absl::StrAppendFormat(&line, "\t%08x", drawn(20 + c % 5) % (1 << c));
  return line + "\n";
}

// Both digests, which say that all samples were read, or the error. Ends the process,
// also where there is no memory.
[[noreturn]] void OpenWithin(int64_t memory, const std::string& path, const SpoolOptions& spool,
                             const std::string& result) noexcept {
  LimitMemory(memory);
  ClickDataOptions options;
  options.spool = spool;
  const absl::StatusOr<AppData> data = OpenClickData(path, options, LogTables(2600));
  std::ofstream(result) << (data.ok() ? absl::StrCat(data->training->identity().digest, " ",
                                                     data->held_out->identity().digest)
                                      : data.status().ToString());
  _exit(0);
}

TEST(ClickDataMemoryTest, ALogLargerThanMemoryIsTheSameData) {
  const std::string folder = ::testing::TempDir() + "/large";
  std::filesystem::create_directories(folder);
  const std::string text = folder + "/train.txt", packed = text + ".gz";
  {
    std::ofstream plain(text, std::ios::binary);
    const gzFile gz = gzopen(packed.c_str(), "wb1");
    for (int i = 0; i < kLines; ++i) {
      const std::string line = LineOf(i);
      plain << line;
      gzwrite(gz, line.data(), static_cast<unsigned>(line.size()));
    }
    gzclose(gz);
  }
  ASSERT_GT(std::filesystem::file_size(text), 1.5 * kMemory);
  const SpoolOptions in_file = {.folder = folder};
  const SpoolOptions in_memory = {.most_in_memory = 1024 * kMiB};
  // All in memory it is too much for the process, which then has none to tell of it.
  EXPECT_EXIT(OpenWithin(kMemory, text, in_memory, folder + "/no"),
              ::testing::KilledBySignal(SIGABRT), "bad_alloc");
  EXPECT_EXIT(OpenWithin(1024 * kMiB, text, in_memory, folder + "/1"), ::testing::ExitedWithCode(0),
              "");
  EXPECT_EXIT(OpenWithin(kMemory, text, in_file, folder + "/2"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(OpenWithin(kMemory, packed, in_file, folder + "/3"), ::testing::ExitedWithCode(0),
              "");
  const auto result = [&](const char* name) {
    std::string line;
    std::getline(std::ifstream(folder + "/" + name), line);
    return line;
  };
  EXPECT_GT(result("1").size(), 20u) << result("1");
  EXPECT_EQ(result("2"), result("1"));
  EXPECT_EQ(result("3"), result("1"));
}

}  // namespace
}  // namespace sluice
