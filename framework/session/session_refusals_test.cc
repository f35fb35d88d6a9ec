// What a session says before anything runs: plans that do not fit, cards that are not there, what
// is explained but not started.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "framework/kernels/device_support.h"
#include "framework/machine/gpu_peaks.h"
#include "framework/session/session.h"
#include "framework/session/test_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SessionRefusalsTest, WhatDoesNotFitIsExplainedButNotStarted) {
  Graph graph;
  ASSERT_EQ(BuildTestModel(&graph, 1, true), absl::OkStatus());
  SessionOptions options;
  options.mesh = "data=2";
  options.memory_limit = 1000;
  const absl::Status status = Session::Start({{"train", &graph}}, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const std::string refused(status.message());
  EXPECT_THAT(refused, AllOf(HasSubstr("expected at most 1000 bytes"),
                             HasSubstr("The largest at the peak of device 0, program train:\n"),
                             HasSubstr("\n  384 bytes of parameter first/up\n"),
                             HasSubstr("\n  384 bytes of optimizer state first/up.m\n")));
  EXPECT_EQ(std::count(refused.begin(), refused.end(), '\n'), 1 + 10);
  std::vector<int64_t> bytes;
  for (const absl::string_view line : absl::StrSplit(refused, '\n')) {
    if (!absl::StartsWith(line, "  ")) continue;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(2, line.find(" bytes") - 2), &bytes.emplace_back()));
  }
  EXPECT_TRUE(std::is_sorted(bytes.rbegin(), bytes.rend())) << refused;
  const absl::StatusOr<std::string> text = Session::ExplainPlan({{"train", &graph}}, options);
  ASSERT_EQ(text.status(), absl::OkStatus());
  EXPECT_THAT(*text, AllOf(HasSubstr("first/up"), HasSubstr(refused)));
  options.memory_limit = 1 << 20;
  options.device_memory_limit = 1000;
  EXPECT_THAT(std::string(Session::Start({{"train", &graph}}, options).status().message()),
              AllOf(HasSubstr("expected at most 1000 bytes of memory for a device; device 0 got "),
                    HasSubstr("\n  384 bytes of parameter first/up\n")));
  options.device_memory_limit = 1 << 19;
  EXPECT_EQ(Session::ExplainPlan({{"train", &graph}}, options)->find("does not fit"),
            std::string::npos);
  EXPECT_EQ(Session::Start({{"train", &graph}}, options).status(), absl::OkStatus());
}

// Two cards, of which the second has the least free: devices share them in turn, 1 and 3 that one.
TEST(SessionRefusalsTest, WhatACardHasNoRoomForIsExplainedButNotStarted) {
  DeviceSupport cards = {};
  cards.free_bytes = []() -> absl::StatusOr<std::vector<int64_t>> {
    return std::vector<int64_t>{1 << 30, 1000};
  };
  Graph graph;
  ASSERT_EQ(BuildTestModel(&graph, 1, true), absl::OkStatus());
  SessionOptions options;
  options.mesh = "data=4 @cuda";
  options.cuda = &cards;
  const absl::Status status = Session::Start({{"train", &graph}}, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const std::string refused(status.message());
  EXPECT_THAT(refused, AllOf(HasSubstr("expected at most 1000 bytes of memory on card 1, which it "
                                       "has free; got "),
                             HasSubstr("The largest at the peak of device "),
                             HasSubstr("\n  384 bytes of parameter first/up\n")));
  EXPECT_EQ(std::count(refused.begin(), refused.end(), '\n'), 1 + 10);
}

// The predicted step of a plan for cards is that of the card's figures, and of others where someone
// has given others.
TEST(SessionRefusalsTest, CardsHaveTheirPublishedFigures) {
  DeviceSupport cards = {};
  cards.free_bytes = []() -> absl::StatusOr<std::vector<int64_t>> {
    return std::vector<int64_t>{int64_t{1} << 40};
  };
  cards.names = []() -> absl::StatusOr<std::vector<std::string>> {
    return std::vector<std::string>{"NVIDIA H200"};
  };
  Graph graph;
  ASSERT_EQ(BuildTestModel(&graph, 1, true), absl::OkStatus());
  SessionOptions options;
  options.mesh = "data=1 @cuda";
  options.cuda = &cards;
  const auto explained = [&] { return *Session::ExplainPlan({{"train", &graph}}, options); };
  const std::string found = explained();
  SetFigures(*GpuPeaksOf("h200"), &options.machine);
  EXPECT_EQ(found, explained());
  options.machine.memory_bytes_per_second = 1e6;
  EXPECT_NE(found, explained());
  options.machine = Machine::Cpu();
  cards.names = []() -> absl::StatusOr<std::vector<std::string>> {
    return std::vector<std::string>{"NVIDIA card of tomorrow"};
  };
  const std::string unknown = explained();
  SetFigures(*GpuPeaksOf("a100"), &options.machine);
  EXPECT_EQ(unknown, explained()) << "not a CPU's figures";
  options.machine = Machine::Cpu();
  cards.names = []() -> absl::StatusOr<std::vector<std::string>> {
    return std::vector<std::string>{"Emulated CUDA device"};
  };
  EXPECT_NE(unknown, explained());
}

TEST(SessionRefusalsTest, CardsThatAreNotThereAreAnErrorOfOneLine) {
  DeviceSupport cards = {};
  cards.free_bytes = []() -> absl::StatusOr<std::vector<int64_t>> {
    return absl::UnavailableError("no CUDA device");
  };
  Graph graph;
  ASSERT_EQ(BuildTestModel(&graph, 1, true), absl::OkStatus());
  SessionOptions options;
  options.mesh = "data=2 @cuda";
  options.cuda = &cards;
  EXPECT_EQ(Session::Start({{"train", &graph}}, options).status(),
            absl::UnavailableError("no CUDA device"));
}

TEST(SessionRefusalsTest, SoManyDevicesAreExplainedButNotStarted) {
  Graph graph;
  ASSERT_EQ(BuildTestModel(&graph, 1, true), absl::OkStatus());
  SessionOptions options;
  options.mesh = "model=4096";
  const absl::Status status = Session::Start({{"train", &graph}}, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "mesh: expected at most 1024 devices of one process, got 4096 of model=4096; explained "
            "(--explain) may be more");
  options.memory_limit = int64_t{1} << 40;
  const absl::StatusOr<std::string> text = Session::ExplainPlan({{"train", &graph}}, options);
  ASSERT_EQ(text.status(), absl::OkStatus());
  EXPECT_THAT(*text, HasSubstr("4096"));
}

TEST(SessionRefusalsTest, ACompileThatIsNotWantedEnds) {
  Graph graph;
  ASSERT_EQ(BuildTestModel(&graph, 1, true), absl::OkStatus());
  SessionOptions options;
  options.stop = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(Session::Start({{"train", &graph}}, options).status()));
  EXPECT_TRUE(absl::IsCancelled(Session::ExplainPlan({{"train", &graph}}, options).status()));
}

TEST(SessionRefusalsTest, APageThatCannotBeWrittenIsRefusedBeforeAnythingRuns) {
  Graph graph;
  ASSERT_EQ(BuildTestModel(&graph, 1, true), absl::OkStatus());
  SessionOptions options;
  options.explain_html = ::testing::TempDir() + "/no such folder/plan.html";
  for (const absl::Status& status : {Session::Start({{"train", &graph}}, options).status(),
                                     Session::ExplainPlan({{"train", &graph}}, options).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(),
              "explain_html: cannot open " + options.explain_html + ": No such file or directory");
  }
}

}  // namespace
}  // namespace sluice
