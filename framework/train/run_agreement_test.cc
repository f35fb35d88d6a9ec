#include "framework/train/run_agreement.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

RunFacts Facts() {
  RunFacts facts;
  facts.Add({"--seed", "1"});
  facts.Add({"--init", "0f", "a/step-3 of digest 0f"});
  facts.Add({"--preset", ""});
  return facts;
}

TEST(RunAgreementTest, WhatDiffersIsNamedWithBothSides) {
  EXPECT_EQ(Facts().CheckSame(Facts(), 1), absl::OkStatus());
  RunFacts elsewhere;  // another path to the same bytes
  elsewhere.Add({"--seed", "1"});
  elsewhere.Add({"--init", "0f", "b/step-3 of digest 0f"});
  elsewhere.Add({"--preset", ""});
  EXPECT_EQ(Facts().CheckSame(elsewhere, 1), absl::OkStatus());
  RunFacts stale;
  stale.Add({"--seed", "1"});
  stale.Add({"--init", "10", "b/step-3 of digest 10"});
  stale.Add({"--preset", ""});
  EXPECT_EQ(Facts().CheckSame(stale, 2).message(),
            "--init: expected a/step-3 of digest 0f, as on rank 0, got b/step-3 of digest 10 on "
            "rank 2");
}

TEST(RunAgreementTest, WhatOneSideLacksIsNamed) {
  RunFacts more = Facts();
  more.Add({"--explain", "true"});
  EXPECT_EQ(Facts().CheckSame(more, 1).message(),
            "--explain: expected nothing, as on rank 0, got true on rank 1");
  EXPECT_EQ(more.CheckSame(Facts(), 1).message(),
            "--explain: expected true, as on rank 0, got nothing on rank 1");
}

TEST(RunAgreementTest, AnErrorShowsPathsAndSaysWhatHelps) {
  RunFacts first, mine, none;
  first.Add({"--data, training", "d1", "/a/text with d1", "copy it"});
  mine.Add({"--data, training", "d2", "/b/text with d2", "copy it"});
  none.Add({"--resume", ""});
  EXPECT_EQ(first.CheckSame(mine, 1).message(),
            "--data, training: expected /a/text with d1, as on rank 0, got /b/text with d2 on rank "
            "1; copy it");
  EXPECT_EQ(first.CheckSame(none, 1).message(),
            "--data, training: expected /a/text with d1, as on rank 0, got nothing on rank 1; copy "
            "it");
  EXPECT_EQ(RunFacts().CheckSame(none, 1), absl::OkStatus());
  EXPECT_EQ(none.CheckSame(RunFacts(), 1), absl::OkStatus());
}

TEST(RunAgreementTest, TextGivesTheFactsBack) {
  RunFacts facts = Facts();
  facts.Add({"--prompt", "a\tb\n\\c\x01"});
  const absl::StatusOr<RunFacts> back = RunFacts::FromText(facts.ToText());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(facts.CheckSame(*back, 1), absl::OkStatus());
  EXPECT_EQ(back->CheckSame(facts, 1), absl::OkStatus());
  EXPECT_FALSE(RunFacts::FromText("--seed\t1\n").ok());
  EXPECT_FALSE(RunFacts::FromText("--seed\t\\x\t1\n").ok());
}

TEST(RunAgreementTest, AFolderThatIsNotSharedIsRefused) {
  const std::string folder = ::testing::TempDir() + "/shared";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/run.lock") << "process 7 on a since 9\n";
  const auto check = [&](const std::string& holder) {
    const SharedRun run =
        *SharedRun::FromText(SharedRun{folder, holder, {{"data", "a b"}, {"seed", "1"}}}.ToText());
    EXPECT_EQ(run.recorded.size(), 2u);
    return CheckFolderIsShared(run, 1, std::chrono::milliseconds(50), {});
  };
  EXPECT_EQ(check("process 7 on a since 9"), absl::OkStatus());
  EXPECT_EQ(check(""), absl::OkStatus());  // nothing could be written there
  EXPECT_THAT(std::string(check("process 8 on b since 9").message()),
              ::testing::HasSubstr("to be one folder that all ranks share"));
}

}  // namespace
}  // namespace sluice
