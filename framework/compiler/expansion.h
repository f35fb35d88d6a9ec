// From the program of the representatives, the quotient, to the program of all devices, and back.
// A device's actors and registers are those of its representative, one by one; what only the first
// device of a class has, the fetches, stands behind the others.
#ifndef SLUICE_FRAMEWORK_COMPILER_EXPANSION_H_
#define SLUICE_FRAMEWORK_COMPILER_EXPANSION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Leaves of a boxing what order, bytes and proof need: which storage it reads, each once. Where in
// it each device's regions lie differs from device to device.
void OutlineBoxing(plan::Instruction* instruction);

class Expansion {
 public:
  // `representatives`: by device of the plan. The program must outlive this.
  Expansion(const plan::Program& program, absl::Span<const int32_t> representatives);

  // The program of the representatives alone, as compiling for them gives it before its order,
  // passes and offsets are found.
  plan::Program Quotient() const;
  // Gives the full program the quotient's recorded order and its offsets.
  void Expand(const plan::Program& quotient, plan::Program* program) const;
  // By event of a step of the full program: the value of its image among the quotient's events.
  std::vector<int32_t> LiftEvents(const plan::Program& quotient,
                                  absl::Span<const int32_t> by_event) const;

 private:
  // A device's own, in the order of the program.
  struct Own {
    std::vector<int32_t> streams, actors, registers, locals;
  };

  const plan::Program& program_;
  std::vector<Own> own_;  // by device
  absl::Span<const int32_t> representative_;
  // From the full program's numbers to the quotient's; -1: not in it.
  std::vector<int32_t> to_stream_, to_actor_, to_register_, to_local_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_EXPANSION_H_
