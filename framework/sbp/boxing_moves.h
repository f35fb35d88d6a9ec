// The general forms of boxing: always available, for any two layouts. They give moves; a step's
// moves all read what was there before the step. Internal to framework/sbp.
#ifndef SLUICE_FRAMEWORK_SBP_BOXING_MOVES_H_
#define SLUICE_FRAMEWORK_SBP_BOXING_MOVES_H_

#include <cstdint>
#include <vector>

#include "framework/machine/machine.h"
#include "framework/sbp/boxing_problem.h"
#include "framework/tensor/dtype.h"

namespace sluice {

// What a device writes and in which step; its last one of kHome, kEntry, kLast is its destination.
enum class MoveBuffer : uint8_t {
  kSource,   // what it had
  kNode,     // step 0: folds inside a node
  kTransit,  // step 1: folds on a device that does not want them
  kHome,     // step 1: wanted pieces, folded or (direct) merely fetched
  kEntry,    // step 2: wanted pieces, the first copy in a node
  kLast,     // step 3: wanted pieces, handed on
};
inline constexpr int kMoveBuffers = 6;
inline constexpr int kMoveSteps = 4;
inline constexpr int kWriteStep[kMoveBuffers] = {-1, 0, 1, 1, 2, 3};

// Moves of one step that follow each other with equal (to, write, box) are folded together.
struct Move {
  int from = 0, to = 0;
  int box = 0;      // in Moves::boxes
  FoldRange range;  // the partials that it carries
  MoveBuffer read = MoveBuffer::kSource, write = MoveBuffer::kHome;
};

struct Moves {
  std::vector<Box> boxes;
  std::vector<int64_t> volumes;  // of the boxes
  std::vector<Move> steps[kMoveSteps];
  bool identity = false;  // every device already holds what it wants, exactly
};

// kDirect: each wanter takes everything, in one step.
// kHome: each piece is reduced once at a device that wants it, then spread.
// kSource: each piece is reduced once at a device that holds a partial, then spread.
// kTwoLevel: reduced inside nodes, then between them; one copy enters a node and spreads inside.
enum class BoxingForm : uint8_t { kDirect, kHome, kSource, kTwoLevel };

Moves GeneralMoves(const BoxingProblem& problem, const std::vector<BoxingTarget>& targets,
                   BoxingForm form);

struct BoxingCost {
  int64_t nanoseconds = 0;
  int64_t bytes = 0;  // between devices
  friend bool operator==(const BoxingCost&, const BoxingCost&) = default;
  friend auto operator<=>(const BoxingCost&, const BoxingCost&) = default;  // time, then bytes
  friend BoxingCost operator+(const BoxingCost& a, const BoxingCost& b) {
    return {a.nanoseconds + b.nanoseconds, a.bytes + b.bytes};
  }
};

// What the busiest device does in a step, in elements; `crossing` is of all devices together.
struct StepLoad {
  int64_t local = 0, near = 0, far = 0, crossing = 0;
};
BoxingCost CostOf(const StepLoad& load, DType dtype, const Machine& machine);

// The non-empty steps' costs: latency and the busiest port (in or out, inside or between nodes) or
// the local copies of a device, whichever takes longer.
std::vector<BoxingCost> StepCosts(const Moves& moves, const BoxingProblem& problem, DType dtype,
                                  const Machine& machine);

// Problems over disjoint devices run side by side: add each one's steps, `times` over, then sum.
class StageCost {
 public:
  void Add(const std::vector<BoxingCost>& steps, bool identity, int64_t times);
  // Zero if all were identities.
  BoxingCost Sum(const Machine& machine) const;

 private:
  std::vector<BoxingCost> steps_;
  bool identity_ = true;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_BOXING_MOVES_H_
