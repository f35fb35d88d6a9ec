#include "framework/data/mnist.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "framework/data/pack_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::string Idx(const std::vector<int>& extents, const std::vector<int>& values) {
  std::string bytes = {0, 0, 8, static_cast<char>(extents.size())};
  for (const int extent : extents) bytes += {0, 0, 0, static_cast<char>(extent)};
  return bytes + std::string(values.begin(), values.end());
}

class MnistTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/mnist_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    Write("train-images-idx3-ubyte.gz", Gzipped(Idx({3, 1, 2}, {1, 2, 3, 4, 5, 6})));
    Write("train-labels-idx1-ubyte.zst", Zstandard(Idx({3}, {7, 8, 9})));
    Write("t10k-images-idx3-ubyte", Idx({1, 1, 2}, {11, 12}));
    Write("t10k-labels-idx1-ubyte", Idx({1}, {5}));
  }
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }
  std::string Error() { return std::string(ReadMnist(folder_).status().message()); }
  std::string folder_;
};

TEST_F(MnistTest, ReadsPicturesAndLabels) {
  const absl::StatusOr<Mnist> mnist = ReadMnist(folder_);
  ASSERT_TRUE(mnist.ok()) << mnist.status();
  EXPECT_EQ(mnist->training.shape, Shape({1, 2, 1}));
  EXPECT_THAT(mnist->training.pixels, ::testing::ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(mnist->training.labels, ::testing::ElementsAre(7, 8, 9));
  EXPECT_THAT(mnist->held_out.pixels, ::testing::ElementsAre(11, 12));
  EXPECT_THAT(mnist->held_out.labels, ::testing::ElementsAre(5));
}

TEST_F(MnistTest, AMissingFileIsNamed) {
  std::filesystem::remove(folder_ + "/t10k-labels-idx1-ubyte");
  EXPECT_EQ(
      ReadMnist(folder_).status(),
      absl::NotFoundError("data: expected t10k-labels-idx1-ubyte, it with .gz or with .zst in " +
                          folder_ + ", got none"));
  EXPECT_TRUE(absl::IsNotFound(ReadMnist(folder_ + "/none").status()));
}

TEST_F(MnistTest, FilesThatDoNotFitTogetherAreRefused) {
  Write("t10k-images-idx3-ubyte", Idx({1, 2, 1}, {11, 12}));
  EXPECT_EQ(Error(), "data: " + folder_ +
                         ": expected pictures of one size, got [1,2,1] to train and [2,1,1] to "
                         "test");
  Write("train-labels-idx1-ubyte.gz", Gzipped(Idx({2}, {7, 8})));
  EXPECT_EQ(Error(), "data: " + folder_ +
                         "/train-labels-idx1-ubyte.gz: expected a label for each "
                         "of 3 pictures, got [2]");
  Write("train-images-idx3-ubyte.gz", Gzipped(Idx({3, 2}, {1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(Error(), "data: " + folder_ +
                         "/train-images-idx3-ubyte.gz: expected [pictures, "
                         "height, width], got [3,2]");
  Write("train-images-idx3-ubyte.gz", Gzipped("text"));
  EXPECT_EQ(Error(),
            "data: " + folder_ + "/train-images-idx3-ubyte.gz: expected an IDX array, got text");
  Write("train-images-idx3-ubyte.gz", Gzipped({1, 2, 3, 4}));
  EXPECT_EQ(Error(), "data: " + folder_ +
                         "/train-images-idx3-ubyte.gz: expected an IDX file, "
                         "which begins with 00 00, got 01 02");
  Write("train-images-idx3-ubyte.gz", Idx({3, 2}, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(Error(),
              HasSubstr("/train-images-idx3-ubyte.gz: expected packed bytes, as .gz in its "
                        "name says, got an IDX array; "));
}

}  // namespace
}  // namespace sluice
