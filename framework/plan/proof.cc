#include "framework/plan/proof.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/plan/validate.h"

namespace sluice {
namespace {

using Wait = ProgramIndex::Wait;
using WaitKind = ProgramIndex::WaitKind;
using Instance = ProgramIndex::Instance;

class GreedyRun {
 public:
  explicit GreedyRun(const ProgramIndex& index)
      : index_(index),
        done_(index.num_actors(), 0),
        position_(index.num_instances(), -1),
        first_waiter_(index.num_instances(), -1),
        next_waiter_(index.num_actors(), -1),
        asleep_(index.num_actors(), false) {}

  // To the end, unless it is told to stop.
  void Run(const Stop& stop) {
    for (int a = index_.num_actors() - 1; a >= 0; --a) todo_.push_back(a);
    while (!todo_.empty() && (!stop || !stop())) {
      const int32_t a = todo_.back();
      todo_.pop_back();
      while (!asleep_[a] && !Finished(a)) {
        Deadlock::Link lack;
        if (Blocked(a, &lack)) {
          Sleep(a, lack.wait);
          break;
        }
        Fire(a);
      }
    }
  }

  bool Finished(int a) const {
    return done_[a] == index_.actor(a).firings * index_.actor(a).length;
  }
  std::vector<int32_t> PlacePositions() { return std::move(position_); }

  // Follows what each stuck actor waits for until an actor comes back.
  Deadlock FindCycle() const {
    std::vector<int> entered(index_.num_actors(), -1);
    std::vector<Deadlock::Link> path;
    int a = 0;
    while (Finished(a)) ++a;
    while (entered[a] < 0) {
      entered[a] = static_cast<int>(path.size());
      Deadlock::Link lack;
      SLUICE_CHECK(Blocked(a, &lack)) << index_.ActorName(a) << " is not stuck";
      path.push_back(lack);
      a = lack.wait.actor;
      SLUICE_CHECK(!Finished(a)) << index_.ActorName(a) << " is waited for though it has finished";
    }
    path.erase(path.begin(), path.begin() + entered[a]);
    return {std::move(path)};
  }

 private:
  // The first thing that the next instance of an actor, or of its peers in a collective, waits for.
  bool Blocked(int a, Deadlock::Link* lack) const {
    const Instance e = index_.InstanceAt(index_.actor(a).first_instance + done_[a]);
    const int32_t collective = index_.CollectiveOf(a, e.instruction);
    if (collective < 0) return Waits(e, lack);
    for (const ProgramIndex::Member& m : index_.Members(collective)) {
      const int32_t at = e.firing * index_.actor(m.actor).length + m.instruction;
      if (done_[m.actor] < at) {
        const Instance before = index_.InstanceAt(index_.actor(m.actor).first_instance + at - 1);
        *lack = {e,
                 {WaitKind::kCollective, collective, m.actor, before.firing, before.instruction}};
        return true;
      }
      if (Waits({m.actor, e.firing, m.instruction}, lack)) return true;
    }
    return false;
  }

  bool Waits(const Instance& e, Deadlock::Link* lack) const {
    bool found = false;
    index_.ForEachWait(e.actor, e.firing, e.instruction, [&](const Wait& wait) {
      if (found) return;
      const int64_t at = wait.firing * index_.actor(wait.actor).length + wait.instruction;
      if (done_[wait.actor] > at) return;
      *lack = {e, wait};
      found = true;
    });
    return found;
  }

  void Sleep(int a, const Wait& wait) {
    const int32_t instance = index_.InstanceOf(wait.actor, wait.firing, wait.instruction);
    next_waiter_[a] = first_waiter_[instance];
    first_waiter_[instance] = a;
    asleep_[a] = true;
  }

  void Fire(int a) {
    const Instance e = index_.InstanceAt(index_.actor(a).first_instance + done_[a]);
    const int32_t collective = index_.CollectiveOf(a, e.instruction);
    if (collective < 0) {
      Pass(a);
    } else {
      for (const ProgramIndex::Member& m : index_.Members(collective)) {
        Pass(m.actor);
        if (m.actor != a) todo_.push_back(m.actor);
      }
    }
    ++count_;
  }

  void Pass(int a) {
    const int32_t instance = index_.actor(a).first_instance + done_[a]++;
    position_[instance] = count_;
    for (int32_t w = first_waiter_[instance]; w >= 0; w = next_waiter_[w]) {
      asleep_[w] = false;
      todo_.push_back(w);
    }
    first_waiter_[instance] = -1;
  }

