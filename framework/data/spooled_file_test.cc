#include "framework/data/spooled_file.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SpooledFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/spool";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string folder_;
};

TEST_F(SpooledFileTest, GivesWhatWasWrittenWhereverItIsKept) {
  std::string all;
  for (int i = 0; i < 700000; ++i) absl::StrAppend(&all, i % 7919, ",");
  for (const int64_t most : {int64_t{0}, int64_t{100}, int64_t{2000000}, int64_t{1} << 30}) {
    SpooledFile spooled("log", {.most_in_memory = most, .folder = folder_});
    spooled.Reserve(1500000);  // less than comes
    for (size_t at = 0; at < all.size(); at += 333333) {
      ASSERT_EQ(spooled.Append(absl::string_view(all).substr(at, 333333)), absl::OkStatus());
    }
    EXPECT_EQ(spooled.size(), static_cast<int64_t>(all.size()));
    const absl::StatusOr<RandomAccessFile> file = std::move(spooled).Finish();
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->path(), "log");
    ASSERT_EQ(file->size(), static_cast<int64_t>(all.size()));
    std::string read(all.size(), ' ');
    ASSERT_EQ(file->ReadAt(0, file->size(), read.data()), absl::OkStatus());
    EXPECT_TRUE(read == all) << most;
    ASSERT_EQ(file->ReadAt(1234567, 7, read.data()), absl::OkStatus());
    EXPECT_EQ(read.substr(0, 7), all.substr(1234567, 7));
    EXPECT_TRUE(std::filesystem::is_empty(folder_));  // it has no name
  }
}

TEST_F(SpooledFileTest, ADiskWithoutRoomIsAnError) {
  SpooledFile full(
      "log",
      {.most_in_memory = 10, .folder = folder_, .left_free = std::numeric_limits<int64_t>::max()});
  ASSERT_EQ(full.Append("ten bytes."), absl::OkStatus());
  const absl::Status refused = full.Append("more");
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("data: log: expected room in " +
                                                              folder_ + " (TMPDIR) for more than "),
                                                    HasSubstr(" stay free")));
  SpooledFile nowhere("log", {.most_in_memory = 0, .folder = folder_ + "/none"});
  EXPECT_THAT(std::string(nowhere.Append("a").message()),
              HasSubstr("got " + folder_ + "/none (TMPDIR): No such file or directory"));
}

}  // namespace
}  // namespace sluice
