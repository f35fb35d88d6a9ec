#include "framework/compiler/place.h"

#include <utility>

#include "framework/actor/virtual_clock.h"
#include "framework/base/status.h"
#include "framework/compiler/expansion.h"
#include "framework/plan/proof.h"
#include "framework/plan/validate.h"

namespace sluice {
namespace {

absl::Status End(const PhaseEnd& phase_end, const Stop& stop, absl::string_view phase) {
  if (phase_end) phase_end(phase);
  return CheckStop(stop);
}

}  // namespace

absl::StatusOr<Ordered> OrderProgram(Schedule schedule, const PhaseEnd& phase_end,
                                     const Stop& stop) {
  Ordered ordered{std::move(schedule.program)};
  RETURN_IF_ERROR(RecordOrder(&ordered.program, stop).status());
  RETURN_IF_ERROR(End(phase_end, stop, "order"));
  return ordered;
}

// The proof and the prediction come after packing, as reuse edges are waits, too.
absl::StatusOr<Placed> PlaceProgram(Ordered ordered, const PackingOptions& options,
                                    const PhaseEnd& phase_end) {
  const Stop& stop = options.stop;
  Placed placed;
  placed.program = std::move(ordered.program);
  placed.base = options.base;
  ASSIGN_OR_RETURN(Packing packing, PackMemory(&placed.program, options));
  placed.devices = std::move(packing.devices);
  RETURN_IF_ERROR(End(phase_end, stop, "pack"));
  RETURN_IF_ERROR(ValidateProgram(packing.index));
  Certificate certificate;
  RETURN_IF_ERROR(ProveLive(packing.index, &certificate, nullptr, stop));
  RETURN_IF_ERROR(End(phase_end, stop, "prove"));
  ClockOptions clock;
  clock.steps = 3;
  clock.stop = stop;
  ASSIGN_OR_RETURN(ClockResult run, RunClock(packing.index, clock));
  placed.program.set_predicted_nanoseconds(run.step_nanoseconds);
  placed.begin_rank = std::move(run.begin_rank);
  placed.end_rank = std::move(run.end_rank);
  RETURN_IF_ERROR(End(phase_end, stop, "predict"));
  return placed;
}

absl::StatusOr<RankProgram> ExpandPlaced(const Placed& placed,
                                         absl::Span<const int32_t> representatives,
                                         Schedule schedule, const PhaseEnd& phase_end,
                                         const Stop& stop) {
  RankProgram out;
  out.program = std::move(schedule.program);
  const Expansion expansion(placed.program, out.program, representatives);
  RETURN_IF_ERROR(expansion.Expand(&out.program));
  out.program.set_predicted_nanoseconds(placed.program.predicted_nanoseconds());
  RETURN_IF_ERROR(End(phase_end, stop, "expand"));
  InstanceRanks ranks = expansion.Lift(placed.begin_rank, placed.end_rank);
  std::vector<int64_t> top;  // by device: where its bytes end and those of staging begin
  for (size_t d = 0; d < representatives.size(); ++d) {
    top.push_back(placed.base[d] + placed.devices[representatives[d]].packed);
  }
  ASSIGN_OR_RETURN(RankPacking packing, PackRank(top, ranks.begin, ranks.end, &out.program, stop));
  out.staging = std::move(packing.staging);
  RETURN_IF_ERROR(End(phase_end, stop, "pack rank"));
  RETURN_IF_ERROR(ValidateProgram(packing.index));
  RETURN_IF_ERROR(CheckStop(stop));
  RETURN_IF_ERROR(CheckCertificate(packing.index, Certificate{std::move(ranks.begin)}, stop));
  RETURN_IF_ERROR(End(phase_end, stop, "check"));
  return out;
}

}  // namespace sluice
