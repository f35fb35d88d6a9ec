// What ranks agree on, as one of them knows it: that all are there and have decided alike, when a
// step is over everywhere and with which error, answers to questions, who has left. Rank 0 keeps
// the count. What has happened goes in; what is to be said to others and to the session comes out.
// It knows no net, thread or clock. One thread at a time.
#ifndef SLUICE_FRAMEWORK_RUNTIME_RANK_AGREEMENT_H_
#define SLUICE_FRAMEWORK_RUNTIME_RANK_AGREEMENT_H_

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/comm/comm_net.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

class RankAgreement {
 public:
  // To be done in this order.
  struct Effects {
    struct Sent {
      int32_t to = -1;  // -1: to all others
      WireMessage message;
    };
    struct Over {
      int32_t program = 0;
      absl::Status error;
    };
    absl::Status abort;   // an error: no step that runs will ever end
    int32_t missed = -1;  // then: the rank that says nothing more, if that is why
    absl::InlinedVector<Sent, 1> sent;
    absl::InlinedVector<Over, 1> over;  // the next step of a program has ended everywhere
  };

  // The plan must outlive it.
  RankAgreement(const plan::Plan* plan, int32_t rank, int32_t ranks);

  // This rank is there. `edges`: what it reads of others and they of it (Edges).
  Effects Join(const std::string& edges);
  bool joined() const { return is_welcome_; }
  // On rank 0: who is not there yet.
  std::vector<int32_t> Missing() const;
  // Once joined. FailedPrecondition names the first decision that differs, or two ranks of which
  // one does not serve just what the other reads; Unavailable: one has left.
  const absl::Status& welcome() const { return welcome_; }
  // This rank takes no more part.
  Effects Leave() const;

  // A step of a program begins or has ended here; steps of a program end in their order. `error`:
  // of a kernel here.
  Effects Begin(int32_t program, int64_t number);
  Effects Ended(int32_t program, int64_t step, const absl::Status& error);

  // This rank's part of the asker's next question; its number is told.
  Effects Ask(Asker asker, const std::string& mine, int64_t* question);
  // Whether the question can be gone on with: on rank 0 all have said their part, on others there
  // is an answer; or nobody will give it any more.
  bool IsAnswered(Asker asker, int64_t question) const;
  // Rank 0, once it is answered: what all said, by rank; why they will not.
  absl::StatusOr<std::vector<std::string>> TakeSaid(Asker asker, int64_t question);
  // Rank 0, then.
  Effects Answer(Asker asker, int64_t question, const absl::StatusOr<std::string>& answer) const;
  // All others, once it is answered.
  absl::StatusOr<std::string> TakeAnswer(Asker asker, int64_t question);
  // How many this rank has asked, and how many of them are answered.
  std::pair<int64_t, int64_t> questions(Asker asker) const {
    return {Of(asker).asked, Of(asker).answered};
  }

  // Of the kinds that are about this; others have no effects.
  Effects On(int32_t from, const WireMessage& message);
  // A peer broke the protocol, or has gone: nothing that waits will be served any more.
  Effects Abort(const absl::Status& status);

 private:
  // What rank 0 knows of the n-th step that ranks begin, whatever its program.
  struct Beginning {
    int32_t ranks = 0;
    int32_t program = 0;
    int64_t number = 0;
  };
  // And of the end of a program's n-th.
  struct Ending {
    int32_t ranks = 0;
    int32_t error_rank = -1;
    absl::Status error;
  };
  // Questions of one asker.
  struct Questions {
    int64_t asked = 0, answered = 0;  // here
    // So many a rank that has left was asked; none has: more than there will ever be.
    int64_t left_after = std::numeric_limits<int64_t>::max();
    // By question: what ranks have said, on rank 0; the answer.
    std::map<int64_t, std::map<int32_t, std::string>> said;
    std::map<int64_t, absl::StatusOr<std::string>> answers;
  };

  bool is_first() const { return rank_ == 0; }
  Questions& Of(Asker asker) { return questions_[static_cast<int>(asker)]; }
  const Questions& Of(Asker asker) const { return questions_[static_cast<int>(asker)]; }
  // From this rank to rank 0, which may be this one.
  Effects ToFirst(WireMessage message);
  absl::Status CheckEdges() const;
  Effects OnHello(int32_t from, const WireMessage& message);
  Effects OnBegan(int32_t from, const WireMessage& message);
  Effects OnEnded(int32_t from, const WireMessage& message);
  Effects OnLeft(int32_t from, const WireMessage& message);

  const plan::Plan& plan_;
  const int32_t rank_, ranks_;
  const std::string decisions_;
  std::vector<bool> here_;  // on rank 0, by rank: has said hello
  // On rank 0, by (who reads, of whom): edges as the reader and as the owner of the bytes has them.
  std::map<std::pair<int32_t, int32_t>, std::pair<std::string, std::string>> edges_;
  bool is_welcome_ = false;
  absl::Status welcome_;
  int64_t begun_ = 0;   // steps here, of all programs
  absl::Status error_;  // of the first step that has failed, as all ranks are told
  // So many steps a rank that has left took part in; none has: more than there will ever be.
  int64_t left_after_ = std::numeric_limits<int64_t>::max();
  absl::Status left_;  // what to say of it
  int32_t who_left_ = -1;
  bool gone_ = false;  // it is lost, or left with an error: it answers no question any more
  std::map<int64_t, Beginning> beginnings_;                // of steps of all programs
  std::map<std::pair<int32_t, int64_t>, Ending> endings_;  // by program and step
  std::array<Questions, kAskers> questions_;               // by asker
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_RANK_AGREEMENT_H_
