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

absl::StatusOr<Placed> PlaceProgram(plan::Program* program, absl::Span<const int64_t> base,
                                    const PhaseEnd& phase_end) {
  RETURN_IF_ERROR(RecordOrder(program).status());
  End(phase_end, "order");
  PackingOptions packing;
  packing.base.assign(base.begin(), base.end());
  ASSIGN_OR_RETURN(Packing packed, PackMemory(program, packing));
  End(phase_end, "pack");
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(*program));
  RETURN_IF_ERROR(ValidateProgram(index));
  Certificate certificate;
  RETURN_IF_ERROR(ProveLive(index, &certificate));
  End(phase_end, "prove");
  ClockOptions clock;
  clock.steps = 3;
  ASSIGN_OR_RETURN(ClockResult run, RunClock(index, clock));
  program->set_predicted_nanoseconds(run.step_nanoseconds);
  End(phase_end, "predict");
  return Placed{std::move(packed.devices), std::move(run.begin_rank), std::move(run.end_rank)};
}

absl::Status ExpandPlaced(const plan::Program& representative_program, const Placed& placed,
                          absl::Span<const int32_t> representatives, plan::Program* program,
                          const PhaseEnd& phase_end) {
  const Expansion expansion(*program, representatives);
  expansion.Expand(representative_program, program);
  program->set_predicted_nanoseconds(representative_program.predicted_nanoseconds());
  End(phase_end, "expand");
  Certificate certificate;
  certificate.position = expansion.LiftInstances(representative_program, placed.begin_rank);
  RETURN_IF_ERROR(AddReuseEdges(program, certificate.position,
                                expansion.LiftInstances(representative_program, placed.end_rank)));
  End(phase_end, "reuse edges");
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(*program));
  RETURN_IF_ERROR(ValidateProgram(index));
  RETURN_IF_ERROR(CheckCertificate(index, certificate));
  End(phase_end, "check");
  return absl::OkStatus();
}

}  // namespace sluice
