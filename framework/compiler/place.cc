#include "framework/compiler/place.h"

#include <utility>

#include "framework/actor/virtual_clock.h"
#include "framework/base/status.h"
#include "framework/compiler/expansion.h"
#include "framework/plan/program_index.h"
#include "framework/plan/proof.h"
#include "framework/plan/validate.h"

namespace sluice {
namespace {

void End(const PhaseEnd& phase_end, absl::string_view phase) {
  if (phase_end) phase_end(phase);
}

}  // namespace

absl::StatusOr<Ordered> OrderProgram(plan::Program program, const PhaseEnd& phase_end) {
  Ordered ordered{std::move(program)};
  RETURN_IF_ERROR(RecordOrder(&ordered.program).status());
  End(phase_end, "order");
  return ordered;
}

// The proof and the prediction come after packing, as reuse edges are waits, too.
absl::StatusOr<Placed> PlaceProgram(Ordered ordered, absl::Span<const int64_t> base,
                                    const PhaseEnd& phase_end) {
  Placed placed;
  placed.program = std::move(ordered.program);
  PackingOptions options;
  options.base.assign(base.begin(), base.end());
  ASSIGN_OR_RETURN(Packing packing, PackMemory(&placed.program, options));
  placed.devices = std::move(packing.devices);
  End(phase_end, "pack");
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(placed.program));
  RETURN_IF_ERROR(ValidateProgram(index));
  Certificate certificate;
  RETURN_IF_ERROR(ProveLive(index, &certificate));
  End(phase_end, "prove");
  ClockOptions clock;
  clock.steps = 3;
  ASSIGN_OR_RETURN(ClockResult run, RunClock(index, clock));
  placed.program.set_predicted_nanoseconds(run.step_nanoseconds);
  placed.begin_rank = std::move(run.begin_rank);
  placed.end_rank = std::move(run.end_rank);
  End(phase_end, "predict");
  return placed;
}

absl::StatusOr<RankProgram> ExpandPlaced(const Placed& placed,
                                         absl::Span<const int32_t> representatives,
                                         absl::Span<const int64_t> top, plan::Program program,
                                         const PhaseEnd& phase_end) {
  const Expansion expansion(placed.program, program, representatives);
  RETURN_IF_ERROR(expansion.Expand(&program));
  program.set_predicted_nanoseconds(placed.program.predicted_nanoseconds());
  End(phase_end, "expand");
  InstanceRanks ranks = expansion.Lift(placed.begin_rank, placed.end_rank);
  RankProgram out;
  ASSIGN_OR_RETURN(out.staging, PackStaging(top, ranks.begin, ranks.end, &program));
  RETURN_IF_ERROR(AddReuseEdges(&program, ranks.begin, ranks.end));
  End(phase_end, "reuse edges");
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(program));
  RETURN_IF_ERROR(ValidateProgram(index));
  RETURN_IF_ERROR(CheckCertificate(index, Certificate{std::move(ranks.begin)}));
  End(phase_end, "check");
  out.program = std::move(program);
  return out;
}

}  // namespace sluice
