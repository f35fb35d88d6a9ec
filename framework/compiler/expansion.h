// Makes the program of a rank out of the representative program: that of all devices, where there
// is one rank. A device's actors and registers are those of its representative, one by one; what
// only the first device of a class has, the fetches, stands behind the others. What ranks exchange
// has a counterpart there, too: the item that reads in place what is pulled here, which both know
// by its number.
#ifndef SLUICE_FRAMEWORK_COMPILER_EXPANSION_H_
#define SLUICE_FRAMEWORK_COMPILER_EXPANSION_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Leaves of a boxing what order, bytes and proof need: which storage it reads, each once. Where in
// it each device's regions lie differs from device to device.
void OutlineBoxing(plan::Instruction* instruction);

// When instances of a step begin and end, on one scale.
struct InstanceRanks {
  std::vector<int32_t> begin, end;
};

class Expansion {
 public:
  // `representatives`: by device of the plan. All must outlive this.
  Expansion(const plan::Program& representative_program, const plan::Program& program,
            absl::Span<const int32_t> representatives);

  // Gives the program, which must be the one above, the representative program's recorded order,
  // quotas and offsets. Staging has no counterpart and gets none. Internal names a register that
  // does not fit into what its representative has.
  absl::Status Expand(plan::Program* program) const;
  // From the ranks of the representative program's instances to those of the program's. A pull
  // stands where its token has been emitted and its staging is free; the reader that it brings it
  // to comes later, because in the representative program it waited for both. So what waits in
  // this order waits in that one, and no pull can close a cycle.
  InstanceRanks Lift(absl::Span<const int32_t> begin, absl::Span<const int32_t> end) const;

 private:
  // A device's own, in the order of the program.
  struct Own {
    std::vector<int32_t> streams, actors, registers, temporaries;
  };
  // An instruction of the representative program.
  struct Item {
    int32_t actor = -1, instruction = -1;
  };

  static std::vector<Own> OwnOf(const plan::Program& program, size_t devices);
  void Match(const Own& mine, const Own& theirs, size_t device);
  void NameItems();
  int32_t InstanceOf(const Item& item, int64_t firing) const;
  Item ReaderOf(int32_t device, int32_t number) const;
  int32_t EmittedAt(int32_t device, int32_t number, int64_t token,
                    absl::Span<const int32_t> end) const;
  void LiftEdge(const plan::Actor& actor, absl::Span<const int32_t> begin,
                absl::Span<const int32_t> end, InstanceRanks* lifted) const;

  const plan::Program& representative_program_;
  const plan::Program& program_;
  absl::Span<const int32_t> representative_;
  std::vector<Own> own_;  // by device
  // From the program's numbers to the representative program's; -1: not in it.
  std::vector<int32_t> to_stream_, to_actor_, to_register_, to_temporary_;
  std::vector<int32_t> first_instance_;  // by actor of the representative program
  // By device and number: who reads under it, and the register that has it.
  std::map<std::pair<int32_t, int32_t>, Item> readers_;
  std::map<std::pair<int32_t, int32_t>, int32_t> registers_;
  std::vector<Item> last_write_;  // by register of the representative program
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_EXPANSION_H_
