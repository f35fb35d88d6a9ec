// What another rank may say to this one, and when: of each message who may send it, and that every
// number in it is one of the plan that this rank has compiled and follows from what both have said
// before. Asked before anything else looks at a message, so that whoever handles it may use its
// numbers as they are: workers count tokens and acknowledge slots by them without looking again.
//
// Messages may overtake each other (comm_net.h), so numbers come in any order: each may come once,
// and none is above a limit that follows from what this rank has done itself.
#ifndef SLUICE_FRAMEWORK_RUNTIME_MESSAGE_RULES_H_
#define SLUICE_FRAMEWORK_RUNTIME_MESSAGE_RULES_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/comm/comm_net.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

class RankClock;

// "program 0, register 3 of device 1, read by item 7 of device 2"
std::string EdgeText(const Edge& edge);

// Numbers from 0 on that somebody says one after another, each once.
class SaidNumbers {
 public:
  // False: it is not below the limit, or was said before. What was left out is kept, and how far
  // the limit may run ahead of what was said bounds that.
  bool Take(int64_t number, int64_t limit) {
    if (number == next_ && number < limit) {
      ++next_;
      return true;
    }
    return TakeLate(number, limit);
  }
  int64_t count() const { return next_ - left_out(); }
  // Below the highest, not said, and kept.
  int64_t left_out() const { return static_cast<int64_t>(late_.size()); }
  // Nobody asks any more whether numbers below this one were said.
  void Forget(int64_t below);
  // "one below 4 that was not said yet, as 2"
  std::string Expected(int64_t limit) const;

 private:
  bool TakeLate(int64_t number, int64_t limit);

  int64_t next_ = 0;           // above all that were said
  std::vector<int64_t> late_;  // below it, not said
};

class MessageRules {
 public:
  // Plan and clock must outlive it. Null: this rank asks for no time.
  MessageRules(const plan::Plan* plan, int32_t rank, int32_t ranks, const RankClock* clock);

  // The edges of this rank, before the net is open; pulls and readers are numbered apart, from 0.
  // `told`: how many tokens of it this rank has told. A pull brings so many tokens a step. False:
  // the edge has one already.
  bool AddReader(const Edge& edge, int32_t reader, const std::atomic<int64_t>* told);
  bool AddPull(const Edge& edge, int32_t owner, int64_t tokens);
  // Of an edge that others read; -1: there is none.
  int32_t FindReader(const Edge& edge) const { return Find(reader_at_, edge); }

  // What this rank does, and others may answer. Any thread; before it is said.
  void Joins() { joins_ = true; }
  void Began() { ++begun_; }
  void Ended(int program, int64_t step);
  void Asked(Asker asker) { ++asked_[static_cast<size_t>(asker)]; }
  // Of rank 0: what it has said to all.
  void Over(int program) { ++over_[program], ++all_over_; }
  void Answered(Asker asker) { ++answered_[static_cast<size_t>(asker)]; }
  void AskedWaits(int64_t round) { rounds_ = round; }

  // Of a token the number of its pull, of what was pulled that of its reader, of all else 0. Errors
  // are Internal and name the rank, what it said, what was expected of it and what came. One call
  // at a time.
  absl::StatusOr<int32_t> Check(int32_t from, const WireMessage& message);
  // Numbers that others have left out and that this rank keeps, as they may come late. For tests.
  int64_t left_out() const;
  // Its part of that text. Any thread.
  absl::Status Broken(int32_t from, absl::string_view said, absl::string_view expected,
                      absl::string_view got) const;

 private:
  struct Reader {
    int32_t rank;
    const std::atomic<int64_t>* told;
    SaidNumbers pulled;
  };
  struct Pull {
    int32_t rank;
    int64_t tokens;  // a step
    SaidNumbers told;
  };
  // What one other rank has said.
  struct Peer {
    bool hello = false, introduced = false;
    SaidNumbers begun, asks_waits, waits;
    std::vector<SaidNumbers> ended;  // by program
    int64_t all_ended = 0;
    std::array<SaidNumbers, kAskers> says;
  };

  static int32_t Find(const std::map<Edge, int32_t>& edges, const Edge& edge) {
    const auto found = edges.find(edge);
    return found == edges.end() ? -1 : found->second;
  }
  absl::Status CheckSender(int32_t from, const WireMessage& message) const;
  absl::Status CheckProgram(int32_t from, const WireMessage& message) const;
  absl::Status CheckNumber(int32_t from, const WireMessage& message, int64_t limit,
                           SaidNumbers* said) const;
  absl::StatusOr<int32_t> CheckToken(int32_t from, const WireMessage& message);
  absl::StatusOr<int32_t> CheckPulled(int32_t from, const WireMessage& message);
  absl::Status CheckHello(int32_t from, const WireMessage& message);
  absl::Status CheckWelcome(int32_t from, const WireMessage& message);
  absl::Status CheckBegan(int32_t from, const WireMessage& message);
  absl::Status CheckEnded(int32_t from, const WireMessage& message);
  absl::Status CheckOver(int32_t from, const WireMessage& message);
  absl::Status CheckSays(int32_t from, const WireMessage& message);
  absl::Status CheckVerdict(int32_t from, const WireMessage& message);
  absl::Status CheckLeft(int32_t from, const WireMessage& message);
  absl::Status CheckAskWaits(int32_t from, const WireMessage& message);
  absl::Status CheckWaits(int32_t from, const WireMessage& message);
  absl::Status CheckClock(int32_t from, const WireMessage& message);

  const plan::Plan& plan_;
  const int32_t rank_, ranks_;
  const RankClock* const clock_;
  std::vector<Reader> readers_;
  std::vector<Pull> pulls_;
  std::map<Edge, int32_t> reader_at_, pull_at_;

  std::atomic<bool> joins_{false};
  std::atomic<int64_t> begun_{0}, all_over_{0}, rounds_{0};
  std::array<std::atomic<int64_t>, kAskers> asked_{}, answered_{};
  // By program: steps that are through here, counted by the highest; that are over.
  std::unique_ptr<std::atomic<int64_t>[]> ended_, over_;

  // Of the thread that checks.
  std::vector<Peer> peers_;             // by rank
  bool welcome_ = false;                // rank 0 has said so
  std::vector<SaidNumbers> over_said_;  // by program, by rank 0
  std::array<SaidNumbers, kAskers> verdicts_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_MESSAGE_RULES_H_
