// What ranks agree on, message by message, under seeds: several of them in one place, and a net
// that keeps their messages in order or does not.
#include "framework/runtime/rank_agreement.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/testing/xorshift.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kSteps = 4;
constexpr Asker kAsker = Asker::kSession;

// A mistake on the way from one rank to another, to see that it is found.
enum class Mistake { kNone, kLost, kTwice, kWithoutError };

struct Setting {
  uint64_t seed = 0;
  Mistake mistake = Mistake::kNone;
  WireMessage::Kind of = WireMessage::Kind::kEnded;
};

// Ranks whose sessions begin steps two ahead, ask a question, and leave.
class Ranks {
 public:
  explicit Ranks(const Setting& setting)
      : setting_(setting), random_(setting.seed), ordered_(random_.Below(2) == 0) {
    plan_.add_programs()->set_name("train");
    ranks_.resize(2 + random_.Below(3));
    for (size_t n = 0; n < ranks_.size(); ++n) {
      const auto count = static_cast<int32_t>(ranks_.size());
      ranks_[n].agreement = std::make_unique<RankAgreement>(&plan_, static_cast<int32_t>(n), count);
      // Half of the ranks fail in one of the steps, or in none.
      if (random_.Below(2) == 0) ranks_[n].fails_at = random_.Below(2 * kSteps);
    }
    if (random_.Below(3) == 0) lost_ = random_.Below(ranks_.size());
    lost_in_ = random_.Below(60);
  }

  // "" or what must not be.
  std::string Run() {
    for (size_t n = 0; n < ranks_.size(); ++n) Apply(n, ranks_[n].agreement->Join(""));
    for (int turns = 0; turns < 10000; ++turns) {
      if (lost_ >= 0 && lost_in_-- == 0) LoseOne();
      const auto n = static_cast<size_t>(random_.Below(ranks_.size()));
      if (random_.Below(2) == 0) {
        Deliver(n);
      } else if (!ranks_[n].gone) {
        Go(n);
      }
    }
    return Difference();
  }

 private:
  struct Rank {
    std::unique_ptr<RankAgreement> agreement;
    std::vector<std::pair<int32_t, WireMessage>> inbox;
    int64_t fails_at = 2 * kSteps;
    int64_t begun = 0, ended = 0, over = 0, question = -1;
    int64_t good = 0;    // steps that were over without an error
    absl::Status error;  // the first, as a step's tracker keeps it
    bool aborted = false;
    absl::Status answer;
    bool answered = false, left = false, gone = false;
  };

  absl::Status OwnError(size_t n, int64_t step) const {
    if (step < ranks_[n].fails_at) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat("planted on rank ", n));
  }

  void Apply(size_t n, const RankAgreement::Effects& effects) {
    Rank& rank = ranks_[n];
    rank.error.Update(effects.abort);
    rank.aborted |= !effects.abort.ok();
    for (const auto& sent : effects.sent) {
      for (size_t to = 0; to < ranks_.size(); ++to) {
        if (to != n && (sent.to < 0 || to == static_cast<size_t>(sent.to)))
          Send(n, to, sent.message);
      }
    }
    for (const auto& over : effects.over) {
      ++rank.over;
      rank.good += rank.error.ok() && over.error.ok() ? 1 : 0;
      for (const Rank& other : ranks_) early_ = early_ || other.ended < rank.over;
      rank.error.Update(over.error);
    }
  }

  void Send(size_t from, size_t to, WireMessage message) {
    int times = 1;
    if (setting_.mistake != Mistake::kNone && message.kind == setting_.of && !made_ &&
        random_.Below(4) == 0) {
      made_ = true;
      if (setting_.mistake == Mistake::kLost) times = 0;
      if (setting_.mistake == Mistake::kTwice) times = 2;
      if (setting_.mistake == Mistake::kWithoutError) message.code = 0;
    }
    for (; times > 0; --times) {
      ranks_[to].inbox.emplace_back(static_cast<int32_t>(from), message);
    }
  }

  void Deliver(size_t n) {
    auto& inbox = ranks_[n].inbox;
    if (inbox.empty()) return;
    size_t at = static_cast<size_t>(random_.Below(inbox.size()));
    for (size_t before = 0; ordered_ && before < at; ++before) {
      if (inbox[before].first == inbox[at].first) at = before;
    }
    const auto [from, message] = std::move(inbox[at]);
    inbox.erase(inbox.begin() + static_cast<ptrdiff_t>(at));
    if (!ranks_[n].gone) Apply(n, ranks_[n].agreement->On(from, message));
  }

  // What a session does next, if it need not wait.
  void Go(size_t n) {
    Rank& rank = ranks_[n];
    if (!rank.agreement->joined()) return;
    const bool stops = !rank.error.ok() || !rank.agreement->welcome().ok();
    if (rank.ended < rank.begun && random_.Below(2) == 0) {
      const int64_t step = rank.ended++;
      return Apply(n, rank.agreement->Ended(0, step, OwnError(n, step)));
    }
    if (!stops && rank.begun < kSteps) {
      if (rank.begun - rank.over >= 2) return;
      const int64_t step = rank.begun++;
      return Apply(n, rank.agreement->Begin(0, step));
    }
    if (rank.left || (rank.over < rank.begun && !rank.aborted)) return;
    if (!stops && !rank.answered) return Question(n);
    rank.left = true;
    Apply(n, rank.agreement->Leave());
  }

  void Question(size_t n) {
    Rank& rank = ranks_[n];
    if (rank.question < 0) {
      return Apply(n, rank.agreement->Ask(kAsker, absl::StrCat(n), &rank.question));
    }
    if (!rank.agreement->IsAnswered(kAsker, rank.question)) return;
    rank.answered = true;
    if (n > 0) {
      rank.answer = rank.agreement->TakeAnswer(kAsker, rank.question).status();
      return;
    }
    const auto said = rank.agreement->TakeSaid(kAsker, rank.question);
    rank.answer = said.status();
    if (!said.ok()) return;
    std::string all;
    for (const std::string& each : *said) absl::StrAppend(&all, each);
    rank.answer = absl::CancelledError(all);
    Apply(n, rank.agreement->Answer(kAsker, rank.question, rank.answer));
  }

  void LoseOne() {
    ranks_[lost_].gone = true;
    for (size_t n = 0; n < ranks_.size(); ++n) {
      if (static_cast<int32_t>(n) == lost_) continue;
      Send(static_cast<size_t>(lost_), n,
           WithStatus(WireMessage::Kind::kLeft, absl::UnavailableError("lost")));
    }
  }

  // Every rank has come to an end, and to the same one.
  std::string Difference() const {
    if (early_) return "a step was over before it had ended on all ranks";
    const Rank* first = nullptr;
    for (size_t n = 0; n < ranks_.size(); ++n) {
      const Rank& rank = ranks_[n];
      if (rank.gone) continue;
      if (!rank.left) return absl::StrCat("rank ", n, " waits for ever");
      if (lost_ >= 0) continue;  // who ends before it hears of that is right, too
      if (first == nullptr) first = &rank;
      // Who hears that another has left before the end of a step hears why from that one.
      if (rank.error != first->error) {
        return absl::StrCat("rank ", n, ": ", rank.error.ToString(),
                            ", others: ", first->error.ToString());
      }
      if (rank.good > first->good) return absl::StrCat("rank ", n, " takes a step that failed");
      if (rank.error.ok() && (rank.over != kSteps || rank.answer != first->answer)) {
        return absl::StrCat("rank ", n, ": ", rank.over, " steps, ", rank.answer.ToString());
      }
    }
    return "";
  }

  const Setting setting_;
  Xorshift random_;
  const bool ordered_;
  plan::Plan plan_;
  std::vector<Rank> ranks_;
  int32_t lost_ = -1;
  int lost_in_ = 0;
  bool made_ = false, early_ = false;
};

