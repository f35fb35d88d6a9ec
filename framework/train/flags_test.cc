#include "framework/train/flags.h"

#include <cstdint>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "gtest/gtest.h"

ABSL_FLAG(int64_t, layers, 4, "transformer blocks");
ABSL_FLAG(double, lr, 1e-3, "learning rate at its highest");
ABSL_FLAG(bool, explain, false, "print the plan and stop");
ABSL_FLAG(std::string, mesh, "data=2",
          "the devices and how work is divided among them: named axes and how many devices lie "
          "along each");

namespace sluice {
namespace {

class FlagsTest : public ::testing::Test {
 protected:
  absl::Status Parse(const std::vector<std::string>& arguments) {
    return ParseFlags(groups_, arguments, &parsed_);
  }
  std::string Error(const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).message());
  }
  const std::vector<FlagGroup> groups_ = {
      {"Model", {{"layers", "N", "by preset"}, {"lr", "X", ""}}},
      {"Machine", {{"mesh", "AXES", ""}, {"explain", "", ""}}}};
  ParsedFlags parsed_;
  absl::FlagSaver saver_;
};

TEST_F(FlagsTest, EveryForm) {
  ASSERT_TRUE(Parse({"--layers=6", "-lr", "0.5", "--explain", "--mesh=data=2 model=2"}).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_layers), 6);
  EXPECT_EQ(absl::GetFlag(FLAGS_lr), 0.5);
  EXPECT_TRUE(absl::GetFlag(FLAGS_explain));
  EXPECT_EQ(absl::GetFlag(FLAGS_mesh), "data=2 model=2");
  EXPECT_EQ(parsed_.given, (std::set<std::string>{"explain", "layers", "lr", "mesh"}));
  ASSERT_TRUE(Parse({"--noexplain"}).ok());
  EXPECT_FALSE(absl::GetFlag(FLAGS_explain));
  ASSERT_TRUE(Parse({"--explain=true", "--help"}).ok());
  EXPECT_TRUE(absl::GetFlag(FLAGS_explain));
  EXPECT_TRUE(parsed_.help);
}

TEST_F(FlagsTest, ErrorsAreOneLineAndNameTheNearest) {
  EXPECT_EQ(Error({"--layer=6"}), "unknown flag --layer; did you mean --layers?");
  EXPECT_EQ(Error({"--hepl"}), "unknown flag --hepl; did you mean --help?");
  EXPECT_EQ(Error({"--zzzzzzzzzz"}), "unknown flag --zzzzzzzzzz; --help lists all");
  EXPECT_EQ(Error({"--nolayers"}), "unknown flag --nolayers; did you mean --layers?");
  EXPECT_EQ(Error({"--layers=many"}), "--layers: expected a whole number, got \"many\"");
  EXPECT_EQ(Error({"--layers=1.5"}), "--layers: expected a whole number, got \"1.5\"");
  EXPECT_EQ(Error({"--lr=fast"}), "--lr: expected a number, got \"fast\"");
  EXPECT_EQ(Error({"--explain=perhaps"}), "--explain: expected true or false, got \"perhaps\"");
  EXPECT_EQ(Error({"--layers"}), "--layers: expected a value, got none");
  EXPECT_EQ(Error({"book.txt"}), "expected a flag such as --steps=100, got \"book.txt\"");
  EXPECT_EQ(Error({"--"}), "expected a flag such as --steps=100, got \"--\"");
}

TEST_F(FlagsTest, HelpWrapsAndShowsDefaults) {
  EXPECT_EQ(FlagsHelp("Trains.", groups_), R"(Trains.

Model
  --layers=N              transformer blocks [by preset]
  --lr=X                  learning rate at its highest [0.001]

Machine
  --mesh=AXES             the devices and how work is divided among them: named axes and how
                          many devices lie along each [data=2]
  --explain               print the plan and stop
)");
}

TEST_F(FlagsTest, RecordedValuesComeBackUnlessTheCommandLineSaysOtherwise) {
  ASSERT_TRUE(Parse({"--layers=6", "--mesh=data=4 pipe=2"}).ok());
  const std::set<std::string> names = {"layers", "lr", "mesh"};
  const auto values = FlagValues(groups_, names);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"layers", "6"}, {"lr", "0.001"}, {"mesh", "data=4 pipe=2"}};
  EXPECT_EQ(values, expected);
  const std::map<std::string, std::string> recorded(values.begin(), values.end());
  ParsedFlags resumed;
  ASSERT_TRUE(ParseFlags(groups_, {"--layers=8"}, &resumed).ok());
  ASSERT_TRUE(absl::FindCommandLineFlag("mesh")->ParseFrom("data=1", nullptr));
  ASSERT_TRUE(RestoreFlags(groups_, names, recorded, &resumed).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_layers), 8);
  EXPECT_EQ(absl::GetFlag(FLAGS_mesh), "data=4 pipe=2");
  EXPECT_EQ(resumed.given, (std::set<std::string>{"layers", "lr", "mesh"}));
  EXPECT_EQ(RestoreFlags(groups_, names, {{"layrs", "3"}}, &resumed).message(),
            "unknown flag --layrs; did you mean --layers?");
  EXPECT_EQ(
      RestoreFlags(groups_, names, {{"explain", "true"}}, &resumed).message(),
      "--explain: expected on the command line alone, got \"true\" from the checkpoint, which "
      "no run of this program wrote");
  EXPECT_FALSE(absl::GetFlag(FLAGS_explain));
}

}  // namespace
}  // namespace sluice
