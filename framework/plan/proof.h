// The proof that a program cannot deadlock. No token has two possible takers, so one greedy run of
// one step decides: it is live iff every actor completes its firings, rates being right. A
// collective fires as one node. The position of each instance in that run is the certificate; it
// can be checked wait by wait, in any order, without a run. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_PROOF_H_
#define SLUICE_FRAMEWORK_PLAN_PROOF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/base/stop.h"
#include "framework/plan/program_index.h"

namespace sluice {

struct Certificate {
  std::vector<int32_t> position;  // of each instance of a step; members of a collective share one
};

// A ring of waits, none of which can end first. Each `waiting` instance waits for `wait`, an
// instance of the next entry's actor.
struct Deadlock {
  struct Link {
    ProgramIndex::Instance waiting;
    ProgramIndex::Wait wait;
  };
  std::vector<Link> cycle;
  std::string ToString(const ProgramIndex& index) const;
};

// FailedPrecondition names the cycle in the user's words; `deadlock`, if given, holds it too.
// InvalidArgument if rates are wrong, Cancelled where `stop` says so.
absl::Status ProveLive(const ProgramIndex& index, Certificate* certificate,
                       Deadlock* deadlock = nullptr, const Stop& stop = {});
absl::Status CheckCertificate(const ProgramIndex& index, const Certificate& certificate,
                              const Stop& stop = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_PROOF_H_
