#include "framework/train/app_surroundings.h"

#include <cstdlib>
#include <string>

#include "framework/base/process.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// As tools/dataset.py has it, whose test says the same.
TEST(AppSurroundingsTest, AVariableThatIsEmptyIsAsNone) {
  ASSERT_EQ(setenv("SLUICE_DATASETS", "/data", 1), 0);
  EXPECT_EQ(SurroundingsOf("").datasets, "/data");
  ASSERT_EQ(setenv("SLUICE_DATASETS", "", 1), 0);
  ASSERT_EQ(setenv("HOME", "/home/a", 1), 0);
  EXPECT_EQ(SurroundingsOf("").datasets, "/home/a/.cache/sluice/datasets");
  ASSERT_EQ(setenv("HOME", "", 1), 0);
  EXPECT_EQ(SurroundingsOf("").datasets, HomeFolder() + "/.cache/sluice/datasets");
  EXPECT_NE(HomeFolder(), "");
}

}  // namespace
}  // namespace sluice
