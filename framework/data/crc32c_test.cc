#include "framework/data/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// Of RFC 3720, B.4.
TEST(Crc32cTest, IsThatOfTheStandard) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, TheTableGivesWhatTheInstructionGives) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(internal::PortableCrc32c(bytes), Crc32c(bytes)) << i;
    bytes += static_cast<char>(i * 37);
  }
}

}  // namespace
}  // namespace sluice
