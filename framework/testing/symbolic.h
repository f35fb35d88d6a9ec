// What instructions of plans written for tests mean: whole numbers, one a register slot or
// temporary, modulo a prime. It lets a test compare what actors computed with plain loops. Pure;
// any thread.
//   feed "c"    c + 3 * firing               copy   its input, or c    add, sum   of inputs and c's
//   mul         product                    sq     square             clip       1 + sum mod 7
//   log         notes its inputs           else   7 * firing + 2 x + 3 y + 4 z ...
// An instruction with `updates` adds its value to what is there, "subtract" subtracts; the first
// firing that adds up a token which has no initial value begins at 0. A collective's value is the
// sum over all members.
#ifndef SLUICE_FRAMEWORK_TESTING_SYMBOLIC_H_
#define SLUICE_FRAMEWORK_TESTING_SYMBOLIC_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "framework/plan/program_index.h"
#include "framework/plan/proof.h"

namespace sluice {

constexpr int64_t kSymbolicPrime = 1'000'003;

struct SymbolicOp {
  enum class Kind { kFeed, kCopy, kSum, kMul, kSquare, kClip, kLog, kMix };
  Kind kind = Kind::kMix;
  bool subtract = false;
  std::vector<int64_t> constants;

  static SymbolicOp Of(const plan::Instruction& instruction);
  int64_t Evaluate(int64_t firing, const std::vector<int64_t>& inputs) const;
};

// `added` joined to what was there by an update.
int64_t Updated(const SymbolicOp& op, int64_t old, int64_t added);

// (actor, firing, instruction, inputs) of a "log".
using LogEntry = std::tuple<std::string, int64_t, int32_t, std::vector<int64_t>>;
// Values of registers by name: what tokens hold at the start, and at the end.
using SymbolicState = std::map<std::string, int64_t>;

struct SymbolicOutcome {
  std::vector<LogEntry> log;  // sorted
  SymbolicState state;        // of registers with initial tokens: the last token
};

// What every interleaving must compute: token by token, in the order of the certificate.
SymbolicOutcome RunReference(const ProgramIndex& index, const Certificate& certificate, int steps,
                             const SymbolicState& initial);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_SYMBOLIC_H_
