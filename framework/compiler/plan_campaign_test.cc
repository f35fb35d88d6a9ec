// The proof against execution, on ten thousand random plans, half of them broken in one place.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/actor/virtual_clock.h"
#include "framework/compiler/memory.h"
#include "framework/plan/proof.h"
#include "framework/plan/text.h"
#include "framework/plan/validate.h"
#include "framework/testing/interleaver.h"
#include "framework/testing/random_program.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kPlans = 10'000;

struct Verdict {
  absl::Status live, bytes;
  Deadlock deadlock;
  Certificate certificate;
};

Verdict Judge(const plan::Program& program, bool packed) {
  Verdict verdict;
  const auto index = ProgramIndex::Build(program);
  verdict.live = index.ok() ? ValidateProgram(*index) : index.status();
  if (!verdict.live.ok()) return verdict;
  verdict.live = ProveLive(*index, &verdict.certificate, &verdict.deadlock);
  if (!verdict.live.ok()) return verdict;
  EXPECT_EQ(CheckCertificate(*index, verdict.certificate), absl::OkStatus());
  if (packed) verdict.bytes = CheckPacking(program);
  return verdict;
}

// Runs it twice, for different numbers of steps (a wrong rate may come out even over one of them).
// Programs that are live are held against the reference; states go from run to run.
absl::Status Execute(const plan::Program& program, const Verdict& verdict, int seed) {
  const auto index = ProgramIndex::Build(program);
  if (!index.ok()) return index.status();
  SymbolicState state = {{"w0", 2}, {"w1", 3}, {"step", 5}};
  for (int steps : {3, 2}) {
    InterleaverOptions options;
    options.seed = 7 * seed + steps;
    options.steps = steps;
    options.fifo = seed % 4 > 0;
    options.launch_ahead = seed % 3 == 0;
    options.initial = state;
    const auto run = RunInterleaved(*index, options);
    if (!run.ok()) return run.status();
    if (!verdict.live.ok()) continue;
    const SymbolicOutcome reference = RunReference(*index, verdict.certificate, steps, state);
    if (run->outcome.log != reference.log || run->outcome.state != reference.state) {
      return absl::InternalError("other values than the reference's");
    }
    for (const auto& [name, value] : reference.state) state[name] = value;
  }
  return absl::OkStatus();
}

// Does one token on one of the cycle's own waits make the program live again?
bool OneTokenRevives(const plan::Program& program, const Deadlock& deadlock) {
  for (const Deadlock::Link& link : deadlock.cycle) {
    plan::Program mended = program;
    if (link.wait.kind == ProgramIndex::WaitKind::kToken) {
      plan::Register* r = mended.mutable_registers(link.wait.what);
      r->set_initial_tokens(r->initial_tokens() + 1);
      r->set_quota(std::max(r->quota(), r->initial_tokens()));
    } else if (link.wait.kind == ProgramIndex::WaitKind::kSlot) {
      bool in_ring = false;
      for (plan::Ring& ring : *mended.mutable_rings()) {
        for (int32_t take : ring.registers()) {
          if (take != link.wait.what || in_ring) continue;
          ring.set_slots(ring.slots() + 1);
          in_ring = true;
        }
      }
      plan::Register* r = mended.mutable_registers(link.wait.what);
      if (!in_ring) r->set_quota(r->quota() + 1);
    } else {
      continue;
    }
    if (Judge(mended, false).live.ok()) return true;
  }
  return false;
}

struct Tally {
  int plans = 0, live = 0, dead = 0, invalid = 0, bytes_refused = 0, hazards = 0, revived = 0,
      token_dead = 0;
  std::string ToString() const {
    return absl::StrCat(plans, " plans: ", live, " live, ", dead, " dead, ", invalid, " invalid, ",
                        bytes_refused, " live but bytes refused, ", hazards,
                        " of them seen to fail; ", revived, " of ", token_dead,
                        " revived by one token");
  }
};

