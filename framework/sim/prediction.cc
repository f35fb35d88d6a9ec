#include "framework/sim/prediction.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/actor/worker_layout.h"
#include "framework/base/status.h"
#include "framework/plan/program_index.h"
#include "framework/sim/cache_model.h"
#include "framework/tensor/dtype.h"

namespace sluice {
namespace {

int64_t BytesOf(const plan::Operand& operand) {
  int64_t bytes = SizeOf(static_cast<DType>(operand.shard().dtype()));
  for (int64_t extent : operand.shard().local()) bytes *= extent;
  return bytes;
}

// What an instruction takes, by what its worker's cache holds when it begins.
class CachedTimes {
 public:
  CachedTimes(const ProgramIndex& index, int workers, int64_t cache_bytes)
      : index_(index), caches_(workers, CacheModel(cache_bytes)) {}

  int64_t Duration(int32_t worker, const Actor& actor) {
    const plan::Instruction& instruction = actor.instruction();
    int64_t bytes = 0, missed = 0, operand = 0;
    for (const auto* operands : {&instruction.inputs(), &instruction.outputs()}) {
      const bool made = operands == &instruction.outputs();
      for (const plan::Operand& x : *operands) {
        const int64_t size = BytesOf(x);
        const Place place = PlaceOf(actor, x, static_cast<int>(operand++));
        bytes += size;
        missed += caches_[worker].Touch(place.space, place.begin, size);
        if (!made && !x.updates()) continue;
        for (int32_t w = 0; w < static_cast<int32_t>(caches_.size()); ++w) {
          if (w != worker) caches_[w].Forget(place.space, place.begin, size);
        }
      }
    }
    const double share = bytes == 0 ? 0 : static_cast<double>(missed) / static_cast<double>(bytes);
    return instruction.nanoseconds() +
           static_cast<int64_t>(share * static_cast<double>(instruction.cold_nanoseconds()));
  }

 private:
  struct Place {
    int64_t space, begin;
  };

  // A device's memory is a space of addresses; what the plan gives no offset, each its own.
  Place PlaceOf(const Actor& actor, const plan::Operand& operand, int number) const {
    const plan::Program& program = index_.program();
    if (operand.storage_case() == plan::Operand::kTemporary) {
      return {index_.device_of(actor.id()),
              program.temporaries(operand.temporary()).offset() + operand.offset()};
    }
    const plan::Register& reg = program.registers(operand.register_());
    if (reg.slot_offsets_size() == 0) return {-1 - int64_t{operand.register_()}, operand.offset()};
    return {reg.device(),
            index_.SlotOffset(operand.register_(), actor.SlotOf(number)) + operand.offset()};
  }

  const ProgramIndex& index_;
  std::vector<CacheModel> caches_;
};

}  // namespace

absl::StatusOr<WorkerClockResult> PredictSteps(const plan::Program& program, int devices,
                                               const Machine& machine, int steps,
                                               const Stop& stop) {
  if (devices < 1 || machine.cores < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("prediction: expected a device and a calibrated machine of at least one core, "
                     "got ",
                     devices, " and ", machine.cores));
  }
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(program));
  WorkerClockOptions options;
  options.workers = WorkersFor(devices, machine.cores);
  options.devices = devices;
  options.steps = steps;
  options.stop = stop;
  options.message_latency = machine.link(LinkKind::kProcess).latency_nanoseconds;
  options.wake_latency = machine.wake_nanoseconds;
  CachedTimes times(index, WorkerLayout{devices, options.workers}.workers(),
                    machine.cache_bytes * std::max<int64_t>(1, machine.cores / devices));
  options.duration = [&times](int32_t worker, const Actor& actor) {
    return times.Duration(worker, actor);
  };
  return RunWorkerClock(index, options);
}

}  // namespace sluice
