#include "framework/runtime/rank_agreement.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/plan/decisions.h"

namespace sluice {

RankAgreement::RankAgreement(const plan::Plan* plan, int32_t rank, int32_t ranks)
    : plan_(*plan), rank_(rank), ranks_(ranks), decisions_(DecisionsText(*plan)), here_(ranks) {}

std::vector<int32_t> RankAgreement::Missing() const {
  std::vector<int32_t> missing;
  for (int32_t rank = 0; rank < ranks_; ++rank) {
    if (!here_[rank]) missing.push_back(rank);
  }
  return missing;
}

RankAgreement::Effects RankAgreement::ToFirst(WireMessage message) {
  if (is_first()) return On(0, message);
  Effects effects;
  effects.sent.push_back({0, std::move(message)});
  return effects;
}

RankAgreement::Effects RankAgreement::On(int32_t from, const WireMessage& message) {
  switch (message.kind) {
    case WireMessage::Kind::kHello:
      return OnHello(from, message);
    case WireMessage::Kind::kWelcome:
      if (!is_welcome_) welcome_ = StatusOf(message);
      is_welcome_ = true;
      return {};
    case WireMessage::Kind::kBegan:
      return OnBegan(from, message);
    case WireMessage::Kind::kEnded:
      return OnEnded(from, message);
    case WireMessage::Kind::kOver: {
      error_.Update(StatusOf(message));
      Effects effects;
      effects.over.push_back({message.edge.program, error_});
      return effects;
    }
    // What a rank says may come before this one asks, and the answer to the next question before it
    // has seen that to the last.
    case WireMessage::Kind::kSays:
      Of(message.asker).said[message.sequence][from] = message.text;
      return {};
    case WireMessage::Kind::kVerdict: {
      const absl::Status status = StatusOf(message);
      Of(message.asker).answers[message.sequence] =
          status.ok() ? absl::StatusOr<std::string>(message.text) : status;
      return {};
    }
    case WireMessage::Kind::kLeft:
      return OnLeft(from, message);
    default:
      break;
  }
  return {};
}

RankAgreement::Effects RankAgreement::Join(const std::string& edges) {
  WireMessage hello;
  hello.kind = WireMessage::Kind::kHello;
  hello.text = decisions_;
  hello.edges = edges;
  return ToFirst(std::move(hello));
}

absl::Status RankAgreement::CheckEdges() const {
  for (const auto& [ranks, sums] : edges_) {
    if (sums.first == sums.second) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", ranks.first, " reads other edges of rank ", ranks.second,
        " than that has: expected (number, digest) ", sums.first, ", got ", sums.second));
  }
  return absl::OkStatus();
}

