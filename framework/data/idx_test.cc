#include "framework/data/idx.h"

#include <string>
#include <vector>

#include "framework/data/pack_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::string Bytes(std::vector<int> values) { return std::string(values.begin(), values.end()); }

// Two pictures of 2x3.
std::string Pictures() {
  return Bytes({0, 0, 8, 3, 0, 0,   0, 2, 0, 0,  0,  2, 0, 0, 0, 3,  //
                1, 2, 3, 4, 5, 255, 7, 8, 9, 10, 11, 12});
}

std::string ErrorOf(const std::string& bytes) {
  return std::string(ParseIdx("file.gz", bytes).status().message());
}

TEST(IdxTest, ReadsPlainAndGzippedFiles) {
  for (const std::string& bytes : {Pictures(), Gzipped(Pictures())}) {
    const absl::StatusOr<IdxArray> array = ParseIdx("pictures", bytes);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->shape, Shape({2, 2, 3}));
    EXPECT_THAT(array->values, ::testing::ElementsAre(1, 2, 3, 4, 5, 255, 7, 8, 9, 10, 11, 12));
  }
  const auto wide = ParseIdx("wide", Bytes({0, 0, 8, 1, 0, 0, 1, 2}) + std::string(258, 'a'));
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->shape, Shape({258}));
}

TEST(IdxTest, OtherHeadersAreRefused) {
  EXPECT_EQ(ErrorOf("ab"), "file.gz: expected an IDX header of four bytes and more, got 2 bytes");
  EXPECT_EQ(ErrorOf("PNG."), "file.gz: expected an IDX file, which begins with 00 00, got 50 4e");
  EXPECT_EQ(ErrorOf(Bytes({0, 0, 13, 1, 0, 0, 0, 0})),
            "file.gz: expected elements of one byte, type 08, got type 0d");
  EXPECT_EQ(ErrorOf(Bytes({0, 0, 8, 0})), "file.gz: expected 1 to 8 dimensions, got 0");
  EXPECT_EQ(ErrorOf(Bytes({0, 0, 8, 9})), "file.gz: expected 1 to 8 dimensions, got 9");
  EXPECT_EQ(ErrorOf(Bytes({0, 0, 8, 3, 0, 0, 0, 1, 0, 0})),
            "file.gz: expected extents of 3 dimensions, got 1");
}

TEST(IdxTest, FewerOrMoreElementsThanTheHeaderSaysAreRefused) {
  const std::string all = Pictures();
  EXPECT_EQ(ErrorOf(all.substr(0, 27)),
            "file.gz: expected [2,2,3] elements, got 11 at most in 27 "
            "bytes");
  EXPECT_EQ(ErrorOf(all + "."), "file.gz: expected 12 elements of [2,2,3], got more");
  EXPECT_EQ(ErrorOf(Gzipped(all.substr(0, 27))),
            "file.gz: expected 12 elements of [2,2,3], got 11");
  EXPECT_EQ(ErrorOf(Gzipped(all + ".")), "file.gz: expected 12 elements of [2,2,3], got more");
  const std::string packed = Gzipped(all);
  for (size_t size = 3; size < packed.size(); ++size) {
    EXPECT_EQ(ErrorOf(packed.substr(0, size)), "file.gz: the gzipped file is cut short") << size;
  }
}

// What these say is not allocated, and of the second no more is unpacked than was announced.
TEST(IdxTest, BombsAreRefused) {
  const std::string huge = Bytes({0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255, 1});
  EXPECT_EQ(ErrorOf(huge),
            "file.gz: expected [4294967295,4294967295] elements, got 1 at most in 13 bytes");
  EXPECT_THAT(ErrorOf(Gzipped(huge)), HasSubstr("expected [4294967295,4294967295] elements, got "));
  const std::string small = Bytes({0, 0, 8, 1, 0, 0, 0, 9});
  EXPECT_EQ(ErrorOf(Gzipped(small + std::string(1 << 26, '\0'))),
            "file.gz: expected 9 elements of [9], got more");
}

TEST(IdxTest, AFileThatIsNotThereIsNamed) {
  EXPECT_EQ(ReadIdx("/nowhere/idx").status(),
            absl::NotFoundError("data: cannot read /nowhere/idx: No such file or directory"));
}

}  // namespace
}  // namespace sluice
