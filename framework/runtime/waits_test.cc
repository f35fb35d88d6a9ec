#include "framework/runtime/waits.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

StreamWait Runs(int32_t device, int64_t step, double seconds) {
  StreamWait stream;
  stream.device = device;
  stream.stream = "compute";
  stream.op = "h0/up (matmul)";
  stream.step = step;
  stream.runs = true;
  stream.seconds = seconds;
  return stream;
}

StreamWait WaitsFor(int32_t device, int32_t peer) {
  StreamWait stream;
  stream.device = device;
  stream.stream = "net";
  stream.op = "h0/x (pull)";
  stream.step = 7;
  stream.what = "waits for h0/x";
  stream.peer = peer;
  return stream;
}

// A rank whose eighth step is under way.
RankAnswer Rank(int32_t rank, std::vector<StreamWait> streams) {
  RankWaits waits;
  waits.rank = rank;
  waits.host = "a";
  waits.process = 100 + rank;
  waits.quiet = 12;
  waits.begun = 8;
  waits.through = waits.over = 7;
  waits.streams = std::move(streams);
  return {RankName(waits, /*ranks=*/4), waits};
}

TEST(WaitsTest, AreReadAsTheyWereWritten) {
  RankWaits waits = *Rank(2, {Runs(3, 7, 1.5), WaitsFor(4, 1)}).waits;
  waits.asked = 5;
  waits.answered = 4;
  waits.loads = {{3, 0.25}, {4, 1}};
  waits.away = 0.125;
  const std::string bytes = WaitsToBytes(waits);
  const absl::StatusOr<RankWaits> read = WaitsFromBytes(bytes, 2);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(WaitsToBytes(*read), bytes);
  EXPECT_EQ(WaitsText(*read, 4), WaitsText(waits, 4));
  EXPECT_EQ(read->loads[1].busy, 1);
  EXPECT_EQ(read->away, 0.125);
}

TEST(WaitsTest, OfAnotherRankOrCutAnywhereAreRefused) {
  const std::string bytes = WaitsToBytes(*Rank(2, {Runs(3, 7, 1.5), WaitsFor(4, 1)}).waits);
  EXPECT_FALSE(WaitsFromBytes(bytes, 1).ok());
  EXPECT_FALSE(WaitsFromBytes(bytes + "x", 2).ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(WaitsFromBytes(bytes.substr(0, size), 2).ok()) << size;
  }
}

TEST(WaitsTest, LeadFromRankToRankToTheOneThatRuns) {
  const std::vector<RankAnswer> answers = {Rank(0, {WaitsFor(0, 3)}), Rank(1, {Runs(1, 6, 90)}),
                                           Rank(2, {Runs(2, 7, 11)}), Rank(3, {WaitsFor(3, 2)})};
  EXPECT_EQ(CulpritText(0, answers),
            "all wait for rank 2 at a, process 102, device 2 compute, which runs h0/up (matmul), "
            "step 7, micro-batch 0, for 11.0 s");
  // Nobody waits for rank 1, unless it is asked.
  EXPECT_THAT(CulpritText(1, answers), HasSubstr("rank 1 at a, process 101, device 1"));
}

TEST(WaitsTest, LeadToTheOldestStepThatRuns) {
  const std::vector<RankAnswer> answers = {
      Rank(0, {WaitsFor(0, 1)}), Rank(1, {Runs(1, 8, 20), Runs(2, 7, 10), Runs(3, 7, 15)})};
  EXPECT_THAT(CulpritText(0, answers), HasSubstr("device 3 compute"));
}

TEST(WaitsTest, NameWhoGivesNoAnswerAndWhatItOwes) {
  std::vector<RankAnswer> answers = {Rank(0, {WaitsFor(0, 1)}), Rank(1, {WaitsFor(1, 2)}),
                                     Rank(2, {})};
  answers[2].waits.reset();
  EXPECT_EQ(CulpritText(0, answers),
            "all wait for rank 2 at a, process 102, which gives no answer: it stands still, or it "
            "is gone; rank 1, device 1 net: h0/x (pull), step 7, micro-batch 0, waits for h0/x");
}

TEST(WaitsTest, NameWhoGivesNoAnswerThoughNoStreamWaitsForIt) {
  std::vector<RankAnswer> answers = {Rank(0, {}), Rank(1, {}), Rank(2, {})};
  answers[2].waits.reset();
  EXPECT_THAT(CulpritText(0, answers), HasSubstr("rank 2 at a, process 102, which gives no"));
  // Who runs something, or has nothing under way, is not held up by it.
  answers[0] = Rank(0, {Runs(0, 8, 3)});
  EXPECT_THAT(CulpritText(0, answers), HasSubstr("all wait for rank 0"));
  answers[0] = Rank(0, {});
  answers[0].waits->through = answers[0].waits->over = 8;
  EXPECT_THAT(CulpritText(0, answers), HasSubstr("all wait for rank 0"));
}