RankAgreement::Effects RankAgreement::OnHello(int32_t from, const WireMessage& message) {
  if (is_welcome_) return {};
  absl::Status verdict = CompareDecisions(decisions_, message.text);
  here_[from] = true;
  for (absl::string_view line : absl::StrSplit(message.edges, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    int32_t peer = 0;
    if (words.size() != 3 || !absl::SimpleAtoi(words[1], &peer)) continue;
    const bool reads = words[0] == "reads";
    auto& sums = edges_[reads ? std::pair(from, peer) : std::pair(peer, from)];
    (reads ? sums.first : sums.second) = std::string(words[2]);
  }
  if (verdict.ok() && !Missing().empty()) return {};
  if (verdict.ok()) verdict = CheckEdges();
  if (!verdict.ok()) {
    verdict = AddContext(verdict, absl::StrCat("rank ", from, " cannot join"));
  }
  welcome_ = verdict;
  is_welcome_ = true;
  Effects effects;
  effects.sent.push_back({-1, WithStatus(WireMessage::Kind::kWelcome, verdict)});
  return effects;
}

RankAgreement::Effects RankAgreement::Leave() const {
  // Others may not have lost whom this one has, and wait for both; nor know yet why a step failed,
  // which is then the end of that step as it would have been told.
  absl::Status why = gone_ ? left_ : error_;
  const bool is_of_step = !error_.ok() && why == error_;
  if (why.ok() && !is_welcome_) {
    why = StatusOf(LeftBecause(rank_, absl::UnavailableError("before all ranks were there")));
  }
  Effects effects;
  for (int asker = 0; asker < kAskers; ++asker) {
    WireMessage message = WithStatus(WireMessage::Kind::kLeft, why);
    message.failed = is_of_step;
    message.asker = static_cast<Asker>(asker);
    message.sequence = begun_;
    message.number = questions_[asker].asked;
    effects.sent.push_back({-1, std::move(message)});
  }
  return effects;
}

RankAgreement::Effects RankAgreement::OnLeft(int32_t from, const WireMessage& message) {
  const absl::Status why = StatusOf(message);
  left_after_ = std::min(left_after_, message.sequence);
  Questions& questions = Of(message.asker);
  questions.left_after = std::min(questions.left_after, message.number);
  // An error names whoever is the reason, who may be another than `from`.
  left_ = absl::UnavailableError(why.ok() ? absl::StrCat("rank ", from, " has left")
                                          : std::string(why.message()));
  // One that was asked to stop before all had joined ends the others as if they had been asked.
  if (absl::IsCancelled(why)) left_ = why;
  if (message.failed && !why.ok()) {
    error_.Update(why);
    left_ = error_;
  }
  // What waits for a rank that has failed by itself says nothing of why.
  if (why.ok() || absl::IsUnavailable(why)) who_left_ = from;
  gone_ = gone_ || !why.ok();
  // Who leaves without an error was welcome, and so are all: that may be still on its way.
  if (!is_welcome_ && !why.ok()) {
    welcome_ = left_;
    is_welcome_ = true;
  }
  Effects effects;
  // That the last step is over may be still on its way.
  if (!why.ok() || begun_ > left_after_) effects.abort = left_;
  effects.missed = who_left_;
  return effects;
}

RankAgreement::Effects RankAgreement::Begin(int32_t program, int64_t number) {
  WireMessage message;
  message.kind = WireMessage::Kind::kBegan;
  message.edge.program = program;
  message.number = number;
  message.sequence = begun_++;
  Effects effects = ToFirst(std::move(message));
  if (effects.abort.ok() && begun_ > left_after_) {
    effects.abort = left_;
    effects.missed = who_left_;
  }
  return effects;
}

// On rank 0: all ranks begin the same steps in the same order. One that begins another program's
// would wait for ever for the others, and they for it.
RankAgreement::Effects RankAgreement::OnBegan(int32_t from, const WireMessage& message) {
  Beginning& step = beginnings_[message.sequence];
  Effects effects;
  if (step.ranks++ == 0) {
    step.program = message.edge.program;
    step.number = message.number;
  } else if (step.program != message.edge.program || step.number != message.number) {
    const auto text = [this](int32_t program, int64_t number) {
      return absl::StrCat("program ", plan_.programs(program).name(), ", step ", number);
    };
    effects = Abort(absl::FailedPreconditionError(absl::StrCat(
        "ranks do not begin the same steps: expected ", text(step.program, step.number),
        " as on others, got ", text(message.edge.program, message.number), " on rank ", from)));
  }
  if (step.ranks == ranks_) beginnings_.erase(message.sequence);
  return effects;
}

RankAgreement::Effects RankAgreement::Ended(int32_t program, int64_t step,
                                            const absl::Status& error) {
  WireMessage message = WithStatus(WireMessage::Kind::kEnded, error);
  message.edge.program = program;
  message.sequence = step;
  return ToFirst(std::move(message));
}

// On rank 0: a step is over when it has ended on each rank. Of several ranks with errors of their
// own in one step the lowest one's counts, so that it is the same one at every run. Steps after
// that have failed with the same error: a rank may be told of them first.
RankAgreement::Effects RankAgreement::OnEnded(int32_t from, const WireMessage& message) {
  const std::pair<int32_t, int64_t> key(message.edge.program, message.sequence);
  Ending& step = endings_[key];
  const absl::Status status = StatusOf(message);
  // The lowest rank's error is told, but one of having been aborted only where there is no other:
  // a collective that ends because a peer has failed says nothing of why.
  const auto place = [](const absl::Status& error, int32_t rank) {
    return std::pair(absl::IsAborted(error), rank);
  };
  if (!status.ok() &&
      (step.error_rank < 0 || place(status, from) < place(step.error, step.error_rank))) {
    step.error_rank = from;
    step.error = status;
  }
  Effects effects;
  if (++step.ranks < ranks_) return effects;
  error_.Update(step.error);
  WireMessage over = WithStatus(WireMessage::Kind::kOver, error_);
  over.edge = message.edge;
  over.sequence = message.sequence;
  effects.over.push_back({message.edge.program, error_});
  effects.sent.push_back({-1, std::move(over)});
  endings_.erase(key);
  return effects;
}

RankAgreement::Effects RankAgreement::Ask(Asker asker, const std::string& mine, int64_t* question) {
  WireMessage says;
  says.kind = WireMessage::Kind::kSays;
  says.asker = asker;
  says.text = mine;
  *question = says.sequence = Of(asker).asked++;
  return ToFirst(std::move(says));
}

bool RankAgreement::IsAnswered(Asker asker, int64_t question) const {
  const Questions& questions = Of(asker);
  // Whoever has left answers what it was asked before, which may be still on its way.
  if (gone_ || question >= questions.left_after) return true;
  if (!is_first()) return questions.answers.count(question) > 0;
  const auto said = questions.said.find(question);
  return said != questions.said.end() && said->second.size() == static_cast<size_t>(ranks_);
}

absl::StatusOr<std::vector<std::string>> RankAgreement::TakeSaid(Asker asker, int64_t question) {
  Questions& questions = Of(asker);
  ++questions.answered;
  std::map<int32_t, std::string> said = std::move(questions.said[question]);
  questions.said.erase(question);
  if (said.size() < static_cast<size_t>(ranks_)) return left_;
  std::vector<std::string> texts;
  for (auto& [rank, text] : said) texts.push_back(std::move(text));
  return texts;
}

RankAgreement::Effects RankAgreement::Answer(Asker asker, int64_t question,
                                             const absl::StatusOr<std::string>& answer) const {
  WireMessage message = WithStatus(WireMessage::Kind::kVerdict, answer.status());
  if (answer.ok()) message.text = *answer;
  message.asker = asker;
  message.sequence = question;
  Effects effects;
  effects.sent.push_back({-1, std::move(message)});
  return effects;
}

absl::StatusOr<std::string> RankAgreement::TakeAnswer(Asker asker, int64_t question) {
  Questions& questions = Of(asker);
  ++questions.answered;
  const auto found = questions.answers.find(question);
  if (found == questions.answers.end()) return left_;
  absl::StatusOr<std::string> answer = std::move(found->second);
  questions.answers.erase(found);
  return answer;
}

RankAgreement::Effects RankAgreement::Abort(const absl::Status& status) {
  left_ = status;
  gone_ = true;
  if (!is_welcome_) welcome_ = status;
  is_welcome_ = true;
  Effects effects;
  effects.abort = status;
  effects.sent.push_back({-1, WithStatus(WireMessage::Kind::kLeft, status)});
  return effects;
}

}  // namespace sluice
