#include "framework/train/command.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

ABSL_FLAG(std::string, from, "", "what is read");
ABSL_FLAG(int64_t, count, 3, "how often");

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

class CommandTest : public ::testing::Test {
 protected:
  int Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    const Command command = {"copy",
                             "Copies.\n",
                             {{"Flags", {{"from", "PATH", ""}, {"count", "N", ""}}}},
                             {"from"},
                             [this] {
                               ++runs_;
                               folder_ = std::filesystem::current_path();
                               return status_;
                             }};
    CaptureStdout();
    CaptureStderr();
    const int code = RunCommand(command, static_cast<int>(argv.size()), argv.data());
    out_ = GetCapturedStdout();
    error_ = GetCapturedStderr();
    return code;
  }
  absl::FlagSaver saver_;
  int runs_ = 0;
  absl::Status status_;
  std::filesystem::path folder_;
  std::string out_, error_;
};

TEST_F(CommandTest, CodesAndLines) {
  EXPECT_EQ(Run({"--from=a"}), 0);
  EXPECT_EQ(out_ + error_, "");
  status_ = absl::NotFoundError("a: none");
  EXPECT_EQ(Run({"--from=a", "--count=2"}), 1);
  EXPECT_EQ(error_, "copy: a: none\n");
  EXPECT_EQ(runs_, 2);
  status_ = absl::NotFoundError("evil\x1b[2J\nname: none");
  EXPECT_EQ(Run({"--from=a"}), 1);
  EXPECT_EQ(error_, "copy: evil\\x1b[2J name: none\n");
  EXPECT_EQ(Run({"--count=2"}), 2);
  EXPECT_EQ(error_, "copy: --from: expected a value, got none\n");
  EXPECT_EQ(Run({"--form=a"}), 2);
  EXPECT_THAT(error_, HasSubstr("copy: unknown flag --form; did you mean --from?"));
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("Copies.\n"));
  EXPECT_THAT(out_, HasSubstr("--from=PATH"));
  EXPECT_EQ(runs_, 3);
}

TEST_F(CommandTest, PathsAreThoseOfTheCaller) {
  const std::filesystem::path before = std::filesystem::current_path();
  setenv("BUILD_WORKING_DIRECTORY", "/", 1);
  EXPECT_EQ(Run({"--from=a"}), 0);
  EXPECT_EQ(folder_, "/");
  setenv("BUILD_WORKING_DIRECTORY", "/none", 1);
  EXPECT_EQ(Run({"--from=a"}), 1);
  EXPECT_EQ(error_, "copy: cannot enter /none\n");
  unsetenv("BUILD_WORKING_DIRECTORY");
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace sluice
