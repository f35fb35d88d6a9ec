#include "framework/cluster/slurm_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

std::string First(absl::string_view nodes) {
  absl::StatusOr<std::string> first = FirstNode(nodes);
  return first.ok() ? *first : std::string(first.status().message());
}

std::string Runs(absl::string_view tasks) {
  absl::StatusOr<std::vector<TaskRun>> runs = ReadTaskRuns(tasks);
  if (!runs.ok()) return std::string(runs.status().message());
  std::string text;
  for (const TaskRun& run : *runs) {
    text += std::to_string(run.tasks) + "*" + std::to_string(run.nodes) + " ";
  }
  return text;
}

TEST(SlurmList, FirstNodeOfACompressedList) {
  EXPECT_EQ(First("gnode10"), "gnode10");
  EXPECT_EQ(First("gnode[10,20,25-27]"), "gnode10");
  EXPECT_EQ(First("gnode[010-300]"), "gnode010");
  EXPECT_EQ(First("a-1.example,b[1-2]"), "a-1.example");
  EXPECT_EQ(First("rack[2-3]n[07,9]-ib,x"), "rack2n07-ib");
}

TEST(SlurmList, RefusesListsThatAreNone) {
  EXPECT_EQ(First(""), "expected the name of a node, got \"\"");
  EXPECT_EQ(First("a,"), "expected the name of a node, got \"\"");
  EXPECT_EQ(First(",a"), "expected the name of a node, got \",a\"");
  EXPECT_EQ(First("a[1"), "expected a closing bracket, got \"[1\"");
  EXPECT_EQ(First("a1]"), "expected a list of nodes, got \"]\"");
  EXPECT_EQ(First("a b"), "expected a list of nodes, got \" b\"");
  EXPECT_EQ(First("a[]"), "expected numbers and ranges such as 3-5 in brackets, got \"\"");
  EXPECT_EQ(First("a[1-]"), "expected numbers and ranges such as 3-5 in brackets, got \"1-\"");
  EXPECT_EQ(First("a[-1]"), "expected numbers and ranges such as 3-5 in brackets, got \"-1\"");
  EXPECT_EQ(First("b,a[1,x]"), "expected numbers and ranges such as 3-5 in brackets, got \"x\"");
}

TEST(SlurmList, TasksPerNode) {
  EXPECT_EQ(Runs("3"), "3*1 ");
  EXPECT_EQ(Runs("4(x2),1"), "4*2 1*1 ");
  EXPECT_EQ(Runs("0,2(x16777216)"), "0*1 2*16777216 ");
}

TEST(SlurmList, RefusesTasksThatAreNone) {
  for (const char* bad : {"", "x", "4(2)", "4(x)", "4(x2", "4(x0)", "4,", "-1", "4(x2)1",
                          "16777217", "1(x16777217)", "99999999999999999999"}) {
    EXPECT_EQ(Runs(bad),
              "expected counts of tasks such as 4(x2),1, got \"" + std::string(bad) + "\"");
  }
}

}  // namespace
}  // namespace sluice
