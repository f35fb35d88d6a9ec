// From the program of the representatives, the representative program, to the program of all
// devices, and back. A device's actors and registers are those of its representative, one by one;
// what only the first device of a class has, the fetches, stands behind the others.
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
  // reuse edges and offsets are found.
  plan::Program RepresentativeProgram() const;
  // Gives the full program the representative program's recorded order and its offsets.
  void Expand(const plan::Program& representative_program, plan::Program* program) const;
  // By instance of a step of the full program: the value of its image among the representative
  // program's instances.
  std::vector<int32_t> LiftInstances(const plan::Program& representative_program,
                                     absl::Span<const int32_t> by_instance) const;

 private:
  // A device's own, in the order of the program.
  struct Own {
    std::vector<int32_t> streams, actors, registers, temporaries;
  };

  const plan::Program& program_;
  std::vector<Own> own_;  // by device
  absl::Span<const int32_t> representative_;
  // From the full program's numbers to the representative program's; -1: not in it.
  std::vector<int32_t> to_stream_, to_actor_, to_register_, to_temporary_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_EXPANSION_H_
