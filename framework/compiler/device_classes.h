// Devices that do the same work are one class: equal stage, part shapes and links. Ordering and
// packing look at one representative of each class; the full program takes both over. That is
// enough: every cycle of the full program maps to a closed walk of the quotient with the same
// tokens, and the ranks of the quotient's run rise along every wait of the full program.
#ifndef SLUICE_FRAMEWORK_COMPILER_DEVICE_CLASSES_H_
#define SLUICE_FRAMEWORK_COMPILER_DEVICE_CLASSES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

class DeviceClasses {
 public:
  // Coarsest classes under which actors, their instructions and the classes of what they read
  // agree, one by one. `base`: by device of the plan, where its packed bytes begin. The program
  // must outlive this.
  DeviceClasses(const plan::Program& program, absl::Span<const int64_t> base);

  int num_classes() const { return num_classes_; }
  // The first device of the class of a device.
  int32_t representative(int32_t device) const { return representative_[device]; }

  // The program of the representatives alone, with their device numbers; what they read from other
  // devices they read from those devices' representatives.
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
  std::vector<uint64_t> Signatures(const std::vector<uint64_t>& classes) const;

  const plan::Program& program_;
  std::vector<Own> own_;        // by device
  std::vector<int32_t> place_;  // of a register among those of its device
  std::vector<int32_t> local_place_, actor_place_;
  std::vector<int32_t> representative_;
  std::vector<int32_t> global_;  // registers of the session, which belong to no device
  // From the full program's numbers to the quotient's; -1: not in it.
  std::vector<int32_t> to_stream_, to_actor_, to_register_, to_local_;
  int num_classes_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_DEVICE_CLASSES_H_