TEST(WaitsTest, NameWhoHasNotBegunTheStepOrEndedIt) {
  std::vector<RankAnswer> answers = {Rank(0, {}), Rank(1, {}), Rank(2, {})};
  answers[0].waits->through = answers[1].waits->through = 8;
  answers[2].waits->begun = 7;
  EXPECT_THAT(CulpritText(0, answers),
              AllOf(HasSubstr("all wait for rank 2"), HasSubstr("it has begun 7 and does something "
                                                                "else")));
  answers[2].waits.reset();
  EXPECT_THAT(CulpritText(0, answers), HasSubstr("rank 2 at a, process 102, which gives no"));
}

TEST(WaitsTest, NameWhoDoesNotAnswerTheQuestionToAll) {
  std::vector<RankAnswer> answers = {Rank(0, {}), Rank(1, {}), Rank(2, {})};
  for (RankAnswer& answer : answers) answer.waits->begun = 7;
  answers[0].waits->asked = answers[1].waits->asked = 3;
  answers[2].waits->asked = 2;
  for (RankAnswer& answer : answers) answer.waits->answered = 2;
  EXPECT_THAT(CulpritText(1, answers), HasSubstr("all wait for rank 2"));
}

TEST(WaitsTest, SayWhoseInputIsLate) {
  StreamWait feed = Runs(2, 7, 10);
  feed.stream = "host";
  feed.op = "tokens (feed)";
  feed.reads_input = true;
  const std::vector<RankAnswer> answers = {Rank(0, {WaitsFor(0, 1)}), Rank(1, {feed})};
  EXPECT_EQ(CulpritText(0, answers),
            "input of rank 1 is late: rank 1 at a, process 101, device 2 host has read tokens "
            "(feed), step 7, micro-batch 0 for 10.0 s");
}

TEST(WaitsTest, ThatGoInACircleNameNobody) {
  const std::vector<RankAnswer> answers = {Rank(0, {WaitsFor(0, 1)}), Rank(1, {WaitsFor(1, 0)})};
  EXPECT_THAT(CulpritText(0, answers), HasSubstr("a message is late or lost"));
}

std::vector<RankWaits> Busy(const std::vector<double>& busy) {
  std::vector<RankWaits> ranks(busy.size());
  for (size_t rank = 0; rank < busy.size(); ++rank) {
    ranks[rank].rank = static_cast<int32_t>(rank);
    ranks[rank].loads = {{static_cast<int32_t>(10 + rank), busy[rank]}};
  }
  return ranks;
}

// Nobody saw what a process that was stopped did meanwhile, and it did nothing.
TEST(WaitsTest, AProcessThatDidNotRunIsAStragglerThatComputesNothing) {
  std::vector<RankWaits> ranks = Busy({0.3, 0.1, 0.2, 0.25});
  ranks[1].away = 0.6;
  const auto slow = FindStraggler(ranks);
  ASSERT_TRUE(slow.has_value());
  EXPECT_EQ(slow->rank, 1);
  EXPECT_EQ(StragglerText(*slow, "rank 1 at host a, process 42", 0.5),
            "the others wait for rank 1 at host a, process 42, which did not run for 60 % of the "
            "time: it was stopped, or had no core; the one in the middle of all is busy for 25 %, "
            "in steps of 0.500 s");
  ranks[1].away = 0;
  ranks[1].loads[0].busy = 0.75;
  EXPECT_EQ(StragglerText(*FindStraggler(ranks), "rank 1 at host a, process 42", 0.5),
            "the others wait for rank 1 at host a, process 42, device 11 compute: it computes for "
            "75 % of the time; the one in the middle of all is busy for 25 %, in steps of 0.500 s");
}

TEST(WaitsTest, AStragglerIsBusyTwiceAsMuchAsTheMiddleOfTheOthers) {
  const auto slow = FindStraggler(Busy({0.3, 0.9, 0.2, 0.4}));
  ASSERT_TRUE(slow.has_value());
  EXPECT_EQ(slow->rank, 1);
  EXPECT_EQ(slow->device, 11);
  EXPECT_EQ(slow->middle, 0.3);
  EXPECT_FALSE(FindStraggler(Busy({0.5, 0.9, 0.46, 0.4})).has_value());
  EXPECT_FALSE(FindStraggler(Busy({0.01, 0.45})).has_value());  // all wait for something else
  EXPECT_FALSE(FindStraggler(Busy({0.9})).has_value());
  EXPECT_TRUE(FindStraggler(Busy({0, 0.9})).has_value());
}

}  // namespace
}  // namespace sluice