void Try(int seed, std::map<std::string, Tally>* tallies) {
  static const char* const kNames[] = {"token", "quota", "slot", "edge", "order", "rate", "reuse"};
  std::mt19937 random(seed);
  plan::Program program = RandomProgram(&random);
  const auto recorded = RecordOrder(&program);
  ASSERT_TRUE(recorded.ok()) << "seed " << seed << recorded.status() << program.DebugString();
  const bool packed = random() % 10 < 7;
  if (packed) {
    PackingOptions options;
    if (random() % 2 == 0) {
      options.take.in_place = [](absl::string_view, size_t) { return true; };
    }
    const auto packing = PackMemory(&program, options);
    ASSERT_TRUE(packing.ok()) << "seed " << seed << packing.status();
  }
  Break broken;
  if (seed % 2 == 1) {
    for (int tries = 0; tries < 20 && !broken.done; ++tries) {
      broken = BreakProgram(kBreakages[random() % std::size(kBreakages)], &random, &program);
    }
  }
  Verdict verdict = Judge(program, packed);
  if (!broken.done) {
    ASSERT_EQ(verdict.live, absl::OkStatus()) << "seed " << seed;
    ASSERT_EQ(verdict.bytes, absl::OkStatus()) << "seed " << seed;
  }
  Tally& tally = (*tallies)[broken.done ? kNames[static_cast<int>(broken.kind)] : "whole"];
  ++tally.plans;
  const absl::Status run = Execute(program, verdict, seed);
  if (verdict.live.ok() && !verdict.bytes.ok()) {
    ++tally.bytes_refused;
    absl::Status seen = run;  // a hazard need not show in every run
    for (int more = 1; more < 10 && seen.ok(); ++more) {
      seen = Execute(program, verdict, seed + more * kPlans);
    }
    tally.hazards += !seen.ok();
    return;
  }
  if (verdict.live.ok()) {
    ++tally.live;
    ASSERT_EQ(run, absl::OkStatus()) << "seed " << seed << "\n" << program.DebugString();
    return;
  }
  ASSERT_FALSE(run.ok()) << "seed " << seed << ": ran, though " << verdict.live << "\n"
                         << program.DebugString();
  if (verdict.deadlock.cycle.empty()) {
    ++tally.invalid;
    return;
  }
  ++tally.dead;
  if (broken.kind != Breakage::kToken && broken.kind != Breakage::kQuota &&
      broken.kind != Breakage::kSlot) {
    return;
  }
  if (broken.tokens > 1) return;
  ++tally.token_dead;
  const bool revived = OneTokenRevives(program, verdict.deadlock);
  tally.revived += revived;
  ASSERT_TRUE(revived) << "seed " << seed << verdict.live << "\n" << program.DebugString();
}

TEST(PlanCampaignTest, ProofAndExecutionAgree) {
  std::map<std::string, Tally> tallies;
  for (int seed = 0; seed < kPlans && !HasFatalFailure(); ++seed) Try(seed, &tallies);
  for (const auto& [name, tally] : tallies) {
    std::cout << name << ": " << tally.ToString() << "\n";
    if (name != "whole" && name != "reuse" && name != "slot") {
      EXPECT_GT(tally.dead + tally.invalid, name == "quota" ? 2 : 20) << name;
    }
    if (name == "reuse") {
      EXPECT_GT(tally.hazards, tally.bytes_refused / 3);
    }
  }
}

// Two programs over the same states, in turn: each begins from its own marking.
TEST(PlanCampaignTest, ProgramsShareStates) {
  for (int seed = 0; seed < 500; ++seed) {
    std::mt19937 random(1'000'000 + seed);
    plan::Program programs[2] = {RandomProgram(&random), RandomProgram(&random)};
    SymbolicState state = {{"w0", 2}, {"w1", 3}, {"step", 5}};
    for (plan::Program& program : programs) {
      ASSERT_TRUE(RecordOrder(&program).ok());
      ASSERT_TRUE(PackMemory(&program).ok());
    }
    for (int entry = 0; entry < 4; ++entry) {
      const auto index = ProgramIndex::Build(programs[entry % 2]);
      ASSERT_TRUE(index.ok());
      Certificate certificate;
      ASSERT_EQ(ProveLive(*index, &certificate), absl::OkStatus());
      InterleaverOptions options;
      options.seed = seed + entry;
      options.steps = 1 + entry;
      options.initial = state;
      const auto run = RunInterleaved(*index, options);
      ASSERT_TRUE(run.ok()) << run.status();
      const SymbolicOutcome reference = RunReference(*index, certificate, 1 + entry, state);
      ASSERT_EQ(run->outcome.log, reference.log);
      ASSERT_EQ(run->outcome.state, reference.state);
      for (const auto& [name, value] : reference.state) state[name] = value;
    }
  }
}

}  // namespace
}  // namespace sluice
