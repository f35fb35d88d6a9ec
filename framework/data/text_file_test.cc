#include "framework/data/text_file.h"

#include <fstream>
#include <string>

#include "framework/data/pack_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

const std::string kParquet("PAR1\0PAR1", 9);

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string Error(const std::string& name, const std::string& bytes) {
  return std::string(ReadTextFile(Write(name, bytes)).status().message());
}

TEST(TextFileTest, IsUnpackedByItsBytes) {
  // As pzstd writes all its files: a frame to skip, with the size of the next one, before it.
  const std::string packed = Zstandard("text");
  const std::string skipped = {0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, static_cast<char>(packed.size()),
                               0,    0,    0};
  for (const auto& [name, bytes] :
       {std::pair("a.txt", std::string("text")), std::pair("a.txt", Gzipped("text")),
        std::pair("a.gz", Gzipped("text")), std::pair("a.zst", Gzipped("text")),
        std::pair("a", packed), std::pair("a.zst", skipped + packed),
        std::pair("a.txt", skipped + skipped + packed + skipped),
        std::pair("a.gz", Gzipped("text") + std::string(512, '\0'))}) {
    EXPECT_EQ(ReadTextFile(Write(name, bytes)).value(), "text") << name;
    EXPECT_EQ(ReadAnyBytes(Write(name, bytes)).value(), "text") << name;
  }
}

TEST(TextFileTest, AByteOrderMarkIsNoPartOfIt) {
  const std::string marked = "\xef\xbb\xbftext \xef\xbb\xbf";
  EXPECT_EQ(ReadTextFile(Write("a.txt", marked)).value(), "text \xef\xbb\xbf");
  EXPECT_EQ(ReadTextFile(Write("a.gz", Gzipped(marked))).value(), "text \xef\xbb\xbf");
  EXPECT_EQ(ReadAnyBytes(Write("a.txt", marked)).value(), marked);
}

TEST(TextFileTest, OtherFilesAreNamed) {
  EXPECT_THAT(Error("a.txt", kParquet), HasSubstr("a.txt: expected text, got Apache Parquet"));
  EXPECT_THAT(Error("a.txt.gz", Gzipped(kParquet)),
              HasSubstr("a.txt.gz: expected text, got Apache Parquet"));
  EXPECT_THAT(Error("a.gz", Gzipped(Gzipped("text"))), HasSubstr("expected text, got gzip"));
  EXPECT_THAT(Error("a.gz", "text"), HasSubstr("as .gz in its name says, got text"));
  EXPECT_EQ(ReadAnyBytes(Write("a.gz", "text")).value(), "text");
  EXPECT_EQ(ReadAnyBytes(Write("a.txt", kParquet)).value(), kParquet);
}

}  // namespace
}  // namespace sluice