  const ProgramIndex& index_;
  std::vector<int32_t> done_;          // instances of each actor, in script order
  std::vector<int32_t> position_;      // by instance
  std::vector<int32_t> first_waiter_;  // by instance: actors that sleep until it is past
  std::vector<int32_t> next_waiter_;   // by actor
  std::vector<bool> asleep_;           // an actor may be on the list to do twice, here once
  std::vector<int32_t> todo_;
  int32_t count_ = 0;
};

std::string Owed(const ProgramIndex& index, const Wait& wait) {
  switch (wait.kind) {
    case WaitKind::kToken:
      return absl::StrCat("for ", index.RegisterName(wait.what), " from ");
    case WaitKind::kSlot: {
      const ProgramIndex::Register& r = index.reg(wait.what);
      return absl::StrCat("for a free slot of ", index.RegisterName(wait.what), " (it has ",
                          index.ring(r.ring).slots, ") from ");
    }
    case WaitKind::kReuse:
      return "for bytes to be handed over by ";
    case WaitKind::kOrder:
      return absl::StrCat("in the order of ", index.StreamName(wait.what), " for ");
    case WaitKind::kCollective:
      return "for its peer in a collective, which comes after ";
    case WaitKind::kScript:
      return "in its script for ";
  }
  return "";
}

}  // namespace

std::string Deadlock::ToString(const ProgramIndex& index) const {
  std::string text;
  for (const Link& link : cycle) {
    const Instance& e = link.waiting;
    absl::StrAppend(&text, "\n  ", index.Describe(e.actor, e.firing, e.instruction), " waits ",
                    Owed(index, link.wait),
                    index.Describe(link.wait.actor, link.wait.firing, link.wait.instruction));
  }
  return text;
}

absl::Status ProveLive(const ProgramIndex& index, Certificate* certificate, Deadlock* deadlock,
                       const Stop& stop) {
  RETURN_IF_ERROR(CheckRates(index));
  for (int c = 0; c < index.num_collectives(); ++c) {
    const auto members = index.Members(c);
    for (const ProgramIndex::Member& m : members) {
      if (index.actor(m.actor).firings == index.actor(members[0].actor).firings) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("program \"", index.program().name(), "\": ", index.ActorName(m.actor),
                       " does not fire as often as its peers in a collective"));
    }
  }
  GreedyRun run(index);
  run.Run(stop);
  RETURN_IF_ERROR(CheckStop(stop));
  int stuck = 0;
  for (int a = 0; a < index.num_actors(); ++a) stuck += !run.Finished(a);
  if (stuck == 0) {
    certificate->position = run.PlacePositions();
    return {};
  }
  Deadlock found = run.FindCycle();
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("program \"", index.program().name(), "\" would deadlock, ", stuck, " of ",
                   index.num_actors(), " actors stuck:", found.ToString(index)));
  if (deadlock != nullptr) *deadlock = std::move(found);
  return status;
}

absl::Status CheckCertificate(const ProgramIndex& index, const Certificate& certificate,
                              const Stop& stop) {
  if (certificate.position.size() != static_cast<size_t>(index.num_instances())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "program \"", index.program().name(), "\": the certificate has ",
        certificate.position.size(), " positions for ", index.num_instances(), " instances"));
  }
  for (int32_t n = 0; n < index.num_instances(); ++n) {
    RETURN_IF_ERROR(CheckStop(stop));
    const Instance e = index.InstanceAt(n);
    const Wait* broken = nullptr;
    Wait kept;
    auto check = [&](const Wait& wait) {
      const int32_t before = index.InstanceOf(wait.actor, wait.firing, wait.instruction);
      if (wait.firing < index.actor(wait.actor).firings &&
          certificate.position[before] < certificate.position[n]) {
        return;
      }
      kept = wait;
      broken = &kept;
    };
    index.ForEachWait(e.actor, e.firing, e.instruction, check);
    if (const int32_t c = index.CollectiveOf(e.actor, e.instruction); c >= 0) {
      const ProgramIndex::Member& m = index.Members(c).front();
      const int32_t peer = index.InstanceOf(m.actor, e.firing, m.instruction);
      if (certificate.position[peer] != certificate.position[n]) {
        kept = {WaitKind::kCollective, c, m.actor, e.firing, m.instruction};
        broken = &kept;
      }
    }
    if (broken == nullptr) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "program \"", index.program().name(), "\": the certificate puts ",
        index.Describe(e.actor, e.firing, e.instruction), " too early: it waits ",
        Owed(index, *broken), index.Describe(broken->actor, broken->firing, broken->instruction)));
  }
  return {};
}

}  // namespace sluice