TEST(RankAgreementTest, AllComeToTheSameEnd) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    EXPECT_EQ(Ranks({seed}).Run(), "") << "seed " << seed;
    if (HasFailure()) return;
  }
}

// What two ranks say of the end of one step, by rank, whichever comes first: the error of all.
absl::Status ErrorOfAll(const absl::Status& first, const absl::Status& second) {
  plan::Plan plan;
  plan.add_programs()->set_name("train");
  std::vector<absl::Status> agreed;
  for (const bool first_comes_first : {true, false}) {
    RankAgreement agreement(&plan, 0, 2);
    WireMessage of_second = WithStatus(WireMessage::Kind::kEnded, second);
    if (!first_comes_first) agreement.On(1, of_second);
    RankAgreement::Effects effects = agreement.Ended(0, 0, first);
    if (first_comes_first) effects = agreement.On(1, of_second);
    EXPECT_EQ(effects.over.size(), 1u);
    if (!effects.over.empty()) agreed.push_back(effects.over[0].error);
  }
  EXPECT_EQ(agreed.front(), agreed.back());
  return agreed.front();
}

TEST(RankAgreementTest, AnErrorThatFollowsFromAnotherGivesWayToIt) {
  const absl::Status cause = absl::InternalError("why"), follows = absl::AbortedError("ended"),
                     later = absl::InternalError("also");
  EXPECT_EQ(ErrorOfAll(follows, cause), cause);
  EXPECT_EQ(ErrorOfAll(cause, follows), cause);
  EXPECT_EQ(ErrorOfAll(cause, later), cause);
  EXPECT_EQ(ErrorOfAll(follows, absl::AbortedError("too")), follows);
  EXPECT_EQ(ErrorOfAll(absl::OkStatus(), follows), follows);
}

TEST(RankAgreementTest, MistakesAreFound) {
  using Kind = WireMessage::Kind;
  const std::vector<std::pair<Mistake, Kind>> mistakes = {
      {Mistake::kLost, Kind::kHello}, {Mistake::kLost, Kind::kWelcome},
      {Mistake::kLost, Kind::kEnded}, {Mistake::kTwice, Kind::kEnded},
      {Mistake::kLost, Kind::kOver},  {Mistake::kWithoutError, Kind::kOver},
      {Mistake::kLost, Kind::kSays},  {Mistake::kLost, Kind::kVerdict}};
  for (const auto& [mistake, of] : mistakes) {
    uint64_t seed = 0;
    while (seed < 500 && Ranks({seed, mistake, of}).Run().empty()) ++seed;
    EXPECT_LT(seed, 500u) << "mistake " << static_cast<int>(mistake) << " of messages of kind "
                          << static_cast<int>(of);
  }
}

}  // namespace
}  // namespace sluice
