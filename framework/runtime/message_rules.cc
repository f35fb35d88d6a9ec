#include "framework/runtime/message_rules.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/actor/worker_policy.h"
#include "framework/base/status.h"
#include "framework/runtime/rank_clock.h"
#include "framework/runtime/waits.h"

namespace sluice {
namespace {

using Kind = WireMessage::Kind;

constexpr int kKinds = static_cast<int>(Kind::kClock) + 1;
constexpr const char* kNames[kKinds] = {"hello",  "welcome", "token",  "pulled",  "began",
                                        "ended",  "over",    "says",   "verdict", "left",
                                        "waits?", "waits",   "clock?", "clock"};
constexpr int kStatusCodes = 17;
// Of an error, as a verdict of the rendezvous has it at most.
constexpr size_t kMostErrorBytes = size_t{1} << 20;
// A rank whose question nobody will answer, since another has left, may ask a few more before its
// session ends: of each the caller is told the same. And a beginning may come later than the end of
// the step.
constexpr int64_t kMostUnanswered = 16, kMostBeginningsLate = 64;
// Clocks count nanoseconds; sums and differences of times below this, 36 years, are numbers.
constexpr int64_t kMostTime = int64_t{1} << 60;
// Rounds of questions are seconds apart. Answers to older ones come too late for anybody to look
// at.
constexpr int64_t kMostRoundsLate = 8;

// Rounds are counted from 1 where they are said and from 0 where they are kept; -1 is none. A peer
// may say the least number, from which nothing can be taken.
int64_t RoundOf(const WireMessage& message) {
  return message.sequence > 0 ? message.sequence - 1 : -1;
}

std::string NameOf(Kind kind) {
  const int number = static_cast<int>(kind);
  return number < kKinds ? absl::StrCat("\"", kNames[number], "\"")
                         : absl::StrCat("a message of kind ", number);
}

}  // namespace

std::string EdgeText(const Edge& edge) {
  return absl::StrCat("program ", edge.program, ", register ", edge.source, " of device ",
                      edge.source_device, ", read by item ", edge.reader, " of device ",
                      edge.reader_device);
}

bool SaidNumbers::TakeLate(int64_t number, int64_t limit) {
  if (number < 0 || number >= limit) return false;
  if (number < next_) {
    const auto found = std::find(late_.begin(), late_.end(), number);
    if (found == late_.end()) return false;
    late_.erase(found);
    return true;
  }
  while (next_ < number) late_.push_back(next_++);
  ++next_;
  return true;
}

void SaidNumbers::Forget(int64_t below) {
  next_ = std::max(next_, below);
  late_.erase(std::remove_if(late_.begin(), late_.end(),
                             [below](int64_t number) { return number < below; }),
              late_.end());
}

std::string SaidNumbers::Expected(int64_t limit) const {
  if (next_ >= limit && late_.empty()) return absl::StrCat("none below ", limit, " any more");
  return absl::StrCat("one below ", limit, " that was not said yet, as ",
                      late_.empty() ? next_ : late_.front());
}

MessageRules::MessageRules(const plan::Plan* plan, int32_t rank, int32_t ranks,
                           const RankClock* clock)
    : plan_(*plan),
      rank_(rank),
      ranks_(ranks),
      clock_(clock),
      ended_(std::make_unique<std::atomic<int64_t>[]>(plan->programs_size())),
      over_(std::make_unique<std::atomic<int64_t>[]>(plan->programs_size())),
      peers_(ranks),
      over_said_(plan->programs_size()) {
  for (Peer& peer : peers_) peer.ended.resize(plan->programs_size());
}

bool MessageRules::AddReader(const Edge& edge, int32_t reader, const std::atomic<int64_t>* told) {
  if (!reader_at_.emplace(edge, static_cast<int32_t>(readers_.size())).second) return false;
  readers_.push_back({reader, told, {}});
  return true;
}

bool MessageRules::AddPull(const Edge& edge, int32_t owner, int64_t tokens) {
  if (!pull_at_.emplace(edge, static_cast<int32_t>(pulls_.size())).second) return false;
  pulls_.push_back({owner, tokens, {}});
  return true;
}

// The last of a step's workers says so; those of the next step may be through before it has.
void MessageRules::Ended(int program, int64_t step) {
  std::atomic<int64_t>& ended = ended_[program];
  int64_t known = ended.load();
  while (known <= step && !ended.compare_exchange_weak(known, step + 1)) {
  }
}

int64_t MessageRules::left_out() const {
  int64_t sum = 0;
  const auto add = [&sum](const SaidNumbers& said) { sum += said.left_out(); };
  for (const Reader& reader : readers_) add(reader.pulled);
  for (const Pull& pull : pulls_) add(pull.told);
  for (const Peer& peer : peers_) {
    for (const SaidNumbers* said : {&peer.begun, &peer.asks_waits, &peer.waits}) add(*said);
    for (const SaidNumbers& said : peer.ended) add(said);
    for (const SaidNumbers& said : peer.says) add(said);
  }
  for (const SaidNumbers& said : over_said_) add(said);
  for (const SaidNumbers& said : verdicts_) add(said);
  return sum;
}

absl::Status MessageRules::Broken(int32_t from, absl::string_view said, absl::string_view expected,
                                  absl::string_view got) const {
  return absl::InternalError(absl::StrCat("rank ", from, " breaks the rules: it says ", said,
                                          " to rank ", rank_, ", expected ", expected, ", got ",
                                          got));
}

// Who may say it, and to whom; and what every message has.
absl::Status MessageRules::CheckSender(int32_t from, const WireMessage& message) const {
  const auto broken = [&](absl::string_view expected, absl::string_view got) {
    return Broken(from, NameOf(message.kind), expected, got);
  };
  bool from_first = false, to_first = false;
  switch (message.kind) {
    case Kind::kHello:
    case Kind::kBegan:
    case Kind::kEnded:
    case Kind::kSays:
    case Kind::kAskClock:
      to_first = true;
      break;
    case Kind::kWelcome:
    case Kind::kOver:
    case Kind::kVerdict:
    case Kind::kClock:
      from_first = true;
      break;
    case Kind::kToken:
    case Kind::kPulled:
    case Kind::kLeft:
    case Kind::kAskWaits:
    case Kind::kWaits:
      break;
    default:
      return broken(absl::StrCat("one of ", kKinds, " kinds"), "another");
  }
  if (from_first && from != 0) return broken("it of rank 0 alone", absl::StrCat("it of ", from));
  if (to_first && rank_ != 0) return broken("it to be said to rank 0 alone", "it here");
  if (static_cast<int>(message.asker) >= kAskers) {
    return broken(absl::StrCat("one of ", kAskers, " askers"),
                  absl::StrCat(static_cast<int>(message.asker)));
  }
  if (message.code < 0 || message.code >= kStatusCodes) {
    return broken(absl::StrCat("one of ", kStatusCodes, " statuses"), absl::StrCat(message.code));
  }
  if (message.code != 0 && message.text.size() > kMostErrorBytes) {
    return broken(absl::StrCat("an error of at most ", kMostErrorBytes, " bytes"),
                  absl::StrCat(message.text.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<int32_t> MessageRules::Check(int32_t from, const WireMessage& message) {
  RETURN_IF_ERROR(CheckSender(from, message));
  switch (message.kind) {
    case Kind::kToken:
      return CheckToken(from, message);
    case Kind::kPulled:
      return CheckPulled(from, message);
    default:
      break;
  }
  const auto check = [&]() -> absl::Status {
    switch (message.kind) {
      case Kind::kHello:
        return CheckHello(from, message);
      case Kind::kWelcome:
        return CheckWelcome(from, message);
      case Kind::kBegan:
        return CheckBegan(from, message);
      case Kind::kEnded:
        return CheckEnded(from, message);
      case Kind::kOver:
        return CheckOver(from, message);
      case Kind::kSays:
        return CheckSays(from, message);
      case Kind::kVerdict:
        return CheckVerdict(from, message);
      case Kind::kLeft:
        return CheckLeft(from, message);
      case Kind::kAskWaits:
        return CheckAskWaits(from, message);
      case Kind::kWaits:
        return CheckWaits(from, message);
      default:
        return CheckClock(from, message);
    }
  };
  RETURN_IF_ERROR(check());
  return 0;
}

absl::Status MessageRules::CheckProgram(int32_t from, const WireMessage& message) const {
  const int32_t program = message.edge.program;
  if (program >= 0 && program < plan_.programs_size()) return absl::OkStatus();
  return Broken(from, NameOf(message.kind),
                absl::StrCat("one of ", plan_.programs_size(), " programs"),
                absl::StrCat("program ", program));
}

absl::Status MessageRules::CheckNumber(int32_t from, const WireMessage& message, int64_t limit,
                                       SaidNumbers* said) const {
  if (said->Take(message.sequence, limit)) return absl::OkStatus();
  return Broken(from, absl::StrCat(NameOf(message.kind), " with a number"), said->Expected(limit),
                absl::StrCat(message.sequence));
}

// Its owner has begun no step that runs further ahead of what has ended on all ranks, and so here,
// than a session may.
absl::StatusOr<int32_t> MessageRules::CheckToken(int32_t from, const WireMessage& message) {
  const int32_t number = Find(pull_at_, message.edge);
  if (number < 0 || pulls_[number].rank != from) {
    return Broken(from, "\"token\"", "one of an edge that is read here, of its owner",
                  absl::StrCat(EdgeText(message.edge),
                               number < 0 ? ", which nothing here reads"
                                          : absl::StrCat(", of rank ", pulls_[number].rank)));
  }
  Pull& pull = pulls_[number];
  const int64_t steps = ended_[message.edge.program].load() + kStepsAhead;
  const int64_t limit = steps * pull.tokens;
  if (pull.told.Take(message.sequence, limit)) return number;
  return Broken(from, absl::StrCat("\"token\" of ", EdgeText(message.edge), " with a number"),
                pull.told.Expected(limit), absl::StrCat(message.sequence));
}

absl::StatusOr<int32_t> MessageRules::CheckPulled(int32_t from, const WireMessage& message) {
  const int32_t number = Find(reader_at_, message.edge);
  if (number < 0 || readers_[number].rank != from) {
    return Broken(
        from, "\"pulled\"", "it of an edge of this rank, of its reader",
        absl::StrCat(EdgeText(message.edge),
                     number < 0 ? ", which nobody reads"
                                : absl::StrCat(", which rank ", readers_[number].rank, " reads")));
  }
  Reader& reader = readers_[number];
  const int64_t limit = reader.told->load();
  if (reader.pulled.Take(message.sequence, limit)) return number;
  return Broken(from, absl::StrCat("\"pulled\" of ", EdgeText(message.edge), " with a number"),
                reader.pulled.Expected(limit), absl::StrCat(message.sequence));
}

// "reads 1 12 00ff00ff00ff00ff": a line for each rank that it reads of, and for each that reads of
// it.
absl::Status MessageRules::CheckHello(int32_t from, const WireMessage& message) {
  const auto broken = [&](absl::string_view expected, absl::string_view got) {
    return Broken(from, "\"hello\"", expected, got);
  };
  Peer& peer = peers_[from];
  if (std::exchange(peer.hello, true)) return broken("it once", "it again");
  std::vector<bool> named(2 * static_cast<size_t>(ranks_));
  for (const absl::string_view line : absl::StrSplit(message.edges, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 4));
    const bool reads = words[0] == "reads";
    int32_t other = 0;
    int64_t count = 0;
    const bool good = words.size() == 4 && (reads || words[0] == "serves") &&
                      absl::SimpleAtoi(words[1], &other) && other >= 0 && other < ranks_ &&
                      other != from && absl::SimpleAtoi(words[2], &count) && count > 0 &&
                      words[3].size() <= 16;
    const size_t place = good ? 2 * static_cast<size_t>(other) + (reads ? 1 : 0) : 0;
    if (!good || named[place]) {
      return broken("a line of edges for each rank that it reads of or serves",
                    absl::StrCat("\"", line.substr(0, 80), "\""));
    }
    named[place] = true;
  }
  return absl::OkStatus();
}

absl::Status MessageRules::CheckWelcome(int32_t from, const WireMessage& message) {
  const bool good = message.code == 0;
  if (std::exchange(welcome_, true)) return Broken(from, "\"welcome\"", "it once", "it again");
  if (!good || joins_) return absl::OkStatus();
  return Broken(from, "\"welcome\"", "it once this rank has said hello", "it before");
}

// A session begins no more steps than so many before the first of them is over everywhere.
absl::Status MessageRules::CheckBegan(int32_t from, const WireMessage& message) {
  RETURN_IF_ERROR(CheckProgram(from, message));
  return CheckNumber(from, message, all_over_.load() + kStepsAhead, &peers_[from].begun);
}

absl::Status MessageRules::CheckEnded(int32_t from, const WireMessage& message) {
  RETURN_IF_ERROR(CheckProgram(from, message));
  Peer& peer = peers_[from];
  const int32_t program = message.edge.program;
  RETURN_IF_ERROR(
      CheckNumber(from, message, over_[program].load() + kStepsAhead, &peer.ended[program]));
  // What is kept of steps goes when all have begun them.
  if (++peer.all_ended <= peer.begun.count() + kMostBeginningsLate) return absl::OkStatus();
  return Broken(from, "\"ended\"", "it of steps that it has begun",
                absl::StrCat(peer.all_ended, " of them and ", peer.begun.count(), " begun"));
}

// Before a step is over it has ended here: until then its workers use what the session writes next.
absl::Status MessageRules::CheckOver(int32_t from, const WireMessage& message) {
  RETURN_IF_ERROR(CheckProgram(from, message));
  const int32_t program = message.edge.program;
  return CheckNumber(from, message, ended_[program].load(), &over_said_[program]);
}

absl::Status MessageRules::CheckSays(int32_t from, const WireMessage& message) {
  const auto asker = static_cast<size_t>(message.asker);
  return CheckNumber(from, message, answered_[asker].load() + 1 + kMostUnanswered,
                     &peers_[from].says[asker]);
}

absl::Status MessageRules::CheckVerdict(int32_t from, const WireMessage& message) {
  const auto asker = static_cast<size_t>(message.asker);
  return CheckNumber(from, message, asked_[asker].load(), &verdicts_[asker]);
}

// A rank that ends for a reason may say so of itself and of others, more than once, and a net says
// it for one that is lost.
absl::Status MessageRules::CheckLeft(int32_t from, const WireMessage& message) {
  const int64_t steps = begun_.load() + kStepsAhead;
  const int64_t questions = asked_[static_cast<size_t>(message.asker)].load() + 1 + kMostUnanswered;
  if (message.sequence < 0 || message.sequence > steps) {
    return Broken(from, "\"left\"", absl::StrCat("0 to ", steps, " steps"),
                  absl::StrCat(message.sequence));
  }
  if (message.number >= 0 && message.number <= questions) return absl::OkStatus();
  return Broken(from, "\"left\"", absl::StrCat("0 to ", questions, " questions"),
                absl::StrCat(message.number));
}

absl::Status MessageRules::CheckAskWaits(int32_t from, const WireMessage& message) {
  if (from >= kWaitLeaders) {
    return Broken(from, "\"waits?\"", absl::StrCat("it of ranks below ", kWaitLeaders), "it");
  }
  if (message.sequence == kStoodStill) return absl::OkStatus();
  SaidNumbers& asks = peers_[from].asks_waits;
  const int64_t limit = asks.count() + kMostRoundsLate;
  if (asks.Take(RoundOf(message), limit)) return absl::OkStatus();
  return Broken(from, "\"waits?\" with a round", absl::StrCat("1 to ", limit, ", each once"),
                absl::StrCat(message.sequence));
}

absl::Status MessageRules::CheckWaits(int32_t from, const WireMessage& message) {
  Peer& peer = peers_[from];
  const auto broken = [&](absl::string_view expected, absl::string_view got) {
    return Broken(from, "\"waits\"", expected, got);
  };
  const std::string number = absl::StrCat("number ", message.sequence);
  if (message.sequence == kLoads) {
    if (rank_ != 0) return broken("loads to be said to rank 0 alone", number);
  } else if (rank_ >= kWaitLeaders) {
    return broken(absl::StrCat("it to be said to ranks below ", kWaitLeaders), number);
  } else if (message.sequence == kIntroduction) {
    if (std::exchange(peer.introduced, true)) return broken("an introduction once", "it again");
  } else {
    const int64_t rounds = rounds_.load(), oldest = std::max<int64_t>(0, rounds - kMostRoundsLate);
    const int64_t round = RoundOf(message);
    peer.waits.Forget(oldest);
    const bool is_too_late = round >= 0 && round < oldest;
    if (!is_too_late && !peer.waits.Take(round, rounds)) {
      return broken(absl::StrCat("an answer to one of ", rounds, " rounds, once"), number);
    }
  }
  const absl::StatusOr<RankWaits> waits = WaitsFromBytes(message.text, from);
  if (!waits.ok()) {
    return broken("a table of its own", absl::StrCat(message.text.size(), " bytes that are none"));
  }
  const absl::Status good = CheckRankWaits(plan_, ranks_, *waits);
  return good.ok() ? good : broken("numbers of its own", good.message());
}

absl::Status MessageRules::CheckClock(int32_t from, const WireMessage& message) {
  const bool asks = message.kind == Kind::kAskClock;
  if (message.sequence < 0 || message.sequence >= kMostTime || message.number < 0 ||
      message.number >= kMostTime) {
    return Broken(from, NameOf(message.kind), absl::StrCat("times of 0 to ", kMostTime),
                  absl::StrCat(message.sequence, " and ", message.number));
  }
  if (asks || (clock_ != nullptr && clock_->Awaits(message.sequence))) return absl::OkStatus();
  return Broken(from, "\"clock\"", "an answer to what was asked", "another");
}

}  // namespace sluice
