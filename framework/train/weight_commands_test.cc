#include "framework/train/weight_commands.h"

#include <string>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// The units are those of save_pretrained.
TEST(WeightCommandsTest, SizesAreReadAsSavePretrainedReadsThem) {
  EXPECT_EQ(*ParseSize("5GB"), 5'000'000'000);
  EXPECT_EQ(*ParseSize("5gib"), int64_t{5} << 30);
  EXPECT_EQ(*ParseSize("200MB"), 200'000'000);
  EXPECT_EQ(*ParseSize("3MiB"), 3 << 20);
  EXPECT_EQ(*ParseSize("10KB"), 10'000);
  EXPECT_EQ(*ParseSize("7KiB"), 7168);
  EXPECT_EQ(*ParseSize("12345"), 12345);
  for (const char* bad : {"", "GB", "0", "-1GB", "1.5GB", "5TB", "9999999999999GB", "5GB "}) {
    EXPECT_EQ(ParseSize(bad).status().message(),
              std::string("expected a size such as 5GB, 500MB or 1000000, got \"") + bad + "\"");
  }
  EXPECT_EQ(ExportOptions().most_shard_bytes, *ParseSize("50GB"));
}

}  // namespace
}  // namespace sluice
